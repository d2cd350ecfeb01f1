"""The command line, run as a user runs it: the README's first commands verbatim, exit codes, JSON, and declared policies."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.access.signing import SECRET, token

from .api import Api
from .conftest import Embedded, Serving
from .server_process import COMMAND, ServerProcess, environment
from .server_process import run as run_command

ROOT = Path(__file__).parents[2]
README_TOPIC = "persistent://public/default/orders"
CLUSTER = 'cluster = "standalone"\n[broker]\n[namespaces."public/default"]\nmax_consumers_per_topic = 6\n'


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that knows its cluster, as effective policies need it."""
    home = tmp_path_factory.mktemp("command-line")
    (home / "cluster.toml").write_text(CLUSTER)
    server = ServerProcess(["--data", str(home / "policies.db"), "--cluster-file", str(home / "cluster.toml")], home / "server.log")
    asyncio.run(server.start())
    yield server.address
    server.kill()


class Shell:
    """Runs commands against one server."""

    def __init__(self, address: str) -> None:
        self.variables = {"TOPICPOLICIES_SERVER": address, "TOPICPOLICIES_ACTOR": "gate", "COLUMNS": "200"}

    def run(self, *arguments: str, code: int = 0) -> str:
        """Runs a command that must end with this exit code; returns its output."""
        ended = run_command(*arguments, variables=self.variables)
        assert ended.returncode == code, (arguments, ended.returncode, ended.stdout, ended.stderr)
        assert "Traceback" not in ended.stderr
        return ended.stdout

    def json(self, *arguments: str, code: int = 0) -> Any:
        """Runs a command that prints one JSON document."""
        return json.loads(self.run(*arguments, "--output", "json", code=code))

    def error(self, *arguments: str, code: int) -> dict[str, Any]:
        """Runs a command that must fail; returns its error."""
        ended = run_command(*arguments, "--output", "json", variables=self.variables)
        assert ended.returncode == code, (arguments, ended.returncode, ended.stdout, ended.stderr)
        found: dict[str, Any] = json.loads(ended.stderr.splitlines()[-1])["error"]
        return found

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts a command that goes on."""
        return subprocess.Popen([*COMMAND, *arguments], env=environment(self.variables), stdout=subprocess.PIPE, text=True)


@pytest.fixture
def shell(address: str) -> Shell:
    return Shell(address)


def follow(shell: Shell, arguments: list[str], shows: str) -> None:
    """Runs a command until it shows something, and then ends it with Ctrl-C."""
    with shell.begin(*arguments) as process:
        assert process.stdout is not None
        printed = ""
        while shows not in printed:
            line = process.stdout.readline()
            assert line, f"it ended: {printed}"
            printed += line
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(20) == 0


README = re.search(r"## Use it\n\n```sh\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)


def test_the_first_commands_of_the_readme_work_verbatim_and_in_order(shell: Shell, tmp_path: Path) -> None:
    assert README is not None
    lines = README.group(1).replace("\\\n", " ").splitlines()
    commands = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("topicpolicies ")]
    assert len(commands) > 10
    expected = {"get --as-of": 4, "plan": 7}  # there was no document a day ago; and the file is not applied yet
    shows = {
        "update": "Applied", "get": "max_producer_per_topic", "effective": "namespace", "list": README_TOPIC, "history": "by gate",
        "plan": "public/default/demo", "delete": "Deleted", "info": "embedded", "doctor": "0 failed", "config": "max_watches",
    }  # fmt: skip
    ran = set()
    for arguments in commands:
        command = arguments[0]
        ran.add(command)
        if command == "serve":
            continue  # the test's own server; test_processes starts it as it stands here
        if command in ("watch", "top"):
            follow(shell, arguments, README_TOPIC if command == "watch" else "1 namespace")
            continue
        code = expected.get("get --as-of" if "--as-of" in arguments else command, 0)
        given = [str(ROOT / "docs" / each) if each == "policies.yaml" else each for each in arguments]
        printed = shell.run(*given, code=code)
        assert code == 4 or shows[command] in printed, (command, printed)
    assert {"update", "get", "effective", "list", "watch", "top", "history", "plan", "delete", "info", "doctor", "config"} < ran


# Exit codes


def test_exit_codes_and_errors_say_what_happened(shell: Shell, namespace: str) -> None:
    topic = f"persistent://{namespace}/codes"
    shell.run("update", topic, "max_producer_per_topic=5")
    error = shell.error("update", topic, "max_producer_per_topic=-1", "message_ttl_in_seconds=-1", code=2)
    assert error["code"] == "INVALID_ARGUMENT" and len(error["violations"]) == 2
    assert shell.error("update", topic, "max_producer_per_topic=6", "--etag", "0", code=3)["reason"] == "ETAG_MISMATCH"
    assert shell.error("update", topic, "max_producer_per_topic=6", "--must-not-exist", code=3)["reason"] == "DOCUMENT_EXISTS"
    assert "policies" not in shell.json("get", f"{topic}-2", code=4)
    shell.run("update", topic, "no_such=1", code=2)
    shell.run("update", topic, "max_producer_per_topic=many", code=2)
    shell.run("fly", code=2)
    shell.run("get", "nowhere", code=2)
    assert shell.json("diff", topic, "1d-ago", code=7)["differences"]
    shell.run("diff", topic, "now", code=0)
    shell.run("delete", topic)
    shell.run("delete", topic)  # an absent document is no error
    away = Shell("127.0.0.1:9")
    assert away.error("--timeout", "1", "get", topic, code=5)["code"] == "UNAVAILABLE"
    away.run("--timeout", "1", "health", code=5)


# JSON


def test_every_command_prints_json_for_programs(shell: Shell, namespace: str) -> None:
    topic = f"persistent://{namespace}/json"
    made = shell.json("update", topic, "max_producer_per_topic=5", "--reason", "because", "--request-id", "0" * 32)
    assert made["outcome"] == "UPDATE_OUTCOME_APPLIED" and made["document"]["policies"] == {"max_producer_per_topic": 5}
    assert shell.json("update", topic, "max_producer_per_topic=5", "--reason", "because", "--request-id", "0" * 32)["replayed"]
    assert shell.json("get", topic) == made["document"]
    assert {each["scope"] for each in shell.json("get", topic, "--scope", "both")["documents"]} == {"SCOPE_LOCAL", "SCOPE_GLOBAL"}
    assert shell.json("list", namespace)["documents"] == [made["document"]]
    entry = shell.json("history", topic)["entry"]
    assert (entry["origin"]["actor"], entry["origin"]["reason"]) == ("gate", "because")
    effective = shell.json("effective", "persistent://public/default/other")
    assert {"path": "max_consumer_per_topic", "source": "POLICY_SOURCE_NAMESPACE"} in effective["sources"]
    assert shell.json("info")["log"] == "LOG_KIND_EMBEDDED"
    assert shell.json("health")["status"] == "SERVING"
    assert shell.json("version")["version"]
    assert shell.json("config")["options"]
    assert shell.json("delete", topic)["outcome"] == "DELETE_OUTCOME_DELETED"


def test_values_are_read_by_the_type_of_their_field(shell: Shell, namespace: str) -> None:
    topic = f"persistent://{namespace}/values"
    shell.run(
        "update", topic, "deduplication_enabled=yes", "schema_compatibility_strategy=full_transitive", "max_producer_per_topic=0",
        'retention_policies={"retention_size_in_mb": 100, "retentionTimeInMinutes": 10}', "subscription_types_enabled=shared,key_shared",
        "subscription_policies.`my-sub`.dispatch_rate.dispatch_throttling_rate_in_msg=7",
    )  # fmt: skip
    shell.run("update", topic, "subscription_types_enabled+=failover", "--unset", "deduplication_enabled")
    shell.run("update", topic, "subscription_types_enabled-=shared", "retention_policies.retention_time_in_minutes=20")
    policies = shell.json("get", topic)["policies"]
    assert policies.pop("subscription_policies")["my-sub"]["dispatch_rate"]["dispatch_throttling_rate_in_msg"] == 7
    assert policies == {
        "schema_compatibility_strategy": "SCHEMA_COMPATIBILITY_STRATEGY_FULL_TRANSITIVE",
        "max_producer_per_topic": 0,
        "retention_policies": {"retention_size_in_mb": "100", "retention_time_in_minutes": 20},
        "subscription_types_enabled": ["SUBSCRIPTION_TYPE_KEY_SHARED", "SUBSCRIPTION_TYPE_FAILOVER"],
    }


# Declared policies


def test_plan_apply_and_export_agree_and_a_second_run_writes_nothing(shell: Shell, namespace: str, tmp_path: Path) -> None:
    orders, other = (f"persistent://{namespace}/{name}" for name in ("orders-1", "other"))
    shell.run("update", orders, "message_ttl_in_seconds=60", "max_consumer_per_topic=1")
    shell.run("update", other, "max_producer_per_topic=1")
    path = tmp_path / "policies.yaml"
    path.write_text(f"""
