"""The doctor finds each planted fault with the check for it, and names a remedy."""

from __future__ import annotations

import email.utils
import errno
import itertools
import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest

from tests.cli.conftest import Terminal
from tests.cli.doctor.planted import ExpiredAuthority, admin_api, free_port, silent, web_token
from tests.cli.doctor.test_odd_metrics import showing
from tests.cli.real_server import LIMITS, running
from tests.client.certificates import Authority, Identity
from tests.rpc.cluster import FakeCluster
from topicpolicies import Client
from topicpolicies.v1.service_pb2 import GetPolicyRequest
from topicpolicies_server.config import Address, AuthenticationConfig, AuthorizationConfig, PulsarLogConfig, TlsConfig
from topicpolicies_server.config.authentication import TokenConfig
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.rpc.servicer import Servicer

UNWELL = 10


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal whose server does not exist, with a data folder of its own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    terminal = Terminal("127.0.0.1:1")
    terminal.environment["XDG_DATA_HOME"] = str(tmp_path / "data")
    return terminal


def examined(terminal: Terminal, *arguments: str) -> dict[str, Any]:
    """Runs the doctor; returns its checks by their names."""
    result = terminal.run("doctor", *arguments, "--output", "json")
    assert result.exit_code in (0, UNWELL), result.output
    report = json.loads(result.stdout)
    assert (result.exit_code == UNWELL) == (report["counts"]["failed"] > 0) == (not report["well"])
    for check in report["checks"]:
        assert bool(check["remedy"]) == (check["level"] in ("warning", "failed")), check
    return {check["check"]: check for check in report["checks"]}


def levels(found: dict[str, Any]) -> dict[str, str]:
    return {name: check["level"] for name, check in found.items()}


def bad(found: dict[str, Any]) -> set[str]:
    return {name for name, check in found.items() if check["level"] == "failed"}


def before_the_broker(port: int, *more: str) -> tuple[str, ...]:
    """Returns the arguments to examine only a broker."""
    return ("--pre", "--pulsar", f"pulsar://127.0.0.1:{port}", "--admin-url", f"http://127.0.0.1:{port}", "--no-history", *more)


def test_nothing_fails_for_a_server_without_faults(recorded: Terminal) -> None:
    found = examined(recorded, "--scratch", "public/a")
    assert bad(found) == set()
    assert levels(found) | {"server.service": ""} == {
        **dict.fromkeys(("address.name", "address.connect", "address.grpc", "server.liveness", "server.readiness"), "ok"),
        **dict.fromkeys(
            ("server.namespace public/a", "server.permissions public/a", "scratch.change", "scratch.readback", "scratch.removal"), "ok"
        ),
        **dict.fromkeys(("address.others", "tls.chain", "tls.name", "tls.expiry"), "skipped"),
        **dict.fromkeys(("limits.metrics", "limits.use", "limits.repairs", "limits.troubles"), "skipped"),
        "server.service": "",
    }
    with Client(recorded.address) as client:
        assert list(client.list("public/a")) == []


def test_a_port_on_which_no_server_listens_is_found(doctor: Terminal) -> None:
    found = examined(doctor, "--server", f"127.0.0.1:{free_port()}")
    assert bad(found) == {"address.connect"}
    assert "--listen" in found["address.connect"]["remedy"]


def test_a_host_name_that_can_not_be_resolved_is_found(doctor: Terminal) -> None:
    found = examined(doctor, "--server", "nowhere.invalid:6680")
    assert bad(found) == {"address.name"}
    assert "DNS" in found["address.name"]["remedy"]


def test_a_server_that_is_not_a_grpc_server_is_found(doctor: Terminal) -> None:
    with admin_api() as api:
        found = examined(doctor, "--server", f"127.0.0.1:{api.port}")
    assert bad(found) == {"address.grpc"}
    assert "HTTP/1" in found["address.grpc"]["told"] and "6680" in found["address.grpc"]["remedy"]


