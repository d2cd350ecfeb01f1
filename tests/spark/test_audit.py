"""The audit's answers about known changes."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from topicpolicies_spark.audit.archive import changes as archived
from topicpolicies_spark.audit.declarations import declared
from topicpolicies_spark.audit.questions import drift, frequently_changed, made, reverted_fields, state, who
from topicpolicies_spark.audit.report import report
from topicpolicies_spark.options import time_of

from .changes import NAMESPACE, change, fill, frame, gap

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
HOUR = 3_600_000_000
"""In microseconds."""
AT = "1970-01-01T00:00:{:02d}Z".format
RATE = {"dispatch_rate": {"dispatch_throttling_rate_in_msg": 5}}


def _documents(spark: SparkSession, as_of: str = "") -> dict[str, int | None]:
    found = state(frame(spark, CHANGES), as_of).select("topic", "policies.max_producer_per_topic").collect()
    return {row[0].rpartition("/")[2]: row[1] for row in found}


PRODUCERS, SECONDS = "max_producer_per_topic", "message_ttl_in_seconds"
CHANGES = [
    change(1, "a", {PRODUCERS: 1}),
    change(2, "b", {PRODUCERS: 2}, actor="retention-bot", reason="GH-7"),
    change(3, "a", {PRODUCERS: 1, SECONDS: 9}, [SECONDS]),
    change(4, "a", {PRODUCERS: 1, SECONDS: 9}, [], action="NONE", kind="REPAIR", outcome="RESTATED"),
    change(5, "b", None, [PRODUCERS], actor="cleaner", kind="DELETE"),
    change(6, "b", None, [], action="NONE", kind="TOMBSTONE", outcome="RESTATED"),
    change(7, "c", {PRODUCERS: 3}),
    change(8, "a", {PRODUCERS: 8}, [], action="NONE", outcome="REJECTED", actor="late"),
    change(9, "a", None, [], action="UNREADABLE", problem="broken")._replace(topic=None),
    change(12, "a", {PRODUCERS: 12}, [PRODUCERS, SECONDS]),
]


def test_the_state_has_the_documents_behind_the_last_changes(spark: SparkSession) -> None:
    assert _documents(spark) == {"a": 12, "c": 3}, "what did not count changes nothing, a deletion removes"
    assert _documents(spark, AT(4)) == {"a": 1, "b": 2}
    assert _documents(spark, AT(7)) == {"a": 1, "c": 3}
    assert _documents(spark, AT(0)) == {}


def test_a_repair_tells_the_document_whose_changes_the_archive_does_not_have(spark: SparkSession) -> None:
    repaired = change(1, "a", {PRODUCERS: 1}, [], action="NONE", kind="REPAIR", outcome="RESTATED", version="v0")
    gone = change(2, "b", None, [], action="NONE", kind="TOMBSTONE", outcome="RESTATED")
    (found,) = state(frame(spark, [repaired, gone])).collect()
    assert (found.topic, found.version, found.policies.max_producer_per_topic) == (repaired.topic, "v0", 1)
    assert state(frame(spark, [repaired, change(3, "a", None)])).collect() == [], "changes that are known count"


def test_who_lists_the_author_and_what_each_change_changed(spark: SparkSession) -> None:
    found = [(row.topic.rpartition("/")[2], row.who, row.changed) for row in who(frame(spark, CHANGES)).collect()]
    broker = "broker standalone-0-1"
    assert found == [
        ("a", broker, [PRODUCERS, SECONDS]),
        ("c", broker, [PRODUCERS]),
        ("b", "cleaner", [PRODUCERS]),
        ("a", broker, [SECONDS]),
        ("b", "retention-bot", [PRODUCERS]),
        ("a", broker, [PRODUCERS]),
    ], "tombstones, repairs and what was rejected are nobody's changes"
    (by_bot,) = who(frame(spark, CHANGES), by="retention-bot").collect()
    assert (by_bot.topic, by_bot.reason) == (f"persistent://{NAMESPACE}/b", "GH-7")
    for topic in (f"persistent://{NAMESPACE}/a", f"{NAMESPACE}/a-partition-3"):
        assert who(frame(spark, CHANGES), topic=topic, field=SECONDS).count() == 2


def test_the_fields_of_a_change_are_the_first_parts_of_its_paths(spark: SparkSession) -> None:
    paths = [
        "dispatch_rate.dispatch_throttling_rate_in_msg",
        "subscription_policies.`a.b`.dispatch_rate",
        "subscription_policies.`c`",
        "`new.er`",
    ]
    (row,) = made(frame(spark, [change(1, "a", {}, paths)])).collect()
    assert row.fields == ["dispatch_rate", "subscription_policies", "new.er"]
    assert who(frame(spark, [change(1, "a", {}, paths)]), field="subscription_policies").count() == 1


def test_documents_of_a_log_that_was_replaced_are_gone(spark: SparkSession) -> None:
    former = [*CHANGES[:3], change(4, "c", {PRODUCERS: 4})]
    logs = {
        "not replaced": former,
        "empty": [*former, gap(10, "LOG_REPLACED")],
        "begun anew": [*former, gap(10, "LOG_REPLACED", position=f"{12:016x}"), change(12, "a", {PRODUCERS: 9})],
        "another gap": [*former, gap(10, "COMPACTED")],
    }
    rows = frame(spark, [each._replace(namespace=name) for name, changes in logs.items() for each in changes])

    def shown(as_of: str = "") -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for row in state(rows, as_of).collect():
            found.setdefault(row.namespace, {})[row.topic.rpartition("/")[2]] = row.policies.max_producer_per_topic
        return found

    before = {"a": 1, "b": 2, "c": 4}
    assert shown() == {"not replaced": before, "begun anew": {"a": 9}, "another gap": before}
    assert shown(AT(4)) == dict.fromkeys(logs, before)


def test_a_change_at_the_border_of_two_periods_is_counted_once(spark: SparkSession, tmp_path: Path) -> None:
    fill(tmp_path, CHANGES)
    counted = archived(spark, str(tmp_path), until=AT(4)).count(), archived(spark, str(tmp_path), AT(4)).count()
    assert counted == (3, len(CHANGES) - 3)


def test_nested_objects_maps_and_lists_are_compared_by_their_content(spark: SparkSession) -> None:
    two = [("s1", RATE), ("s2", RATE)]
    one = state(
        frame(spark, [change(1, "a", {"subscription_policies": two, "shadow_topics": []}), change(1, "b", {"shadow_topics": ["x"]})])
    )
    other = state(frame(spark, [change(2, "a", {"subscription_policies": two[::-1]}), change(2, "b", {**RATE})]))
    assert [(row.topic[-1], row.fields) for row in drift(one, other).collect()] == [("b", ["dispatch_rate", "shadow_topics"])]


def test_drift_is_reported_between_two_times_and_against_a_file(spark: SparkSession, tmp_path: Path) -> None:
    rows = frame(spark, CHANGES)
    found = {row.topic.rpartition("/")[2]: (row.how, row.fields) for row in drift(state(rows, AT(4)), state(rows)).collect()}
    assert found == {
        "a": ("changed", ["max_producer_per_topic", "message_ttl_in_seconds"]),
        "b": ("vanished", ["max_producer_per_topic"]),
        "c": ("appeared", ["max_producer_per_topic"]),
    }
    file = tmp_path / "declared.jsonl"
    wanted = [
        {"topic": f"persistent://{NAMESPACE}/a", "policies": {"max_producer_per_topic": 12}},
        {"topic": f"persistent://{NAMESPACE}/c", "policies": {"max_producer_per_topic": 5, "message_ttl_in_seconds": 1}},
        {"topic": f"persistent://{NAMESPACE}/d", "scope": "GLOBAL", "policies": {"max_producer_per_topic": 5}},
    ]
    file.write_text("".join(json.dumps(each) + "\n" for each in wanted))
    against = {
        row.topic.rpartition("/")[2]: (row.how, row.fields)
        for row in drift(declared(spark, str(file)), state(rows), declared=True).collect()
    }
    assert against == {
        "c": ("differs", ["max_producer_per_topic", "message_ttl_in_seconds"]),
        "d": ("missing", ["max_producer_per_topic"]),
    }


def test_churn_lists_frequently_changed_topics_and_fields_that_actors_revert_for_each_other(spark: SparkSession) -> None:
    fight = [
        change(10 + number, "fought", {"max_producer_per_topic": 5 + number % 2}, actor="one" if number % 2 else "other")
        for number in range(8)
    ]
    teamwork = [change(30 + number, "shared", {"max_producer_per_topic": number + 1}, actor=f"bot-{number % 2}") for number in range(8)]
    alone = [change(50 + number, "alone", {"max_producer_per_topic": 5 + number % 2}, actor="one") for number in range(8)]
    rows = made(frame(spark, [*fight, *teamwork, *alone]))
    assert {row.topic.rpartition("/")[2]: row.changes for row in frequently_changed(rows, 5).collect()} == {
        "fought": 8,
        "shared": 8,
        "alone": 8,
    }
    assert frequently_changed(rows, 9).count() == 0
    (found,) = reverted_fields(rows, 2).collect()
    assert (found.topic.rpartition("/")[2], found.field, found.times_undone, found.actors) == (
        "fought",
        "max_producer_per_topic",
        6,
        ["one", "other"],
    )


def test_the_report_is_one_self_contained_page_with_plots_and_escaped_text(spark: SparkSession) -> None:
    page = report(frame(spark, [*CHANGES, change(20, "<script>", {"compaction_threshold": 1}, actor="<b>bot</b>")]), "all of it", 1)
    assert page.count("<svg") == page.count('role="img" aria-label="') == 3
    assert "7 changes by 4 actors" in page
    assert "retention-bot" in page and "&lt;b&gt;bot" in page and "<b>bot" not in page
    assert "orders/&lt;script&gt;" in page and "<script" not in page
    assert "src=" not in page and " href=" not in page, "the page loads no other resources"
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(ids) == len(set(ids)) > 0
    assert "What is not known" not in page


def test_changes_are_selected_by_a_path_and_by_what_is_in_it(spark: SparkSession) -> None:
    minutes, size = "retention_policies.retention_time_in_minutes", "retention_policies.retention_size_in_mb"
    whole = change(1, "a", {"retention_policies": {"retention_time_in_minutes": 5, "retention_size_in_mb": 6}}, ["retention_policies"])
    rows = [whole, change(2, "a", whole.policies, [minutes]), change(3, "a", whole.policies, [size]), change(4, "a", {}, ["dispatch_rate"])]
    found = {
        field: sorted(row.version for row in who(frame(spark, rows), field=field).collect())
        for field in (minutes, "retention_policies", "dispatch_rate", "dispatch")
    }
    assert found == {minutes: ["v1", "v2"], "retention_policies": ["v1", "v2", "v3"], "dispatch_rate": ["v4"], "dispatch": []}


def test_a_report_says_what_is_not_known(spark: SparkSession) -> None:
    problem = "events may be missing from the beginning to <then>"
    for rows in ([*CHANGES, gap(30, "COMPACTED", problem=problem)], [gap(30, "COMPACTED", problem=problem)]):
        page = report(frame(spark, rows), "gaps", 2)
        assert "What is not known" in page and "the beginning to &lt;then&gt;" in page


def test_a_report_without_changes_says_so(spark: SparkSession) -> None:
    page = report(frame(spark, CHANGES).filter("false"), "nothing", 2)
    assert "<p>No changes.</p>" in page and "<svg" not in page and "<table" not in page


def test_the_times_of_a_report_are_utc_whatever_the_zones_of_python_and_of_the_session_are(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    autumn = time_of("2026-11-01T04:05:00Z")  # of these five hours, 05:05 and 06:05 are both 01:05 in New York
    rows = frame(spark, [change(n, "a", {"max_producer_per_topic": n}, time=autumn + n * HOUR) for n in range(5)])
    expected = report(rows, "autumn", 2)
    assert "<time>2026-11-01 08:05:00</time>" in expected
    labels = re.findall(r">(\d\d:\d\d)</text>", expected)
    assert labels == sorted(set(labels)) and {"05:00", "06:00", "07:00", "08:00"} <= set(labels)
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        assert report(rows, "autumn", 2) == expected
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        monkeypatch.undo()
        time.tzset()
