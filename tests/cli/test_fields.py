"""What the command line knows of fields: units, explanations, and pulsar-admin's commands; and the new forms of output."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import TOPIC, A, Terminal
from tests.ports import free_port
from topicpolicies import InvalidArgument, TopicPolicies
from topicpolicies_server.cli.assignments import parse
from topicpolicies_server.cli.fields import FIELDS, complete, paths
from topicpolicies_server.cli.globals import with_port
from topicpolicies_server.cli.verbs import VERBS


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("retention_policies.retention_time_in_minutes=7d", 7 * 24 * 60),
        ("retentionPolicies.retentionSizeInMB=1G", 1024),
        ("retention_policies.retention_size_in_mb=infinite", -1),
        ("retention_policies.retention_time_in_minutes=-1", -1),
        ("messageTTLInSeconds=3h", 3 * 3600),
        ("compaction_threshold=1.5KiB", 1536),
        ("delayed_delivery_tick_time_millis=2s", 2000),
    ],
)
def test_values_take_units_and_names_of_the_json_form(text: str, value: int) -> None:
    (found,) = parse([text]).values.values()
    assert found == value


@pytest.mark.parametrize(
    "text",
    [
        "retention_policies.retention_time_in_minutes=90s",
        "retention_policies.retention_size_in_mb=1K",
        "message_ttl_in_seconds=infinite",
        "max_producer_per_topic=5m",
        "message_ttl_in_seconds=5G",
    ],
)
def test_what_does_not_divide_or_is_no_unit_of_the_field_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse([text])


def test_every_field_is_in_the_table_and_each_example_is_parsed() -> None:
    assert FIELDS.keys() == {field.name for field in TopicPolicies.DESCRIPTOR.fields}
    for name, row in FIELDS.items():
        parse([f"{name}{row.example}".replace("'", "")])
    assert "retention_policies.retention_size_in_mb" in complete("retention_")


def test_explain_has_meaning_type_unit_example_and_pulsar_admins_command(terminal: Terminal) -> None:
    told = terminal.json("explain", "messageTTLInSeconds")
    assert told["field"] == "message_ttl_in_seconds" and told["unit"].startswith("seconds")
    assert "0 is never" in told["comment"] and "Unset: as the namespace or broker says." in told["comment"]
    assert "set-message-ttl [-t | --ttl] TOPIC" in told["pulsar-admin"] and told["example"].endswith("=3h")
    assert terminal.json("explain", "set-message-ttl") == terminal.json("explain", "message-ttl") == told
    assert terminal.json("explain", "ttl") == told
    rates = terminal.run("explain", "rate")
    assert rates.exit_code == 0 and len(rates.stdout.splitlines()) == 5 and "\npublish_rate " in rates.stdout
    assert len(terminal.json("explain", "dedup")["fields"]) == 2
    assert terminal.json("explain", "cluster")["field"] == "replication_clusters"
    assert terminal.json("explain", "limit_size") == terminal.json("explain", "backlog-quota")
    assert "topicpolicies update --help" in terminal.run("explain", "update").stderr
    rate = terminal.json("explain", "dispatch_rate.dispatch_throttling_rate_in_msg")
    assert "0 or -1 is no limit" in rate["comment"]
    assert "back_log_quota_map.KEY.limit_size" in terminal.json("explain", "backlog-quota")["fields"]
    assert len(terminal.run("explain").stdout.splitlines()) == len(FIELDS)
    for leaf in leaves_of(TopicPolicies.DESCRIPTOR):
        parts = shlex.split(terminal.json("explain", leaf)["example"])
        assert parts[-1].startswith(leaf if leaf.startswith("offload_policies") else leaf.partition(".")[0]), leaf
        parse([parts[-1]])
    assert terminal.failing("explain", "no_such")[0] == 2
    assert "topicpolicies explain" in terminal.run("update", TOPIC, "no_such=1").stderr
    assert "Is message_ttl_in_seconds meant?" in terminal.run("update", TOPIC, "ttl=3h").stderr


def leaves_of(descriptor: Any) -> Iterator[str]:
    """Yields a path of each field that is in an object, among them those of a map's entries."""
    return (path for path in paths(descriptor) if "." in path)