def test_a_server_that_accepts_connections_and_does_not_answer_is_found(doctor: Terminal) -> None:
    with silent() as port:
        found = examined(doctor, "--server", f"127.0.0.1:{port}")
    assert bad(found) == {"address.grpc"}
    assert found["address.grpc"]["remedy"]


def test_a_server_without_tls_is_found_if_tls_was_requested(terminal: Terminal) -> None:
    found = examined(terminal, "--tls")
    assert bad(found) == {"address.grpc"}
    assert "--no-tls" in found["address.grpc"]["remedy"]


def secured(identity: Identity) -> TlsConfig:
    return TlsConfig(certificate_file=identity.certificate, key_file=identity.key)


def test_a_server_with_tls_is_found_if_tls_was_not_requested(doctor: Terminal, tmp_path: Path) -> None:
    with running(None, tls=secured(Authority(tmp_path, "ours").identity("server", "localhost", "127.0.0.1"))) as address:
        found = examined(doctor, "--server", address)
    assert bad(found) == {"address.grpc"}
    assert "--tls" in found["address.grpc"]["remedy"]


def test_a_valid_certificate_that_expires_soon_is_a_warning(doctor: Terminal, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    with running(None, tls=secured(authority.identity("server", "127.0.0.1"))) as address:
        found = examined(doctor, "--server", address, "--tls-ca", str(authority.certificate))
    assert bad(found) == set()
    assert [found[f"tls.{name}"]["level"] for name in ("chain", "name", "expiry")] == ["ok", "ok", "warning"]


def test_an_expired_certificate_is_found(doctor: Terminal, tmp_path: Path) -> None:
    authority = ExpiredAuthority(tmp_path, "past")
    with running(None, tls=secured(authority.identity("server", "127.0.0.1"))) as address:
        found = examined(doctor, "--server", address, "--tls-ca", str(authority.certificate))
    assert {"tls.expiry", "server.service"} == bad(found)
    assert "new certificate" in found["tls.expiry"]["remedy"]


def test_a_certificate_for_another_name_is_found(doctor: Terminal, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    with running(None, tls=secured(authority.identity("elsewhere.test"))) as address:
        found = examined(doctor, "--server", address, "--tls-ca", str(authority.certificate))
        named = examined(doctor, "--server", address, "--tls-ca", str(authority.certificate), "--tls-server-name", "elsewhere.test")
    assert {"tls.name", "server.service"} == bad(found)
    assert "--tls-server-name" in found["tls.name"]["remedy"]
    assert bad(named) == set()


def test_a_certificate_of_an_unknown_authority_is_found(doctor: Terminal, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    with running(None, tls=secured(Authority(tmp_path, "ours").identity("server", "127.0.0.1"))) as address:
        found = examined(doctor, "--server", address, "--tls-ca", str(other.certificate))
    assert {"tls.chain", "server.service"} == bad(found)
    assert "--tls-ca" in found["tls.chain"]["remedy"]


ROLES = """
[[grants]]
roles = ["reader"]
namespaces = ["public/a"]
permissions = ["read"]
"""
SECRET = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def requiring_tokens(tmp_path: Path) -> Iterator[str]:
    """The address of a server that requires tokens."""
    key = tmp_path / "secret.key"
    key.write_bytes(SECRET.encode())
    with running(None, authentication=AuthenticationConfig(token=TokenConfig(secret_key_file=key))) as address:
        yield address


def test_an_expired_empty_or_missing_token_is_found(doctor: Terminal, requiring_tokens: str, tmp_path: Path) -> None:
    tokens = {"well": jwt.encode({"sub": "admin"}, SECRET), "ended": jwt.encode({"sub": "admin", "exp": 1}, SECRET), "none": ""}
    files = {name: tmp_path / name for name in tokens}
    for name, token in tokens.items():
        files[name].write_text(token)
    well = examined(doctor, "--server", requiring_tokens, "--token-file", str(files["well"]), "--scratch", "public/a")
    assert bad(well) == set() and well["server.token"]["level"] == "ok"
    ended = examined(doctor, "--server", requiring_tokens, "--token-file", str(files["ended"]))
    assert bad(ended) == {"server.token", "server.service"}
    for arguments in ((), ("--token-file", str(files["none"])), ("--token-file", str(tmp_path / "missing"))):
        found = examined(doctor, "--server", requiring_tokens, *arguments)
        assert bad(found) == {"server.service", *(["server.token"] if arguments else [])}
        assert "--token-file" in found["server.service"]["remedy"]
        assert not arguments or "--token-file" in found["server.token"]["remedy"]


def test_permissions_are_reported_for_each_namespace(doctor: Terminal, tmp_path: Path) -> None:
    key, roles, token = tmp_path / "secret.key", tmp_path / "roles.toml", tmp_path / "token"
    key.write_bytes(SECRET.encode())
    roles.write_text(ROLES)
    token.write_text(jwt.encode({"sub": "reader"}, SECRET))
    tokens = AuthenticationConfig(token=TokenConfig(secret_key_file=key))
    with running(tmp_path, authentication=tokens, authorization=AuthorizationConfig(file=roles)) as address:
        arguments = ("--server", address, "--token-file", str(token), "--namespace", "public/a", "--namespace", "public/b")
        found = examined(doctor, *arguments)
    assert found["server.permissions public/a"]["told"] == "you may read; not: change, list the history"
    assert bad(found) == {"server.namespace public/b", "server.permissions public/b"}
    assert found["server.permissions public/b"]["told"].startswith("you may do nothing")
    assert "--authorization" in found["server.permissions public/b"]["remedy"]


def test_a_server_that_can_not_reach_its_change_log_is_found(doctor: Terminal) -> None:
    cluster = FakeCluster()
    config = PulsarLogConfig(service_url=cluster.service_url, admin_url=cluster.admin_url)
    with running(None, log=config, limits=replace(LIMITS, drain_seconds=0.5, log_patience_seconds=1.0)) as address:
        deadline = time.monotonic() + 30
        while not bad(found := examined(doctor, "--server", address)) and time.monotonic() < deadline:
            time.sleep(0.2)
    assert bad(found) == {"server.readiness"}
    assert "NOT_SERVING" in found["server.readiness"]["told"] and "--config" in found["server.readiness"]["remedy"]
    assert found["server.liveness"]["level"] == "ok"


def test_a_limit_that_is_nearly_reached_is_a_warning_and_a_reached_one_a_failure(doctor: Terminal) -> None:
    at = Address("127.0.0.1", free_port())
    limits = replace(LIMITS, max_watches=5)
    with running(None, metrics_listen=at, limits=limits) as address, Client(address) as client, ExitStack() as stack:
        found = examined(doctor, "--server", address, "--metrics", str(at))
        assert bad(found) == set() and found["limits.use"]["level"] == "ok"
        assert "max_watches: 0 of 5" in found["limits.use"]["told"] and "ulimit -n: " in found["limits.use"]["told"]
        assert found["server.clock"]["level"] == "ok"
        for _ in range(4):
            watch = stack.enter_context(client.watch(namespaces=["public/a"]))
            next(iter(watch))
        found = examined(doctor, "--server", address, "--metrics", str(at))
        assert bad(found) == set() and found["limits.use"]["level"] == "warning"
        assert "max_watches: 4 of 5" in found["limits.use"]["told"] and "Raise max_watches before" in found["limits.use"]["remedy"]
        next(iter(stack.enter_context(client.watch(namespaces=["public/a"]))))
        found = examined(doctor, "--server", address, "--metrics", str(at))
        assert bad(found) == {"limits.use"} and "max_watches: 5 of 5" in found["limits.use"]["told"]


def test_a_limit_that_the_server_does_not_report_is_not_taken_from_the_defaults(doctor: Terminal) -> None:
    with showing("topicpolicies_documents 1\ntopicpolicies_watches 9999\n") as at, running(None) as address:
        found = examined(doctor, "--server", address, "--metrics", at)
    assert found["limits.use"]["level"] == "skipped" and "or no limits" in found["limits.use"]["told"]


def test_a_wrong_clock_of_the_server_is_found(doctor: Terminal) -> None:
    with admin_api(date=email.utils.formatdate(time.time() - 3600, usegmt=True)) as api, running(None) as address:
        found = examined(doctor, "--server", address, "--metrics", f"127.0.0.1:{api.port}")
    assert bad(found) == {"server.clock", "limits.metrics"}
    assert "behind" in found["server.clock"]["told"] and "NTP" in found["server.clock"]["remedy"]


@pytest.mark.parametrize("reads", ["nothing", "an error"])
def test_a_change_that_is_not_read_back_is_found(doctor: Terminal, monkeypatch: pytest.MonkeyPatch, reads: str) -> None:
    real = Servicer.get_policy

    async def elsewhere(self: Servicer, message: GetPolicyRequest, context: Any) -> bytes:
        if reads == "an error":
            raise PolicyError(Kind.FAILED_PRECONDITION, Reason.VERSION_NOT_REACHED, "The view has not come so far.")
        return await real(self, GetPolicyRequest(topic=message.topic + "-another"), context)

    monkeypatch.setattr(Servicer, "get_policy", elsewhere)
    with running(None) as address:
        found = examined(doctor, "--server", address, "--scratch", "public/a")
    assert bad(found) == {"scratch.readback"}
    assert "reads its change log" in found["scratch.readback"]["remedy"]
    assert found["scratch.removal"]["level"] == "ok", "the scratch document is removed all the same"


def test_nothing_fails_for_a_broker_without_faults(doctor: Terminal) -> None:
    with admin_api() as api:
        found = examined(doctor, *before_the_broker(api.port, "--namespace", "public/default"))
    assert bad(found) == set()
    assert not any("schema" in path for path in api.asked), "a request for the schema would create the log"


def test_an_expired_token_for_the_broker_is_found(doctor: Terminal, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(web_token(sub="sidecar", exp=time.time() - 7200))
    no_entry = (401, {"reason": "Token expired"})
    with admin_api({"clusters": no_entry, "tenants": no_entry}) as api:
        found = examined(doctor, *before_the_broker(api.port, "--pulsar-token-file", str(token)))
    assert bad(found) == {"token.own", "token.accepted"}
    assert "sidecar" in found["token.own"]["told"] and "--pulsar-token-file" in found["token.own"]["remedy"]
    assert "Token expired" in found["token.accepted"]["told"]


def test_an_issuer_that_refuses_a_token_for_the_broker_is_found(doctor: Terminal, tmp_path: Path) -> None:
    credentials = tmp_path / "credentials.json"
    credentials.write_text(json.dumps({"client_id": "sidecar", "client_secret": "s3cret"}))
    with admin_api() as api:
        issued = ("--pulsar-oauth2-issuer", f"http://127.0.0.1:{api.port}", "--pulsar-oauth2-credentials", str(credentials))
        found = examined(doctor, *before_the_broker(api.port, *issued))
    assert "token.own" in bad(found)
    assert "issuer" in found["token.own"]["told"] and "--pulsar-oauth2-credentials" in found["token.own"]["remedy"]
    assert "s3cret" not in json.dumps(found)


def test_a_wrong_name_or_a_missing_client_certificate_for_the_broker_is_found(doctor: Terminal, tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    client = ours.identity("sidecar")
    trusting = ("--pulsar-tls-trust-certs", str(ours.certificate))
    shown = ("--pulsar-tls-certificate", str(client.certificate), "--pulsar-tls-key", str(client.key))
    with admin_api(tls=(ours.identity("broker", "elsewhere.test"), ours.certificate)) as api:
        reached = (
            "--pre",
            "--pulsar",
            f"pulsar+ssl://127.0.0.1:{api.port}",
            "--admin-url",
            f"https://127.0.0.1:{api.port}",
            "--no-history",
        )
        named = examined(doctor, *reached, *trusting, *shown)
        found = examined(doctor, *reached, *trusting, *shown, "--no-pulsar-tls-validate-hostname")
        without = examined(doctor, *reached, *trusting, "--no-pulsar-tls-validate-hostname")
    assert {"broker-tls.name", "admin-tls.name", "broker.admin"} <= bad(named)
    assert bad(found) == set() and found["admin-tls.name"]["level"] == "skipped"
    assert "its certificate" in found["token.accepted"]["told"]
    assert "broker.admin" in bad(without)


def test_disabled_topic_policies_of_the_brokers_are_found(doctor: Terminal) -> None:
    with admin_api({"brokers/configuration/runtime": (200, {"topicLevelPoliciesEnabled": "false"})}) as api:
        found = examined(doctor, *before_the_broker(api.port))
    assert bad(found) == {"broker.policies"}
    assert "topicLevelPoliciesEnabled=true" in found["broker.policies"]["remedy"]


def test_a_role_without_the_permissions_that_it_needs_is_found(doctor: Terminal) -> None:
    forbidden = (403, {"reason": "no"})
    refused = {"tenants": forbidden, "namespaces/public": forbidden, "brokers/configuration/runtime": forbidden}
    with admin_api(refused) as api:
        found = examined(doctor, *before_the_broker(api.port, "--namespace", "public/default"))
    assert bad(found) == {"token.tenant public/default"}
    assert "--admin-roles" in found["token.tenant public/default"]["remedy"]
    assert found["broker.policies"]["level"] == "warning"


@pytest.mark.parametrize(("named", "level"), [((), "warning"), (("--superuser-roles", "root"), "ok")])
def test_unknown_superusers_of_the_brokers_are_a_warning_unless_they_are_named(
    doctor: Terminal, tmp_path: Path, named: tuple[str, ...], level: str
) -> None:
    key = tmp_path / "secret.key"
    key.write_bytes(SECRET.encode())
    options = ("--authentication-providers", "token", "--token-secret-key", str(key), "--authorization-by-brokers", *named)
    with admin_api({"tenants": (403, {"reason": "no"})}) as api:
        found = examined(doctor, *before_the_broker(api.port, *options))
    assert bad(found) == set()
    assert found["token.role"]["level"] == level
    assert level == "ok" or "--superuser-roles" in found["token.role"]["remedy"]


def test_a_wrong_clock_of_the_broker_is_found(doctor: Terminal) -> None:
    with admin_api(date=email.utils.formatdate(time.time() + 3600, usegmt=True)) as api:
        found = examined(doctor, *before_the_broker(api.port))
    assert bad(found) == {"clock.broker"}
    assert "ahead" in found["clock.broker"]["told"] and "NTP" in found["clock.broker"]["remedy"]


def test_a_version_of_the_broker_with_known_faults_is_a_warning(doctor: Terminal) -> None:
    with admin_api({"brokers/version": (200, "4.0.0")}) as api:
        found = examined(doctor, *before_the_broker(api.port))
    assert bad(found) == set()
    assert found["broker.version"]["level"] == "warning"
    assert "PIP-428" in found["broker.version"]["told"] and "4.0.6" in found["broker.version"]["remedy"]


def test_a_missing_namespace_is_found(doctor: Terminal) -> None:
    with admin_api() as api:
        found = examined(doctor, *before_the_broker(api.port, "--namespace", "public/none"))
    assert bad(found) == {"broker.namespace public/none"}
    assert "namespaces create public/none" in found["broker.namespace public/none"]["remedy"]


def test_a_foreign_schema_of_the_change_log_is_found(doctor: Terminal) -> None:
    log = "public/default/__change_events"
    answers = {f"persistent/{log}/partitions": (200, {"partitions": 0}), f"schemas/{log}/schema": (200, {"type": "STRING", "data": ""})}
    with admin_api(answers) as api:
        found = examined(doctor, *before_the_broker(api.port, "--namespace", "public/default"))
    assert bad(found) == {"broker.schema public/default"}
    assert "schemas get" in found["broker.schema public/default"]["remedy"]


def test_an_admin_url_of_another_service_or_of_none_is_found(doctor: Terminal) -> None:
    with silent() as port, admin_api({"brokers/version": (200, "<html>a proxy</html>")}) as api:
        lost = examined(doctor, "--pre", "--pulsar", f"pulsar://127.0.0.1:{port}", "--admin-url", f"http://127.0.0.1:{free_port()}")
        proxy = examined(doctor, *before_the_broker(api.port))
    assert bad(lost) == bad(proxy) == {"broker.admin"}
    assert "--admin-url" in lost["broker.admin"]["remedy"]


def test_a_folder_that_can_not_be_written_to_is_found(doctor: Terminal, tmp_path: Path) -> None:
    read_only = "/proc/self/history.db"  # not even root can create files here
    found = examined(doctor, "--pre", "--data", str(tmp_path / "p.db"), "--history", read_only, "--no-checkpoints")
    assert bad(found) == {"disk.history"}
    assert "--history" in found["disk.history"]["remedy"]
    assert list(tmp_path.iterdir()) == [], "the examination leaves no files"


def test_a_full_disk_is_found(doctor: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("topicpolicies_server.cli.doctor.disk.tempfile.TemporaryFile", full)
    found = examined(doctor, "--pre", "--data", str(tmp_path / "p.db"), "--no-history", "--no-checkpoints")
    assert bad(found) == {"disk.log"}
    assert found["disk.log"]["remedy"] == f"Make room on the disk of {tmp_path}."


def test_invalid_options_are_found(doctor: Terminal, tmp_path: Path) -> None:
    found = examined(doctor, "--pre", "--data", str(tmp_path / "p.db"), "--max-watches", "0", "--guard", "a/b")
    assert bad(found) == {"options.valid"}
    assert "topicpolicies config" in found["options.valid"]["remedy"]


def test_the_output_for_people_is_at_most_80_columns_wide(terminal: Terminal) -> None:
    result = terminal.run("doctor", "--tls")
    assert result.exit_code == UNWELL
    assert [line for line in result.stdout.splitlines() if len(line) > 80] == []
    assert "    remedy: " in result.stdout and result.stdout.splitlines()[-1].startswith("15 checks: 1 failed")


def test_checks_skipped_for_the_same_reason_are_shown_on_one_line(terminal: Terminal) -> None:
    result = terminal.run("doctor", "--tls")
    lines = result.stdout.splitlines()
    assert "- tls.chain, tls.name, tls.expiry: not checked: first address.grpc must hold" in "\n".join(lines).replace("[skipped]", "-")
    assert "(gRPC is spoken" in " ".join(result.stdout.split())
    groups = [above for above, below in itertools.pairwise(lines) if below and set(below) == {"-"}]
    assert groups == ["address", "tls", "server", "limits", "scratch"]


def test_each_group_is_shown_in_one_place_except_checks_that_need_a_later_group(doctor: Terminal) -> None:
    with admin_api() as api:
        result = doctor.run("doctor", *before_the_broker(api.port, "--namespace", "public/a", "--namespace", "public/b"))
    lines = result.stdout.splitlines()
    groups = [above for above, below in itertools.pairwise(lines) if below and set(below) == {"-"}]
    assert groups == ["options", "broker", "token", "broker", "clock", "disk"]


def test_a_metrics_address_at_which_nothing_listens_is_named(recorded: Terminal) -> None:
    port = free_port()
    found = examined(recorded, "--metrics", f"127.0.0.1:{port}")
    assert bad(found) == {"limits.metrics"}
    assert found["limits.metrics"]["told"] == f"127.0.0.1:{port}: Connection refused"
