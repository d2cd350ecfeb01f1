"""The audit's answers about random changes are those of a plain computation, event by event."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from topicpolicies_server.logs.pulsar.ids import MessageId, position_of
from topicpolicies_spark.audit.attribution import changed
from topicpolicies_spark.audit.churn import reverted_fields
from topicpolicies_spark.audit.drift import drift
from topicpolicies_spark.audit.state import state
from topicpolicies_spark.rows import Change

from .changes import change, frame

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
RATES = [{}, {"dispatch_throttling_rate_in_msg": 1}, {"rate_period_in_second": 0}]
SUBSCRIPTIONS = [[], [("s", {})], [("s", {}), ("t", {})], [("t", {}), ("s", {})], [("s", {"dispatch_rate": RATES[1]})]]
VALUES: dict[str, list[Any]] = {
    "max_producer_per_topic": [0, 1, 2],
    "message_ttl_in_seconds": [0, 5],
    "deduplication_enabled": [True, False],
    "shadow_topics": [[], ["a"], ["a", "b"], ["b", "a"]],
    "subscription_policies": SUBSCRIPTIONS,
    "dispatch_rate": RATES,
}
Key = tuple[str, str]
Content = dict[str, str]
Documents = dict[Key, tuple[str, Content]]
"""The documents by key, each with its version."""
Steps = list[tuple[str, str | None]]
"""Who set a field, and to what."""


class Made(NamedTuple):
    """A change of a document."""

    key: Key
    position: str
    who: str
    fields: tuple[str, ...]


def random_changes(seed: int) -> list[Change]:
    """Returns changes in the order of the log; their times are not in order, and some are before 1970."""
    chosen = random.Random(seed)
    ledger, entry, found = chosen.choice([0, 9, 99]), 0, []
    for _ in range(100):
        if chosen.random() < 0.1:
            ledger, entry = ledger + chosen.choice([1, 7, 90]), 0
        action = chosen.choices(["UPDATE", "INSERT", "DELETE", "TOMBSTONE", "NONE"], [10, 3 * (seed % 2), 2, 2, 1])[0]
        document = {name: chosen.choice(values) for name, values in VALUES.items() if chosen.random() < 0.3}
        made = change(
            0,
            chosen.choice("abc"),
            None if action == "TOMBSTONE" else document,
            actor=chosen.choice([None, "x", "y"]),
            action=action,
            position=position_of(MessageId(ledger, entry, -1)),
            scope=chosen.choice(["LOCAL", "GLOBAL"]),
            published=chosen.randrange(-50, 50) * 500_000,
        )
        found.append(made._replace(origin=chosen.choice(["repair", "tombstone"])) if chosen.random() < 0.1 else made)
        entry += chosen.choice([1, 3, 9])
    return found


def content(policies: dict[str, Any]) -> Content:
    """Returns what counts of a document: an empty list or map is as good as none, and maps have no order."""
    return {name: repr(sorted(value) if name == "subscription_policies" else value) for name, value in policies.items() if value != []}


def applied(changes: list[Change]) -> tuple[Documents, list[Made], dict[tuple[Key, str], Steps]]:
    """Returns the documents behind some changes, the changes of documents, and the steps of each field."""
    documents: Documents = {}
    made, steps = [], defaultdict(list)
    for each in changes:
        key = str(each.topic), str(each.scope)
        if each.action == "NONE" or (each.action == "INSERT" and key in documents):
            continue
        before = documents.pop(key, ("", {}))[1]
        after = content(each.policies or {}) if each.action in ("INSERT", "UPDATE") else {}
        if each.action in ("INSERT", "UPDATE"):
            documents[key] = each.position, after
        names = tuple(sorted(name for name in VALUES if before.get(name) != after.get(name)))
        if names and each.origin not in ("repair", "tombstone"):
            who = each.actor or f"broker {each.producer}"
            made.append(Made(key, each.position, who, names))
            for name in names:
                steps[key, name].append((who, after.get(name)))
    return documents, made, steps


def undone(steps: Steps) -> int:
    """Returns how many times an actor changed a field back to the value from before another actor's change."""
    triples = zip(steps, steps[1:], steps[2:], strict=False)
    return sum(last[0] != middle[0] and last[1] == first[1] for first, middle, last in triples)


@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.evidence), pytest.param(3, marks=pytest.mark.evidence)])
def test_state_attribution_drift_and_churn_are_those_of_a_plain_computation(spark: SparkSession, seed: int) -> None:
    changes = random_changes(seed)
    shuffled = random.Random(seed).sample(changes, len(changes))
    rows = frame(spark, shuffled).cache()
    now, made, steps = applied(changes)
    assert {(row.topic, row.scope): row.version for row in state(rows).collect()} == {key: version for key, (version, _) in now.items()}
    found = [Made((row.topic, row.scope), row.position, row.who, tuple(sorted(row.fields))) for row in changed(rows).collect()]
    assert sorted(found) == sorted(made)

    limit = random.Random(seed).randrange(-50, 50) * 500_000
    time = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=limit)).isoformat()
    then = applied([each for each in changes if each.published <= limit])[0]
    assert {(row.topic, row.scope): row.version for row in state(rows, time).collect()} == {key: at for key, (at, _) in then.items()}
    differs = {key for key in {*then, *now} if key not in then or key not in now or then[key][1] != now[key][1]}
    hows = {key: "appeared" if key not in then else "vanished" if key not in now else "changed" for key in differs}
    assert {(row.topic, row.scope): row.how for row in drift(state(rows, time), state(rows)).collect()} == hows

    fights = {((row.topic, row.scope), row.field): row.times_undone for row in reverted_fields(changed(rows), 1).collect()}
    assert fights == {key: times for key, each in steps.items() if (times := undone(each))}
    rows.unpersist()