SETS = {
    "set-message-ttl": ("-t", "3h"), "set-retention": ("-t", "+300", "-s", "1G"), "set-max-producers": ("-p", "5"),
    "set-max-consumers": ("-c", "5"), "set-max-consumers-per-subscription": ("-c", "5"), "set-max-subscriptions-per-topic": ("-s", "5"),
    "set-max-message-size": ("-m", "1024"), "set-max-unacked-messages-per-consumer": ("-m", "5"),
    "set-max-unacked-messages-per-subscription": ("-m", "5"), "set-subscription-expiration-time": ("-t", "10"),
    "set-subscription-types-enabled": ("-t", "Shared,Key_Shared"), "set-backlog-quota": ("-l", "10M", "-p", "producer_exception"),
    "set-deduplication": ("-e",), "set-deduplication-snapshot-interval": ("-i", "60"), "set-persistence": ("-e", "3", "-w", "3"),
    "set-dispatch-rate": ("-md", "5"), "set-replicator-dispatch-rate": ("-bd", "5"), "set-subscription-dispatch-rate": ("-dt", "2"),
    "set-publish-rate": ("-m", "5"), "set-subscribe-rate": ("-sr", "5"), "set-compaction-threshold": ("-t", "100M"),
    "set-delayed-delivery": ("-e", "-t", "5s"), "set-schema-compatibility-strategy": ("-s", "FULL"),
    "set-inactive-topic-policies": ("-e", "-t", "1d", "-m", "delete_when_no_subscriptions"),
    "set-offload-policies": ("-d", "aws-s3", "-r", "us", "-b", "bucket"), "set-entry-filters-per-topic": ("-efn", "audit"),
    "set-auto-subscription-creation": ("-e",), "set-dispatcher-pause-on-ack-state-persistent": (),
    "set-replication-clusters": ("-c", "us"),
}  # fmt: skip


def test_every_command_of_pulsar_admin_sets_gets_and_removes(terminal: Terminal) -> None:
    assert {name for name in VERBS if name.startswith("set-")} == SETS.keys()
    refused = {"set-replication-clusters", "set-entry-filters-per-topic"}  # they need facts about a cluster
    for name, flags in SETS.items():
        ended = terminal.run(name, *flags, TOPIC)
        if name in refused and ended.exit_code:
            continue
        assert (ended.exit_code, ended.stdout) == (0, ""), (name, ended.output)
        verb = name.removeprefix("set-")
        got = terminal.run(f"get-{verb}", TOPIC).stdout
        assert got not in ("", "null\n"), name
        unset = ("null\n", "", "[ ]\n", "false\n")
        assert terminal.run(f"get-{verb}", "-g", TOPIC).stdout in unset, name
        assert terminal.json(f"remove-{verb}", TOPIC)["document"]["topic"] == TOPIC, "programs get the result"
        assert terminal.run(f"get-{verb}", TOPIC).stdout in unset, name


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("set-offload-policies", "-d", "aws-s3", "-b", "bucket"), "--region or --endpoint"),
        (("set-backlog-quota", "-t", "message", "-l", "1G", "-p", "producer_exception"), "destination_storage or message_age"),
        (("set-backlog-quota", "-t", "message_age", "-l", "1G", "-p", "producer_exception"), "-lt"),
        (("set-deduplication",), "--enable or --disable"),
        (("set-max-producers", "5"), "--max-producers"),
    ],
)
def test_what_a_command_of_pulsar_admin_lacks_is_named(terminal: Terminal, command: tuple[str, ...], told: str) -> None:
    ended = terminal.run(*command, TOPIC)
    assert ended.exit_code == 2 and told in ended.stderr


def test_what_pulsar_admin_prints(terminal: Terminal) -> None:
    terminal.run("set-retention", "--time", "120m", "--size", "-1", TOPIC)
    expected = '{\n  "retentionTimeInMinutes" : 120,\n  "retentionSizeInMB" : -1\n}\n'
    assert terminal.run("get-retention", TOPIC).stdout == expected
    ended = terminal.run("set-retention", "-t", "90", "-s", "1G", TOPIC)
    assert ended.exit_code == 2 and "whole number of minutes" in ended.stderr
    terminal.run("set-subscription-types-enabled", "-t", "Shared,Key_Shared", TOPIC)
    assert terminal.run("get-subscription-types-enabled", TOPIC).stdout == '[ "Shared", "Key_Shared" ]\n'


def test_programs_get_a_value_as_the_admin_api_has_it_by_a_flag_as_by_a_variable(terminal: Terminal) -> None:
    terminal.run("set-retention", "--time", "120m", "--size", "-1", TOPIC)
    expected = {"value": {"retentionTimeInMinutes": 120, "retentionSizeInMB": -1}}
    assert terminal.json("get-retention", TOPIC) == expected
    assert terminal.json("get-max-producers", TOPIC) == {"value": None}
    assert terminal.json("get-backlog-quota", TOPIC) == {"value": {}}
    terminal.environment["TOPICPOLICIES_OUTPUT"] = "json"
    assert json.loads(terminal.run("get-retention", TOPIC).stdout) == expected


