"""The command line, as docs/command-line.md has it: each command of the README's first screen, declared policies, exit codes and JSON."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.access.signing import SECRET, token
from tests.cli.programs import Ended
from tests.client.certificates import Authority
from tests.ports import free_port

from .api import Api
from .conftest import Embedded, Serving
from .server_process import COMMAND, environment, run

README = Path(__file__).parents[2] / "README.md"
CLUSTER = 'cluster = "standalone"\n[broker]\n[namespaces."public/default"]\nmax_consumers_per_topic = 6\n'
DECLARED = """
version: 1
namespaces: [NAMESPACE]
policies:
  - pattern: NAMESPACE/orders-*
    set: {max_consumer_per_topic: 20}
  - topic: NAMESPACE/orders-eu
    set:
      max_producer_per_topic: 5
      retention_policies: {retention_time_in_minutes: 10, retention_size_in_mb: 100}
      message_ttl_in_seconds: null
"""


@pytest.fixture
def command(embedded: Embedded) -> Callable[..., Ended]:
    """Runs a command with the shared server; its exit code must be ``code``, 0 unless it is given."""

    def command(*arguments: str, code: int = 0) -> Ended:
        ended = run(*arguments, "--server", embedded.server.address)
        assert ended.returncode == code, ended.stderr
        return ended

    return command


def parsed(ended: Ended) -> Any:
    return json.loads(ended.stdout)


def verbatim(arguments: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a command in a new process, as a shell does."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env=environment(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def follow(address: str, arguments: list[str], shows: str) -> None:
    """Runs a command until it shows something, and then ends it with Ctrl-C."""
    variables = {"TOPICPOLICIES_SERVER": address}
    with subprocess.Popen([*COMMAND, *arguments], env=environment(variables), stdout=subprocess.PIPE, text=True) as process:
        late = threading.Timer(60, process.kill)
        late.start()
        try:
            assert process.stdout is not None
            printed = ""
            while shows not in printed:
                line = process.stdout.readline()
                assert line, f"it ended, or was ended after a minute: {printed}"
                printed += line
            process.send_signal(signal.SIGINT)
            process.stdout.read()
            assert process.wait(20) == 0
        finally:
            late.cancel()
            process.kill()


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_the_first_commands_of_the_readme_work_verbatim(serving: Serving, tmp_path: Path) -> None:
    (screen,) = re.findall(r"```sh\n(topicpolicies serve .*?)```", README.read_text(), re.DOTALL)
    commands = [shlex.split(line, comments=True)[1:] for line in screen.replace("\\\n", " ").splitlines() if line]
    topic = "persistent://public/default/orders"
    shows = {
        "update": "Applied", "get": "max_producer_per_topic", "effective": "namespace", "list": topic, "history": "by ann",
        "plan": "public/default/demo", "delete": "deleted", "info": "embedded", "doctor": "0 failed", "config": "max_watches",
    }  # fmt: skip
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    server = await serving("--cluster-file", str(tmp_path / "cluster.toml"))
    variables = {"TOPICPOLICIES_SERVER": server.address, "TOPICPOLICIES_ACTOR": "ann", "COLUMNS": "200"}
    for arguments in commands:
        command, past = arguments[0], "--as-of" in arguments
        if command == "watch":
            await asyncio.to_thread(follow, server.address, arguments, topic)
        elif command != "serve":  # test_processes starts it as it stands here
            given = [str(README.parent / "docs" / each) if each == "policies.yaml" else each for each in arguments]
            ended = await asyncio.to_thread(verbatim, given, variables)
            code = 4 if past else 7 if command == "plan" else 0  # there was no document a day ago; the file is not applied yet
            assert ended.returncode == code and "Traceback" not in ended.stderr, (arguments, ended)
            assert past or shows[command] in ended.stdout, (arguments, ended)
    assert {*shows, "serve", "watch"} <= {arguments[0] for arguments in commands}


def test_update_get_list_delete_and_history_in_json(command: Callable[..., Ended], namespace: str, topic: str) -> None:
    json_of = functools.partial(command, "--output", "json", "--actor", "ann", "--reason", "a test")
    made = parsed(json_of("update", topic, "max_producer_per_topic=5", "retention_policies.retention_time_in_minutes=10",
                          "retention_policies.retention_size_in_mb=100"))  # fmt: skip
    assert made["outcome"] == "CHANGE_OUTCOME_APPLIED"
    assert made["document"]["policies"]["max_producer_per_topic"] == 5
    found = parsed(json_of("get", topic))
    assert found == made["document"]
    assert parsed(json_of("update", topic, "max_producer_per_topic=5"))["outcome"] == "CHANGE_OUTCOME_UNCHANGED"
    cleared = parsed(json_of("update", topic, "--unset", "retention_policies", "shadow_topics=[]"))
    assert cleared["document"]["policies"] == {"max_producer_per_topic": 5}
    assert [each["topic"] for each in parsed(json_of("list", namespace))["documents"]] == [topic]
    assert parsed(json_of("delete", topic))["outcome"] == "CHANGE_OUTCOME_APPLIED"
    lines = [json.loads(line)["entry"] for line in json_of("history", topic).stdout.splitlines()]
    assert {(each["origin"]["actor"], each["origin"]["reason"]) for each in lines if "TOMBSTONE" not in each["kind"]} == {("ann", "a test")}
    assert lines[-1]["document"] == made["document"], "the newest is first"


def test_values_are_parsed_by_the_type_of_their_field(command: Callable[..., Ended], topic: str) -> None:
    command("update", topic, "subscription_types_enabled=shared,key_shared", "deduplication_enabled=yes",
            "subscription_policies.`my.sub`.dispatch_rate.dispatch_throttling_rate_in_msg=5", 'persistence={"bookkeeperEnsemble": 2, '
            '"bookkeeper_write_quorum": 2, "bookkeeper_ack_quorum": 1, "managed_ledger_max_mark_delete_rate": 0.5}')  # fmt: skip
    command("update", topic, "subscription_types_enabled+=exclusive")
    command("update", topic, "subscription_types_enabled-=shared")
    policies = parsed(command("get", topic, "--output", "json"))["policies"]
    assert policies["subscription_types_enabled"] == ["SUBSCRIPTION_TYPE_KEY_SHARED", "SUBSCRIPTION_TYPE_EXCLUSIVE"]
    assert policies["deduplication_enabled"] is True
    assert policies["persistence"]["managed_ledger_max_mark_delete_rate"] == 0.5
    assert policies["subscription_policies"]["my.sub"]["dispatch_rate"]["dispatch_throttling_rate_in_msg"] == 5


def test_wrong_input_ends_with_2_and_names_everything(command: Callable[..., Ended], topic: str) -> None:
    ended = command("update", topic, "max_producer_per_topic=-1", "message_ttl_in_seconds=-1", code=2)
    assert "max_producer_per_topic" in ended.stderr and "message_ttl_in_seconds" in ended.stderr
    ended = command("--output", "json", "update", topic, "max_producer_per_topic=-1", code=2)
    error = json.loads(ended.stderr)["error"]
    assert (error["code"], error["violations"][0]["reason"]) == ("INVALID_ARGUMENT", "NEGATIVE")
    assert "max_producer_per_topic" in command("update", topic, "max_producers_per_topic=1", code=2).stderr, "the nearest name"
    assert command("update", topic, "max_producer_per_topic=many", code=2).stderr
    command("get", topic, code=4)


def test_conflicts_end_with_3(command: Callable[..., Ended], topic: str) -> None:
    version = parsed(command("update", topic, "max_producer_per_topic=1", "--output", "json"))["document"]["version"]
    command("update", topic, "max_producer_per_topic=2", "--if-version", version)
    command("update", topic, "max_producer_per_topic=3", "--if-version", version, code=3)
    command("update", topic, "max_producer_per_topic=3", "--must-not-exist", code=3)
    assert parsed(command("get", topic, "--output", "json"))["policies"] == {"max_producer_per_topic": 2}


def test_a_server_that_is_not_there_ends_with_5() -> None:
    ended = run("get", "persistent://public/default/orders", "--server", f"127.0.0.1:{free_port()}", "--timeout", "0.5")
    assert ended.returncode == 5 and "127.0.0.1" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_plan_apply_and_export_agree(command: Callable[..., Ended], namespace: str, tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(DECLARED.replace("NAMESPACE", namespace))
    command("update", f"{namespace}/orders-us", "max_producer_per_topic=1", "message_ttl_in_seconds=60")
    steps = parsed(command("plan", "-f", str(file), "--output", "json", code=7))["steps"]
    assert {each["topic"].rpartition("/")[2] for each in steps} == {"orders-us", "orders-eu"}
    command("apply", "-f", str(file))
    command("plan", "-f", str(file))
    before = command("history", namespace).stdout
    command("apply", "-f", str(file))
    assert command("history", namespace).stdout == before, "a second run writes nothing"
    kept = parsed(command("get", f"{namespace}/orders-us", "--output", "json"))["policies"]
    assert kept == {"max_consumer_per_topic": 20, "max_producer_per_topic": 1, "message_ttl_in_seconds": 60}, (
        "only what is declared changes"
    )
    exported = tmp_path / "exported.yaml"
    exported.write_text(command("export", namespace).stdout)
    command("plan", "-f", str(exported))
    command("delete", f"{namespace}/orders-eu")
    command("plan", "-f", str(exported), code=7)
    command("apply", "-f", str(exported))
    command("plan", "-f", str(file))


def test_prune_deletes_what_is_not_declared(command: Callable[..., Ended], namespace: str, tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(DECLARED.replace("NAMESPACE", namespace))
    command("update", f"{namespace}/other", "max_producer_per_topic=1")
    command("apply", "-f", str(file))
    command("get", f"{namespace}/other")
    command("apply", "-f", str(file), "--prune")
    command("get", f"{namespace}/other", code=4)


def test_a_wrong_declaration_changes_nothing(command: Callable[..., Ended], namespace: str, tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(
        DECLARED.replace("NAMESPACE", namespace).replace("max_producer_per_topic: 5", "max_producer_per_topic: -5\n      nonsense: 1")
    )
    ended = command("apply", "-f", str(file), code=2)
    assert "nonsense" in ended.stderr and re.search(r"\b1[01]\b", ended.stderr), "the line is named"
    command("get", f"{namespace}/orders-eu", code=4)


def test_a_watch_resumes_from_its_file_and_misses_nothing(command: Callable[..., Ended], namespace: str, tmp_path: Path) -> None:
    place = str(tmp_path / "place.json")
    watch = ("watch", namespace, "--mode", "every", "--until-synced", "--resume-file", place, "--output", "json")
    command("update", f"{namespace}/one", "max_producer_per_topic=1")

    def changes() -> list[tuple[str, int | None]]:
        events = [json.loads(line) for line in command(*watch).stdout.splitlines()]
        documents = [each["change"]["document"] for each in events if "change" in each]
        return [(each["topic"].rpartition("/")[2], each.get("policies", {}).get("max_producer_per_topic")) for each in documents]

    assert changes() == [("one", 1)]
    command("update", f"{namespace}/one", "max_producer_per_topic=2")
    command("update", f"{namespace}/two", "max_producer_per_topic=3")
    command("delete", f"{namespace}/two")
    assert changes() == [("one", 2), ("two", 3), ("two", None)]
    assert changes() == []


def test_diff_and_as_of_show_the_past(command: Callable[..., Ended], topic: str) -> None:
    first = parsed(command("update", topic, "max_producer_per_topic=1", "--output", "json"))["document"]["version"]
    second = parsed(command("update", topic, "max_producer_per_topic=2", "--output", "json"))["document"]["version"]
    assert parsed(command("get", topic, "--as-of", first, "--output", "json"))["policies"] == {"max_producer_per_topic": 1}
    differences = parsed(command("diff", topic, first, second, "--output", "json", code=7))["differences"]
    assert [(each["path"], each["before"], each["after"]) for each in differences] == [("max_producer_per_topic", 1, 2)]


def test_info_health_config_version_and_help(command: Callable[..., Ended]) -> None:
    assert parsed(command("info", "--output", "json"))["log"] == "LOG_KIND_EMBEDDED"
    command("health")
    command("health", "--service", "liveness")
    assert run("config").returncode == 0
    version = run("version")
    assert version.returncode == 0 and re.search(r"\d+\.\d+\.\d+", version.stdout)
    ended = run("update", "--help")
    assert ended.returncode == 0 and "topicpolicies update" in ended.stdout, "help has examples"


def test_doctor_finds_a_sound_server_sound(command: Callable[..., Ended], namespace: str) -> None:
    report = parsed(command("doctor", "--scratch", namespace, "--output", "json"))
    assert report["well"] is True
    assert {each["level"] for each in report["checks"]} <= {"ok", "warning", "skipped"}


def test_output_into_a_closed_pipe_ends_without_a_traceback(embedded: Embedded, topic: str, tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with (tmp_path / "errors").open("w+") as errors, os.fdopen(write, "wb") as closed:
        arguments = [*COMMAND, "history", topic, "--server", embedded.server.address]
        ended = subprocess.run(
            arguments, env=environment(), stdin=subprocess.DEVNULL, stdout=closed, stderr=errors, timeout=60, check=False
        )
        errors.seek(0)
        assert "Traceback" not in errors.read()
    assert ended.returncode in (0, 1)


async def test_a_token_file_names_the_caller(serving: Serving, tmp_path: Path, topic: str) -> None:
    (tmp_path / "secret.key").write_bytes(SECRET)
    (tmp_path / "token").write_text(token(sub="ann"))
    options = ["--authentication-providers", "token", "--token-secret-key", str(tmp_path / "secret.key"), "--allow-authenticated"]
    server = await serving(*options)

    def update(**variables: str) -> Ended:
        given = ("--output", "json", "--actor", "ceo", "update", topic, "max_producer_per_topic=1", "--server", server.address)
        return run(*given, variables=variables)

    refused = await asyncio.to_thread(update)
    assert refused.returncode == 1 and json.loads(refused.stderr)["error"]["reason"] == "CREDENTIALS_MISSING"
    assert (await asyncio.to_thread(update, TOPICPOLICIES_TOKEN_FILE=str(tmp_path / "token"))).returncode == 0
    async with Api(server.address, metadata=(("authorization", f"Bearer {token()}"),)) as api:
        (entry,) = await api.history(topic)
    assert (entry.actor, entry.claimed_actor) == ("ann", "ceo")


def test_options_come_from_the_environment_before_the_file(tmp_path: Path) -> None:
    (tmp_path / "sidecar.toml").write_text("max_watches = 11\nmax_selectors_per_watch = 11\nupdate_timeout_seconds = 11\n")
    variables = {"TOPICPOLICIES_CONFIG": str(tmp_path / "sidecar.toml"), "TOPICPOLICIES_MAX_SELECTORS_PER_WATCH": "12"}
    ended = run("config", "--output", "json", variables=variables)
    options = json.loads(ended.stdout)["options"]
    found = {
        name: (options[name]["value"], options[name]["source"]) for name in ("max_watches", "max_selectors_per_watch", "drain_seconds")
    }
    assert [str(value) for value, _ in found.values()] == ["11", "12", "10.0"], found
    assert [source for _, source in found.values()] == ["file", "environment", "default"]
    (tmp_path / "sidecar.toml").write_text("max_watch = 11\nmax_loaded_document_bytes = 0\n")
    ended = run("config", variables=variables)
    assert ended.returncode == 2
    assert "max_watches" in ended.stderr and "max_loaded_document_bytes" in ended.stderr, "all errors at once, with what was meant"


# The environment of a client

DOCKERFILE = README.parent / "Dockerfile"
COMMANDS_PAGE = README.parent / "docs/command-line.md"


async def test_the_health_check_of_the_image_needs_nothing_but_the_environment_with_tls(serving: Serving, tmp_path: Path) -> None:
    health = re.search(r'^HEALTHCHECK .* CMD \["topicpolicies", "(\w+)"\]$', DOCKERFILE.read_text(), re.MULTILINE)
    assert health is not None
    (tmp_path / "others").mkdir()
    authority, others = Authority(tmp_path, "authority"), Authority(tmp_path / "others", "others")
    own, mine, theirs = authority.identity("server", "127.0.0.1", "sidecar.example"), authority.identity("check"), others.identity("check")
    shown = grpc.ssl_channel_credentials(authority.certificate.read_bytes(), mine.key.read_bytes(), mine.certificate.read_bytes())
    options = ["--tls-certificate", str(own.certificate), "--tls-key", str(own.key), "--tls-client-ca", str(authority.certificate)]
    server = await serving(*options, credentials=shown)
    right = {
        "SERVER": server.address,
        "TIMEOUT": "2",
        "CLIENT_TLS_CA": authority.certificate,
        "CLIENT_TLS_CERTIFICATE": mine.certificate,
        "CLIENT_TLS_KEY": mine.key,
        "CLIENT_TLS_SERVER_NAME": "sidecar.example",
    }
    for code, changed in (
        (0, {}),
        (5, {"CLIENT_TLS_CA": others.certificate}),
        (5, {"CLIENT_TLS_CERTIFICATE": theirs.certificate, "CLIENT_TLS_KEY": theirs.key}),
        (5, {"CLIENT_TLS_SERVER_NAME": "elsewhere.example"}),
        (5, {name: "" for name in right if name.startswith("CLIENT_")}),
        (2, {"CLIENT_TLS": "false"}),
    ):
        variables = {f"TOPICPOLICIES_{name}": str(value) for name, value in {**right, **changed}.items()}
        ended = run(health[1], variables=variables)
        assert ended.returncode == code, (changed, ended.stdout, ended.stderr)
        assert (ended.stdout == "SERVING\n") == (code == 0)


def test_each_global_option_has_a_variable_that_help_and_the_page_name() -> None:
    options = re.split(r"\n  (?=-)", run("--help").stdout.partition("Options:\n")[2].partition("\n\n")[0])
    variables = [re.findall(r"TOPICPOLICIES_\w+", option) for option in options if not re.match(r"\s*(-h|--install|--show)", option)]
    assert len(variables) > 1 and all(len(named) == 1 for named in variables), options
    page = COMMANDS_PAGE.read_text()
    assert [name for (name,) in variables if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("SERVER", "127.0.0.1:99999", "99999"),
        ("OUTPUT", "xml", "xml"),
        ("TIMEOUT", "soon", "TOPICPOLICIES_TIMEOUT"),
        ("TOKEN_FILE", "no.token", "no.token"),
        ("CLIENT_TLS", "perhaps", "TOPICPOLICIES_CLIENT_TLS"),
        ("CLIENT_TLS_CA", "no.pem", "no.pem"),
        ("CLIENT_TLS_CERTIFICATE", "no.pem", "no.pem"),
        ("CLIENT_TLS_KEY", "no.key", "no.key"),
    ],
)
def test_a_wrong_variable_of_a_client_is_refused(variable: str, value: str, says: str) -> None:
    ended = run("info", variables={f"TOPICPOLICIES_{variable}": value})
    assert ended.returncode == 2 and says in ended.stderr, ended.stderr


async def test_actor_and_reason_come_from_the_environment(embedded: Embedded, api: Api, topic: str) -> None:
    variables = {"TOPICPOLICIES_SERVER": embedded.server.address, "TOPICPOLICIES_ACTOR": "ann", "TOPICPOLICIES_REASON": "a storm"}
    ended = await asyncio.to_thread(run, "update", topic, "max_producer_per_topic=1", variables=variables)
    assert ended.returncode == 0, ended.stderr
    (entry,) = await api.history(topic)
    assert (entry.actor, entry.reason) == ("ann", "a storm")


def test_a_server_and_its_clients_share_an_environment(tmp_path: Path) -> None:
    own = Authority(tmp_path, "authority").identity("server")
    server = {"tls_certificate": str(own.certificate), "tls_key": str(own.key)}
    clients = (
        "SERVER",
        "ACTOR",
        "REASON",
        "TOKEN_FILE",
        "CLIENT_TLS_CA",
        "CLIENT_TLS_CERTIFICATE",
        "CLIENT_TLS_KEY",
        "CLIENT_TLS_SERVER_NAME",
    )
    variables = {f"TOPICPOLICIES_{name.upper()}": value for name, value in server.items()}
    variables |= {f"TOPICPOLICIES_{name}": "a.client" for name in clients}
    ended = run("config", "--output", "json", variables={**variables, "TOPICPOLICIES_CLIENT_TLS": "no", "TOPICPOLICIES_TIMEOUT": "7"})
    assert ended.returncode == 0, ended.stderr
    shown = json.loads(ended.stdout)
    assert {name: option["value"] for name, option in shown["options"].items() if option["source"] == "environment"} == server
    assert shown["ignored"] == []