version: 1
namespaces: [{namespace}]
policies:
  - pattern: {namespace}/orders-*
    set: {{max_producer_per_topic: 5, message_ttl_in_seconds: null}}
  - topic: {namespace}/far
    scope: global
    set: {{max_producer_per_topic: 10}}
""")
    steps = shell.json("plan", "-f", str(path), code=7)["steps"]
    assert sorted((each["topic"].rpartition("/")[2], each["action"]) for each in steps) == [("far", "update"), ("orders-1", "update")]
    assert "policies" not in shell.json("get", f"persistent://{namespace}/far", "--scope", "global", code=4), "a plan writes nothing"
    done = shell.json("apply", "-f", str(path))
    assert (len(done["done"]), done["failed"], done["not_sent"]) == (2, [], [])
    assert shell.json("get", orders)["policies"] == {"max_producer_per_topic": 5, "max_consumer_per_topic": 1}, "the rest is left alone"
    shell.run("plan", "-f", str(path))
    before = shell.run("history", namespace, "--output", "json")
    shell.run("apply", "-f", str(path))
    assert shell.run("history", namespace, "--output", "json") == before
    (tmp_path / "export.yaml").write_text(shell.run("export", namespace))
    shell.run("plan", "-f", str(tmp_path / "export.yaml"))
    assert shell.json("apply", "-f", str(path), "--prune")["done"]
    assert "policies" not in shell.json("get", other, code=4)
    assert shell.json("get", orders)["policies"] == {"max_producer_per_topic": 5}


def test_a_wrong_file_is_refused_with_all_errors_and_nothing_is_sent(shell: Shell, namespace: str, tmp_path: Path) -> None:
    path = tmp_path / "policies.yaml"
    head, end = "version: 1\npolicies:\n", "set: {max_producer_per_topic: -1}\n"
    path.write_text(f"{head}  - topic: {namespace}/a\n    set: {{no_such: 1}}\n  - topic: nowhere\n    {end}")
    for command in ("plan", "apply"):
        ended = run_command(command, "-f", str(path), variables=shell.variables)
        assert ended.returncode == 2 and "no_such" in ended.stderr and "nowhere" in ended.stderr
    path.write_text(f"{head}  - topic: {namespace}/a\n    {end.replace('-1', '1')}  - topic: {namespace}/b\n    {end}")
    assert shell.error("apply", "-f", str(path), code=2)["refused"][0]["topic"] == f"persistent://{namespace}/b"
    assert shell.json("list", namespace)["documents"] == []


# Watching


def lines(process: subprocess.Popen[str], count: int) -> list[Any]:
    assert process.stdout is not None
    return [json.loads(process.stdout.readline()) for _ in range(count)]


def test_a_watch_resumes_from_its_file_without_loss_or_repetition(shell: Shell, namespace: str, tmp_path: Path) -> None:
    topic, place = f"persistent://{namespace}/watched", str(tmp_path / "place.json")
    shell.run("update", topic, "max_producer_per_topic=1")
    arguments = ["watch", namespace, "--mode", "every", "--output", "json", "--resume-file", place]
    with shell.begin(*arguments) as process:
        assert process.stdout is not None
        while "SYNCED" not in (line := process.stdout.readline()):
            assert line
        shell.run("update", topic, "max_producer_per_topic=2")
        (event,) = lines(process, 1)
        assert event["change"]["document"]["policies"] == {"max_producer_per_topic": 2}
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(20) == 0
    for value in (3, 4):
        shell.run("update", topic, f"max_producer_per_topic={value}")
    for expected in ([3, 4], []):
        printed = [json.loads(line) for line in shell.run(*arguments, "--until-synced").splitlines()]
        changes = [each["change"]["document"]["policies"]["max_producer_per_topic"] for each in printed if "change" in each]
        assert changes == expected


# Connections


async def test_a_token_file_is_shown_to_the_server_and_never_printed(serving: Serving, tmp_path: Path) -> None:
    (tmp_path / "secret.key").write_bytes(SECRET)
    (tmp_path / "token").write_text(token(sub="ann"))
    options = ["--authentication-providers", "token", "--token-secret-key", str(tmp_path / "secret.key"), "--allow-authenticated"]
    server = await serving(*options)
    shell = Shell(server.address)
    assert shell.error("update", README_TOPIC, "max_producer_per_topic=1", code=1)["reason"] == "CREDENTIALS_MISSING"
    shell.variables["TOPICPOLICIES_TOKEN_FILE"] = str(tmp_path / "token")
    shell.run("update", README_TOPIC, "max_producer_per_topic=1")
    entry = shell.json("history", README_TOPIC)["entry"]
    assert (entry["origin"]["actor"], entry["origin"]["claimed_actor"]) == ("ann", "gate")


async def test_options_come_from_flag_environment_and_file_in_that_order(tmp_path: Path) -> None:
    (tmp_path / "sidecar.toml").write_text("max_watches = 11\nmax_selectors_per_watch = 11\nupdate_timeout_seconds = 11\n")
    variables = {"TOPICPOLICIES_CONFIG": str(tmp_path / "sidecar.toml"), "TOPICPOLICIES_MAX_SELECTORS_PER_WATCH": "12"}
    ended = await asyncio.to_thread(run_command, "config", "--output", "json", variables=variables)
    options = json.loads(ended.stdout)["options"]
    found = {
        name: (options[name]["value"], options[name]["source"]) for name in ("max_watches", "max_selectors_per_watch", "drain_seconds")
    }
    assert [str(value) for value, _ in found.values()] == ["11", "12", "10.0"], found
    assert [source for _, source in found.values()] == ["file", "environment", "default"]
    (tmp_path / "sidecar.toml").write_text("max_watch = 11\nmax_health_watches = 0\n")
    ended = await asyncio.to_thread(run_command, "config", variables=variables)
    assert ended.returncode == 2
    assert "max_watches" in ended.stderr and "max_health_watches" in ended.stderr, "all errors at once, with what was meant"


async def test_an_update_by_the_command_is_the_same_as_one_over_grpc(embedded: Embedded, api: Api, topic: str) -> None:
    shell = Shell(embedded.server.address)
    made = await asyncio.to_thread(shell.json, "update", topic, "max_producer_per_topic=5", "--unset", "message_ttl_in_seconds")
    (entry,) = await api.history(topic)
    assert (entry.document.version, entry.actor, entry.mask) == (
        made["version"],
        "gate",
        ["max_producer_per_topic", "message_ttl_in_seconds"],
    )