def test_a_document_is_yaml_or_a_name_and_a_list_has_a_line_for_each(terminal: Terminal) -> None:
    terminal.write(A, "orders", 5)
    assert "policies:\n  max_producer_per_topic: 5\n" in terminal.run("get", TOPIC, "-o", "yaml").stdout
    assert terminal.run("list", A, "-o", "name").stdout == f"{TOPIC}\n"
    assert terminal.run("list", A).stdout.split() == [TOPIC, "LOCAL", terminal.json("get", TOPIC)["version"], "max_producer_per_topic=5"]
    terminal.run("update", "-g", f"{A}/all", "max_producer_per_topic=1")
    assert "It has a GLOBAL one" in terminal.run("get", f"{A}/all").stderr
    assert "It has a GLOBAL one" in terminal.run("delete", f"{A}/all").stderr


def test_edit_changes_what_the_editor_changed(terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal.json("update", TOPIC, "max_producer_per_topic=5", "max_consumer_per_topic=6", "compaction_threshold=10G")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i -e "s/max_producer_per_topic: 5/messageTTLInSeconds: 3h/;s/threshold: 10G/threshold: 11G/" "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)
    ended = terminal.run("edit", TOPIC)
    assert ended.exit_code == 0, ended.output
    assert terminal.json("get", TOPIC)["policies"] == {
        "max_consumer_per_topic": 6,
        "message_ttl_in_seconds": 10800,
        "compaction_threshold": str(11 << 30),
    }
    assert terminal.run("edit", TOPIC).stderr == "Nothing was changed.\n"
    assert terminal.json("edit", TOPIC)["outcome"] == "CHANGE_OUTCOME_UNCHANGED"
    editor.write_text('#!/bin/sh\necho "max_producer: 3" >> "$1"\n')
    ended = terminal.run("edit", TOPIC)
    assert ended.exit_code == 2 and "max_producer" in ended.stderr
    monkeypatch.setenv("EDITOR", "no-such-editor")
    missing = terminal.run("edit", TOPIC)
    assert missing.exit_code == 1 and "no-such-editor can't be run" in missing.stderr and "Set EDITOR" in missing.stderr
    monkeypatch.setenv("EDITOR", "false")
    assert terminal.run("edit", TOPIC).stderr == "Error: The editor false ended with 1: nothing was changed.\n"
    kept = Path(ended.stderr.splitlines()[0].removeprefix("What you wrote is kept in ").removesuffix("."))
    assert kept.read_text().endswith("max_producer: 3\n")
    kept.unlink()


def test_apply_takes_a_folder_and_a_dry_run_writes_nothing(terminal: Terminal, tmp_path: Path) -> None:
    for name, field in (("a", "message_ttl_in_seconds: 3h"), ("b", "maxProducerPerTopic: 5")):
        (tmp_path / f"{name}.yaml").write_text(f"version: 1\npolicies:\n  - {{topic: {A}/orders, set: {{{field}}}}}\n")
    assert terminal.run("apply", str(tmp_path), "--dry-run").exit_code == 0
    assert terminal.run("get", TOPIC).exit_code == 4
    assert terminal.run("plan", str(tmp_path)).exit_code == 7
    assert terminal.run("apply", str(tmp_path / "a.yaml"), "-f", str(tmp_path / "b.yaml"), "--yes").exit_code == 0
    assert terminal.json("get", TOPIC)["policies"] == {"max_producer_per_topic": 5, "message_ttl_in_seconds": 10800}
    assert terminal.run("plan", str(tmp_path)).exit_code == 0


def test_without_a_server_on_this_machine_that_is_said_within_two_seconds(terminal: Terminal) -> None:
    begun = time.monotonic()
    ended = terminal.run("get", TOPIC, "--server", f"localhost:{free_port()}")
    assert ended.exit_code == 5 and "topicpolicies serve" in ended.stderr
    assert time.monotonic() - begun < 2 or os.getloadavg()[0] > 2


@pytest.mark.parametrize(
    ("server", "whole"),
    [
        ("sidecar", "sidecar:6680"),
        ("[::1]", "[::1]:6680"),
        ("::1", "[::1]:6680"),
        ("a:1", "a:1"),
        ("unix:/x", "unix:/x"),
        ("dns:///a", "dns:///a"),
    ],
)
def test_port_6680_is_used_if_an_address_names_none(server: str, whole: str) -> None:
    assert with_port(server) == whole


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("set", TOPIC), "update changes settings"), (("describe", TOPIC), "get shows"), (("status",), "health says"),
        (("get", TOPIC, "--server", "pulsar://localhost:6650"), "serve --pulsar pulsar://localhost:6650"),
    ],
)  # fmt: skip
def test_words_of_other_programs_are_explained(terminal: Terminal, arguments: tuple[str, ...], says: str) -> None:
    ended = terminal.run(*arguments)
    assert ended.exit_code == 2 and says in ended.stderr
    assert json.loads(terminal.run(*arguments, "-o", "json").stderr)["error"]["reason"] == "USAGE"
    assert terminal.run("help", "get").stdout.startswith("Usage:")
