"""The doctor finds each planted fault with the check for it, and names a remedy."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest

from tests.cli.conftest import Terminal
from tests.cli.doctor.planted import admin_api, free_port, silent
from tests.cli.real_server import LIMITS, running
from tests.client.certificates import Authority
from tests.rpc.cluster import FakeCluster
from topicpolicies import Client
from topicpolicies_server.config import AuthenticationConfig, AuthorizationConfig, PulsarLogConfig, TlsConfig
from topicpolicies_server.config.callers import TokenConfig

UNWELL = 10
SECRET = "0123456789abcdef0123456789abcdef"
ROLES = """
[[grants]]
roles = ["reader"]
namespaces = ["public/a"]
permissions = ["read"]
"""


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


def bad(found: dict[str, Any]) -> set[str]:
    return {name for name, check in found.items() if check["level"] == "failed"}


@pytest.mark.parametrize("server", ["localhost:6680", "localhost"])
def test_a_server_that_is_named_is_checked_and_not_the_one_of_the_file(doctor: Terminal, tmp_path: Path, server: str) -> None:
    file = tmp_path / "d.toml"
    file.write_text('listen = "127.0.0.1:9"')
    del doctor.environment["TOPICPOLICIES_SERVER"]
    assert "127.0.0.1:9" in examined(doctor, "--config", str(file), "--timeout", "1")["address"]["told"]
    for before, after in (((), ("--server", server)), (("--server", server), ())):
        result = doctor.run(*before, "doctor", "--config", str(file), "--timeout", "1", *after, "-o", "json")
        assert json.loads(result.stdout)["checks"][0]["told"].startswith("localhost:6680")
    doctor.environment["TOPICPOLICIES_SERVER"] = server
    assert examined(doctor, "--config", str(file), "--timeout", "1")["address"]["told"].startswith("localhost:6680")


def before_the_start(port: int, *more: str) -> tuple[str, ...]:
    """Returns the arguments to check only brokers."""
    return ("--pre", "--pulsar", f"pulsar://127.0.0.1:{port}", "--admin-url", f"http://127.0.0.1:{port}", "--no-history", *more)


def test_nothing_fails_for_a_server_without_faults_and_nothing_is_changed(recorded: Terminal) -> None:
    found = examined(recorded, "--scratch", "public/a")
    names = ("address", "server.service", "server.readiness", "server.namespace public/a", "scratch.change")
    assert {name: check["level"] for name, check in found.items()} == dict.fromkeys(names, "ok")
    assert found["server.namespace public/a"]["told"] == "it has no document"
    with Client(recorded.address) as client:
        assert list(client.list("public/a")) == []
        assert [page.entries for page in client.history_pages(namespace="public/a")] in ([], [[]])


def test_a_port_on_which_no_server_listens_is_found(doctor: Terminal) -> None:
    found = examined(doctor, "--server", f"127.0.0.1:{free_port()}")
    assert bad(found) == {"address"}
    assert "Connection refused" in found["address"]["told"] and "listens there" in found["address"]["remedy"]
    assert found["server.service"]["level"] == "skipped" and "address" in found["server.service"]["told"]


def test_a_host_name_that_can_not_be_resolved_is_found(doctor: Terminal) -> None:
    found = examined(doctor, "--server", "nowhere.invalid:6680")
    assert bad(found) == {"address"}
    assert "DNS" in found["address"]["remedy"]


def test_a_server_that_is_not_a_grpc_server_or_does_not_answer_is_found(doctor: Terminal) -> None:
    with admin_api() as api, silent() as port:
        for other in (api.port, port):
            found = examined(doctor, "--server", f"127.0.0.1:{other}")
            assert bad(found) == {"server.service"}
            assert "6680" in found["server.service"]["remedy"]


def test_tls_on_one_side_only_and_untrusted_certificates_are_found(doctor: Terminal, terminal: Terminal, tmp_path: Path) -> None:
    plain = examined(terminal, "--tls")
    assert bad(plain) == {"server.service"} and "--no-tls" in plain["server.service"]["told"]
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    identity = ours.identity("elsewhere", "elsewhere.test")
    trusting = ("--tls-ca", str(ours.certificate))
    with running(None, tls=TlsConfig(certificate_file=identity.certificate, key_file=identity.key)) as address:
        for arguments, option in (
            ((), "--tls"),
            (("--tls-ca", str(other.certificate)), "--tls-ca"),
            (trusting, "--tls-server-name"),
            ((*trusting, "--tls-server-name", "elsewhere.test"), ""),
        ):
            found = examined(doctor, "--server", address, *arguments)
            assert bad(found) == ({"server.service"} if option else set())
            assert option in found["server.service"]["told"] + found["server.service"]["remedy"]


@pytest.fixture
def requiring_tokens(tmp_path: Path) -> Iterator[str]:
    """The address of a server that requires tokens, and lets "reader" read public/a."""
    key, roles = tmp_path / "secret.key", tmp_path / "roles.toml"
    key.write_bytes(SECRET.encode())
    roles.write_text(ROLES)
    tokens = AuthenticationConfig(token=TokenConfig(secret_key_file=key))
    with running(tmp_path, authentication=tokens, authorization=AuthorizationConfig(file=roles)) as address:
        yield address


def test_a_missing_or_expired_token_and_missing_permissions_are_found(doctor: Terminal, requiring_tokens: str, tmp_path: Path) -> None:
    ended, token = tmp_path / "ended", tmp_path / "token"
    ended.write_text(jwt.encode({"sub": "reader", "exp": 1}, SECRET))
    token.write_text(jwt.encode({"sub": "reader"}, SECRET))
    for arguments in ((), ("--token-file", str(ended))):
        found = examined(doctor, "--server", requiring_tokens, *arguments)
        assert bad(found) == {"server.service"}
        assert found["server.service"]["remedy"].startswith("Give your token by --token-file FILE or TOPICPOLICIES_TOKEN_FILE")
    found = examined(doctor, "--server", requiring_tokens, "--token-file", str(token), "--namespace", "public/a", "--scratch", "public/b")
    assert bad(found) == {"server.namespace public/b", "scratch.change"}
    assert "--authorization" in found["server.namespace public/b"]["remedy"]


def test_a_server_that_can_not_reach_its_change_log_is_found(doctor: Terminal) -> None:
    cluster = FakeCluster()
    config = PulsarLogConfig(service_url=cluster.service_url, admin_url=cluster.admin_url)
    with running(None, log=config, limits=replace(LIMITS, drain_seconds=0.5, log_patience_seconds=1.0)) as address:
        deadline = time.monotonic() + 100
        while not bad(found := examined(doctor, "--server", address)) and time.monotonic() < deadline:
            time.sleep(0.2)
    assert bad(found) == {"server.readiness"}
    assert "NOT_SERVING" in found["server.readiness"]["told"] and "--config" in found["server.readiness"]["remedy"]


def test_nothing_fails_for_brokers_without_faults(doctor: Terminal) -> None:
    with admin_api() as api:
        found = examined(doctor, *before_the_start(api.port, "--namespace", "public/default"))
    assert bad(found) == set()
    assert not any("schema" in path for path in api.asked), "a request for the schema would create the log"


def test_a_token_that_the_brokers_refuse_is_found(doctor: Terminal, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("abc")
    with admin_api({"clusters": (401, {"reason": "Token expired"})}) as api:
        found = examined(doctor, *before_the_start(api.port, "--pulsar-token-file", str(token)))
    assert bad(found) == {"token.accepted"}
    assert "Token expired" in found["token.accepted"]["told"] and "--pulsar-token-file" in found["token.accepted"]["remedy"]


def test_a_missing_client_certificate_for_the_admin_api_is_found(doctor: Terminal, tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    client = ours.identity("sidecar")
    trusting = ("--pulsar-tls-trust-certs", str(ours.certificate))
    shown = ("--pulsar-tls-certificate", str(client.certificate), "--pulsar-tls-key", str(client.key))
    with admin_api(tls=(ours.identity("broker", "127.0.0.1"), ours.certificate)) as api:
        reached = (*before_the_start(api.port), "--admin-url", f"https://127.0.0.1:{api.port}")
        assert bad(examined(doctor, *reached, *trusting, *shown)) == set()
        assert bad(examined(doctor, *reached, *trusting)) == {"broker.admin"}


def test_disabled_topic_policies_of_the_brokers_are_found(doctor: Terminal) -> None:
    with admin_api({"brokers/configuration/runtime": (200, {"topicLevelPoliciesEnabled": "false"})}) as api:
        found = examined(doctor, *before_the_start(api.port))
    assert bad(found) == {"broker.policies"}
    assert "topicLevelPoliciesEnabled=true" in found["broker.policies"]["remedy"]


def test_a_role_without_the_permissions_that_it_needs_is_found(doctor: Terminal) -> None:
    forbidden = (403, {"reason": "no"})
    with admin_api({"namespaces/public/default": forbidden, "brokers/configuration/runtime": forbidden}) as api:
        found = examined(doctor, *before_the_start(api.port, "--namespace", "public/default"))
    assert bad(found) == {"broker.namespace public/default"}
    assert "--admin-roles" in found["broker.namespace public/default"]["remedy"]
    assert found["broker.policies"]["level"] == "warning"


def test_a_missing_namespace_is_found(doctor: Terminal) -> None:
    with admin_api() as api:
        found = examined(doctor, *before_the_start(api.port, "--namespace", "public/none"))
    assert bad(found) == {"broker.namespace public/none"}
    assert "namespaces create public/none" in found["broker.namespace public/none"]["remedy"]


def test_a_rate_that_slows_the_change_log_is_a_warning(doctor: Terminal) -> None:
    rate = {"subscriptionDispatchRate": {"standalone": {"dispatchThrottlingRateInMsg": 1, "ratePeriodInSecond": 1}}}
    with admin_api({"namespaces/public/default": (200, rate)}) as api:
        found = examined(doctor, *before_the_start(api.port, "--namespace", "public/default"))
    assert bad(found) == set() and found["broker.rates public/default"]["level"] == "warning"


def test_an_admin_url_of_another_service_or_of_none_is_found(doctor: Terminal) -> None:
    with silent() as port, admin_api({"brokers/version": (200, "<html>a proxy</html>")}) as api:
        lost = examined(doctor, "--pre", "--pulsar", f"pulsar://127.0.0.1:{port}", "--admin-url", f"http://127.0.0.1:{free_port()}")
        proxy = examined(doctor, *before_the_start(api.port))
    assert bad(lost) == bad(proxy) == {"broker.admin"}
    assert "--admin-url" in lost["broker.admin"]["remedy"]


def test_invalid_options_are_wrong_usage(doctor: Terminal, tmp_path: Path) -> None:
    code, error = doctor.failing("doctor", "--pre", "--data", str(tmp_path / "p.db"), "--max-watches", "0")
    assert (code, error["reason"]) == (2, "CONFIGURATION")


def test_the_output_for_people_ends_with_the_counts(terminal: Terminal) -> None:
    result = terminal.run("doctor", "--tls")
    assert result.exit_code == UNWELL
    assert "remedy: " in result.stdout and result.stdout.splitlines()[-1] == "3 checks: 1 failed, 0 warning, 1 skipped."
