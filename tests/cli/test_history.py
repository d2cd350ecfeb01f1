"""The commands for the history and for past versions, against a real server."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.cli.conftest import A, Terminal
from tests.cli.real_server import running
from topicpolicies_server.config import EmbeddedLogConfig

TOPIC = "persistent://public/a/orders"


def now() -> str:
    time.sleep(0.01)
    moment = datetime.now(UTC).isoformat()
    time.sleep(0.01)
    return moment


def test_history_shows_the_changes_of_a_topic_from_the_newest(recorded: Terminal) -> None:
    recorded.json("update", TOPIC, "max_producer_per_topic=1", "--actor", "ann", "--reason", "it begins")
    recorded.json("update", TOPIC, "max_producer_per_topic=2", "message_ttl_in_seconds=60", "--actor", "")
    recorded.json("delete", TOPIC)
    result = recorded.run("history", TOPIC)
    assert result.exit_code == 0
    shown = result.stdout
    assert "by ann (not authenticated), why: it begins" in shown
    assert "UNKNOWN" in shown
    assert "created: max_producer_per_topic=1" in shown
    assert "max_producer_per_topic: 1 -> 2, message_ttl_in_seconds: unset -> 1m" in shown
    assert "deleted: max_producer_per_topic=2, message_ttl_in_seconds=1m" in shown
    assert shown.index("deleted") < shown.index("1 -> 2") < shown.index("created")
    assert "Gap" not in result.stderr


def test_history_as_json_can_be_filtered_ordered_and_limited(recorded: Terminal) -> None:
    for number in (1, 2, 3):
        recorded.json("update", TOPIC, f"max_producer_per_topic={number}", "--actor", f"actor-{number}")
    (line,) = recorded.lines("history", "public/a", "--by", "actor-2")
    entry = line["entry"]
    assert (entry["origin"]["actor"], entry["origin"]["actor_standing"]) == ("actor-2", "ACTOR_STANDING_UNAUTHENTICATED")
    assert entry["origin"]["update_mask"] == entry["changed"] == ["max_producer_per_topic"]
    assert entry["previous"]["policies"] == {"max_producer_per_topic": 1}
    assert entry["document"] == recorded.json("get", TOPIC, "--as-of", entry["document"]["version"])
    assert (entry["kind"], entry["outcome"]) == ("HISTORY_KIND_UPDATE", "HISTORY_OUTCOME_APPLIED")
    lines = recorded.lines("history", TOPIC, "--oldest-first", "--limit", "2")
    assert [each["entry"]["origin"]["actor"] for each in lines] == ["actor-1", "actor-2"]
    for limit, said in (("2", "2 events; there may be more: --limit\n"), ("4", "3 events\n")):
        assert recorded.run("history", TOPIC, "--limit", limit).stderr == said
    assert not recorded.run("history", TOPIC, "--since", "2099-01-01", "-o", "json").stdout
    assert len(recorded.run("history", TOPIC, "--since", "1h-ago", "--until", "now", "-o", "json").stdout.splitlines()) == 3


def test_get_shows_a_past_version_by_time_or_version(recorded: Terminal) -> None:
    before = now()
    first = recorded.json("update", TOPIC, "max_producer_per_topic=1")
    between = now()
    recorded.json("update", TOPIC, "max_producer_per_topic=2")
    for moment in (between, first["version"]):
        assert recorded.json("get", TOPIC, "--as-of", moment)["policies"] == {"max_producer_per_topic": 1}
    assert recorded.run("get", TOPIC, "--as-of", before).exit_code == 4
    both = recorded.json("get", TOPIC, "--as-of", between, "--scope", "both")["documents"]
    assert [document.get("policies") for document in both] == [{"max_producer_per_topic": 1}, None]
    assert recorded.json("get", TOPIC, "--as-of", "now")["policies"] == {"max_producer_per_topic": 2}
    assert recorded.run("get", TOPIC, "--as-of", "gibberish!").exit_code == 2
    code, error = recorded.failing("get", TOPIC, "--as-of", "zz99")
    assert (code, error["reason"]) == (1, "NOT_IN_HISTORY")


def test_diff_shows_the_differences_between_two_moments(recorded: Terminal) -> None:
    first = recorded.json("update", TOPIC, "max_producer_per_topic=1", "message_ttl_in_seconds=60")
    between = now()
    recorded.json("update", TOPIC, "max_producer_per_topic=2", "--unset", "message_ttl_in_seconds", "compaction_threshold=9")
    for moment in (first["version"], between):
        result = recorded.run("diff", TOPIC, moment, "-o", "json")
        assert result.exit_code == 7
        assert json.loads(result.stdout)["differences"] == [
            {"path": "compaction_threshold", "before": None, "after": 9},
            {"path": "max_producer_per_topic", "before": 1, "after": 2},
            {"path": "message_ttl_in_seconds", "before": 60, "after": None},
        ]
    people = recorded.run("diff", TOPIC, first["version"], "now")
    assert people.exit_code == 7
    rows = [line.split() for line in people.stdout.splitlines() if line[:1] in "+-~"]
    assert [row[0] for row in rows] == ["+", "~", "-"]
    same = recorded.run("diff", TOPIC, first["version"], between)
    assert same.exit_code == 0
    assert "no differences" in same.stderr


def test_a_server_without_a_history_names_the_option_for_it(tmp_path: Path) -> None:
    with running(tmp_path, history=False) as address:
        code, error = Terminal(address).failing("history", TOPIC)
    assert (code, error["reason"]) == (1, "HISTORY_OFF")
    assert "--history" in error["message"]


def test_a_deletion_is_shown_once_with_its_actor_and_its_tombstone_without_one(recorded: Terminal) -> None:
    recorded.json("update", TOPIC, "max_producer_per_topic=1", "--actor", "ann")
    recorded.json("delete", TOPIC, "--actor", "bob")
    until = time.monotonic() + 100
    while recorded.lines("history", TOPIC)[0]["entry"]["kind"] != "HISTORY_KIND_TOMBSTONE":  # it is written after the response
        assert time.monotonic() < until
        time.sleep(0.01)
    shown = recorded.run("history", TOPIC).stdout
    assert "tombstone: restates the document, and changes nothing\n" in shown
    assert [line.split(" by ")[1].split()[0] for line in shown.splitlines() if " by " in line] == ["bob", "ann"]
    assert "UNKNOWN" not in shown
    assert not [line for line in shown.splitlines() if line != line.rstrip()]


def test_a_text_that_is_no_version_is_refused_with_how_times_are_written(recorded: Terminal) -> None:
    recorded.json("update", TOPIC, "max_producer_per_topic=1")
    for moment in ("1d", "7d"):
        for command in (("get", TOPIC, "--as-of", moment), ("diff", TOPIC, moment), ("revert", TOPIC, "--to", moment, "--yes")):
            _, error = recorded.failing(*command)
            assert f"{moment} was taken as a version" in error["message"] and "7d-ago" in error["message"]
    recorded.environment["TOPICPOLICIES_SERVER"] = "127.0.0.1:1"  # which is not called
    for moment in ("2h", "30m", "zzz", "yesterday", "312w", "2026-13-01", "2 hours ago", "2h-before"):
        code, error = recorded.failing("get", TOPIC, "--as-of", moment)
        assert (code, error["reason"]) == (2, "USAGE"), moment
        assert f'"{moment}" is not a time' in error["message"] and "7d-ago" in error["message"]


def test_where_topic_policies_are_disabled_the_history_is_told_to_stand_still_and_the_log_not_to_be_broken(tmp_path: Path) -> None:
    facts = tmp_path / "cluster.toml"
    facts.write_text(f'cluster = "us"\n[namespaces."{A}"]\nproperties = {{ __topic_policies_disabled = "true" }}\n')
    with running(tmp_path, log=EmbeddedLogConfig(path=tmp_path / "policies.db", cluster_file=facts)) as address:
        told = Terminal(address).run("history", A)
    assert told.exit_code == 0
    assert "because it can't or because topic policies are disabled: events may be missing." in told.stderr
