"""The command line, as docs/command-line.md has it: each command of the README's first screen, declared policies, exit codes and JSON."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port

from .api import Api
from .conftest import Embedded
from .server_process import COMMAND, environment, run

README = Path(__file__).parents[2] / "README.md"
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
Ended = subprocess.CompletedProcess[str]


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


@functools.cache
def shown_commands() -> list[str]:
    """Returns the commands of the README that call a server, without their comments."""
    (screen,) = re.findall(r"```sh\n(topicpolicies serve .*?)```", README.read_text(), re.DOTALL)
    lines = re.sub(r" *\\\n *", " ", screen).splitlines()
    commands = [line.split(" #")[0].strip() for line in lines if line]
    return [each for each in commands if each.split()[1] not in ("serve", "watch", "top")]


async def test_every_command_of_the_readme_works(tmp_path: Path, embedded: Embedded) -> None:
    assert len(shown_commands()) > 7
    topic = "persistent://public/default/orders"
    policies = DECLARED.replace("NAMESPACE", "public/default")
    (tmp_path / "policies.yaml").write_text(policies)
    expected = {"plan": 7, "config": 0}
    for text in shown_commands():
        words = shlex.split(text.replace("policies.yaml", str(tmp_path / "policies.yaml")).replace("1d-ago", "now"))[1:]
        arguments = words if words[0] == "config" else [*words, "--server", embedded.server.address]
        ended = await asyncio.to_thread(run, *arguments)
        wanted = expected.get(words[0], 0)
        if words[0] == "effective":
            wanted = 2 if "LEVELS_UNKNOWN" in ended.stderr else 0
        assert ended.returncode in (wanted, 1) if words[0] == "effective" else ended.returncode == wanted, (text, ended)
        if words[0] in ("update", "get", "history"):
            assert "max_producer_per_topic" in ended.stdout or "5" in ended.stdout, (text, ended.stdout)
    async with Api(embedded.server.address) as api:
        assert (await api.get(topic)).policies is None, "the last change deletes it"


def test_update_get_list_delete_and_history_in_json(command: Callable[..., Ended], namespace: str, topic: str) -> None:
    json_of = functools.partial(command, "--output", "json", "--actor", "ann", "--reason", "a test")
    made = parsed(json_of("update", topic, "max_producer_per_topic=5", "retention_policies.retention_time_in_minutes=10",
                          "retention_policies.retention_size_in_mb=100"))  # fmt: skip
    assert made["outcome"] == "UPDATE_OUTCOME_APPLIED"
    assert made["document"]["policies"]["max_producer_per_topic"] == 5
    found = parsed(json_of("get", topic))
    assert found == made["document"]
    assert parsed(json_of("update", topic, "max_producer_per_topic=5"))["outcome"] == "UPDATE_OUTCOME_UNCHANGED"
    cleared = parsed(json_of("update", topic, "--unset", "retention_policies", "shadow_topics=[]"))
    assert cleared["document"]["policies"] == {"max_producer_per_topic": 5}
    assert [each["topic"] for each in parsed(json_of("list", namespace))["documents"]] == [topic]
    assert parsed(json_of("delete", topic))["outcome"] == "DELETE_OUTCOME_DELETED"
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
    command("update", topic, "max_producer_per_topic=2", "--etag", version)
    command("update", topic, "max_producer_per_topic=3", "--etag", version, code=3)
    command("update", topic, "max_producer_per_topic=3", "--must-not-exist", code=3)
    assert parsed(command("get", topic, "--output", "json"))["policies"] == {"max_producer_per_topic": 2}


def test_a_server_that_is_not_there_ends_with_5() -> None:
    ended = run("get", "persistent://public/default/orders", "--server", f"127.0.0.1:{free_port()}", "--timeout", "0.5")
    assert ended.returncode == 5 and "127.0.0.1" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_plan_apply_and_export_agree(command: Callable[..., Ended], namespace: str, tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(DECLARED.replace("NAMESPACE", namespace))
    command("update", f"{namespace}/orders-us", "max_producer_per_topic=1", "message_ttl_in_seconds=60")
    steps = parsed(command("plan", "-f", str(file), "--output", "json", code=7))["steps"]
    assert {each["topic"].rpartition("/")[2] for each in steps} == {"orders-us", "orders-eu"}
    command("apply", "-f", str(file))
    command("plan", "-f", str(file))
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
    assert [(each["path"], each["before"], each["after"]) for each in differences] == [("max_producer_per_topic", "1", "2")]


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
