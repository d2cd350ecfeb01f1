"""Events become rows whatever they contain, and batches of rows have a limited size."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from topicpolicies.v1.events_pb2 import ACTOR_STANDING_AUTHENTICATED, ChangeOrigin
from topicpolicies.v1.history_pb2 import HistoryEntry, HistoryGap, HistoryGapReason, HistoryKind, HistoryOutcome
from topicpolicies.v1.policies_pb2 import SCOPE_GLOBAL, PolicyDocument, TopicPolicies
from topicpolicies_spark.rows import ARROW_SCHEMA, Change, batches, of_entry, of_gap

from .changes import change

TOPIC = "persistent://acme/orders/t"


def test_a_change_has_who_what_why_and_both_documents() -> None:
    origin = ChangeOrigin(actor="ann", actor_standing=ACTOR_STANDING_AUTHENTICATED, principal="gateway", reason="GH-7", request_id="r1")
    entry = HistoryEntry(
        document=PolicyDocument(topic=TOPIC, scope=SCOPE_GLOBAL, version="b2", policies=TopicPolicies(max_producer_per_topic=2)),
        previous=PolicyDocument(topic=TOPIC, scope=SCOPE_GLOBAL, version="b1", policies=TopicPolicies(max_producer_per_topic=1)),
        kind=HistoryKind.HISTORY_KIND_UPDATE,
        outcome=HistoryOutcome.HISTORY_OUTCOME_APPLIED,
        origin=origin,
    )
    entry.time.FromMilliseconds(5)
    entry.changed.paths.append("max_producer_per_topic")
    row = of_entry("acme/orders", "p", entry)
    assert (row.topic, row.scope, row.version, row.time, row.action, row.kind) == (TOPIC, "GLOBAL", "b2", 5_000, "UPDATE", "UPDATE")
    assert (row.actor, row.standing, row.principal, row.reason, row.request_id) == ("ann", "AUTHENTICATED", "gateway", "GH-7", "r1")
    assert (row.previous, row.policies) == ({"max_producer_per_topic": 1}, {"max_producer_per_topic": 2})
    assert (row.changed, row.mask, row.previous_version) == (["max_producer_per_topic"], None, "b1")
    (batch,) = batches([row])
    assert batch.schema == ARROW_SCHEMA


@pytest.mark.parametrize(
    ("kind", "outcome", "there", "action"),
    [
        ("UPDATE", "APPLIED", True, "UPDATE"),
        ("DELETE", "APPLIED", False, "DELETE"),
        ("BROKER", "APPLIED", True, "UPDATE"),
        ("BROKER", "APPLIED", False, "DELETE"),
        ("TOMBSTONE", "RESTATED", False, "NONE"),
        ("REPAIR", "RESTATED", True, "NONE"),
        ("UPDATE", "REJECTED", True, "NONE"),
        ("UPDATE", "DUPLICATE", True, "NONE"),
        ("UNREADABLE", "IGNORED", False, "UNREADABLE"),
    ],
)
def test_an_action_says_what_became_of_the_document(kind: str, outcome: str, there: bool, action: str) -> None:
    entry = HistoryEntry(kind=HistoryKind.Value(f"HISTORY_KIND_{kind}"), outcome=HistoryOutcome.Value(f"HISTORY_OUTCOME_{outcome}"))
    if kind != "UNREADABLE":
        entry.document.topic = TOPIC
    if there:
        entry.document.policies.max_producer_per_topic = 1
    row = of_entry("acme/orders", "p", entry)
    assert (row.action, row.outcome) == (action, outcome)
    assert row.kind == (None if kind == "UNREADABLE" else kind)


def test_a_gap_says_from_when_to_when_events_may_be_missing_and_why() -> None:
    gap = HistoryGap(reason=HistoryGapReason.HISTORY_GAP_REASON_LOG_REPLACED)
    gap.end_time.FromMilliseconds(1_500)
    row = of_gap("acme/orders", "p", gap)
    assert (row.action, row.outcome, row.time, row.topic, row.policies) == ("GAP", "LOG_REPLACED", 1_500_000, None, None)
    assert row.problem == "events may be missing from the beginning to 1970-01-01T00:00:01.500+00:00: log replaced"


def test_batches_of_large_documents_have_few_rows_and_those_of_small_ones_many() -> None:
    taken = 0

    def large() -> Iterator[Change]:
        nonlocal taken
        for number in range(20):
            taken += 1
            yield change(number, "t", {"shadow_topics": ["x" * 4_000_000]})

    made = batches(large())
    assert next(made).num_rows == taken <= 5, "nothing is read ahead of a batch that is large enough"
    assert sum(batch.num_rows for batch in made) == 20 - 5
    small = batches(change(number, "t", {"max_producer_per_topic": number}) for number in range(4_500))
    assert [batch.num_rows for batch in small] == [2_000, 2_000, 500]
