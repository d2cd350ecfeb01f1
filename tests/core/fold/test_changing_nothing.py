"""Calls that change nothing, at brokers that change their document in place: an old document that is written again reverts nothing.

A deliberate revert can be told apart if the document had been the newest for a while before a broker changed it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.core.fold.script import Script
from tests.core.fold.storm import Storm
from topicpolicies_server.core.fold import overlap
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.fold.keystate import Superseded
from topicpolicies_server.core.fold.overlap import infer_overlapping
from topicpolicies_server.core.policies.documents import Document, Setting

SEEDS, ROUNDS = 30, 10
RESTS = (1_000, 2_000, 40_000)
"""The pauses between rounds, in milliseconds: no removal restores an earlier document within a second."""
NEAR = 150
"""For how long a broker's document does not show whether the broker had read a newer one, in milliseconds."""


def runs(**options: Any) -> tuple[int, Counter[str]]:
    """Returns how many changes are lost in many runs, and what was counted."""
    lost, counts = 0, Counter[str]()
    for seed in range(SEEDS):
        run = Storm(seed, **{"rounds": ROUNDS, "rests": RESTS, **options}).run()
        lost += len(run.lost)
        counts += run.counts
    return lost, counts


@pytest.mark.parametrize("single", [False, True], ids=["six-administrators", "one"])
@pytest.mark.parametrize(
    "shares",
    [
        pytest.param({"removals": 0.1}, marks=pytest.mark.slow, id="10-removals"),
        pytest.param({"removals": 0.25}, marks=pytest.mark.slow, id="25-removals"),
        pytest.param({"removals": 0.5}, id="50-removals"),
        pytest.param({"repeats": 0.25}, id="25-repeats"),
    ],
)
def test_no_change_is_lost_among_calls_that_change_nothing(shares: dict[str, float], single: bool) -> None:
    without, _ = runs(**shares, single=single, guard=False)
    lost, counts = runs(**shares, single=single)
    assert without > counts["calls"] / 100
    assert counts["changed nothing"] > counts["calls"] * sum(shares.values()) ** 2 / 2
    assert counts["stale"] > counts["calls"] / 100
    assert lost == 0


@pytest.mark.parametrize("spread", [1, 2, 4, 8])
def test_no_change_is_lost_among_calls_of_the_same_few_milliseconds(spread: int) -> None:
    lost, counts = runs(removals=0.25, repeats=0.25, settled=True, spread=spread)
    assert counts["changed nothing"] > counts["calls"] / 4
    assert counts["stale"] > counts["calls"] / 100
    assert lost == 0


def test_removals_on_a_topic_without_policies_lose_nothing() -> None:
    lost, counts = runs(removals=0.25, fresh=True, single=True)
    assert counts["changed nothing"] > 100 and counts["stale"] > 100
    assert lost == 0


@pytest.mark.parametrize("spread", [400, 1_000])
def test_at_most_one_change_in_a_thousand_is_lost_if_a_broker_reads_nothing_for_up_to_a_second(spread: int) -> None:
    lost, counts = runs(removals=0.25, spread=spread, stalls=(300, 990))
    assert counts["changed nothing"] > 100 and counts["stale"] > 15
    assert lost <= counts["calls"] / 1_000
    assert lost <= counts["ambiguous"]


@pytest.mark.parametrize("after", [(5, 60), (5, 900)], ids=["at-once", "within-a-second"])
def test_a_revert_without_other_calls_is_recognized(after: tuple[int, int]) -> None:
    lost, counts = runs(reverts=1.0, quiet=True, after=after, settled=True)
    assert counts["set back"] == SEEDS * ROUNDS
    assert lost == counts["undone in heads"] == 0


def test_a_revert_of_the_first_setting_of_a_topic_within_a_second_may_be_lost_but_is_flagged() -> None:
    lost, counts = runs(reverts=1.0, quiet=True)
    assert 0 < lost <= SEEDS, "only the first of a topic"
    assert counts["rounds that lost and were flagged"] == counts["rounds that lost"]


@pytest.mark.parametrize(("planted", "value"), [("_AGAIN", 16), ("_AT_ONCE_MS", -1_000), ("_RETURN_AT_ONCE", 15), ("_NONE_MS", 1)])
def test_changes_are_lost_if_any_part_of_the_rule_is_disabled(planted: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, planted, value)
    assert runs(removals=0.25, repeats=0.25, settled=True, spread=8)[0] + runs(removals=0.25, fresh=True)[0] > 0


BEFORE: Document = {"max_producer_per_topic": b"1"}
SET: Document = {"max_producer_per_topic": b"1", "compaction_threshold": b"1"}
OURS = "an event of ours"


def changed(raw: Document | None, document: Document, *, stood: int, after: int, successor: str = "") -> list[Setting]:
    """Returns what a document changes; ``raw`` was the newest for ``stood`` milliseconds, until ``after`` milliseconds before it."""
    older = [Superseded(None if raw is None else {}, 100_000 - stood, ""), Superseded(raw, 100_000, "")]
    found = infer_overlapping(document, Superseded(SET, 100_000 + after, successor), older, SET, None, 70_000, 0)
    return found.changed


@pytest.mark.parametrize("after", [3, 60, NEAR])
def test_a_document_that_is_written_again_is_an_old_one_if_it_was_the_newest_only_briefly(after: int) -> None:
    assert changed(BEFORE, BEFORE, stood=10, after=after) == []


@pytest.mark.parametrize("after", [3, 60, 900])
def test_a_document_that_is_written_again_is_a_revert_if_it_was_the_newest_for_a_while(after: int) -> None:
    assert changed(BEFORE, BEFORE, stood=1_000, after=after) == ["compaction_threshold"]


def test_a_document_that_is_written_again_long_after_it_was_superseded_is_a_revert() -> None:
    assert changed(BEFORE, BEFORE, stood=10, after=500) == ["compaction_threshold"]


@pytest.mark.parametrize("after", [-20, 0, 2])
def test_concurrent_calls_revert_nothing(after: int) -> None:
    assert changed(BEFORE, BEFORE, stood=20_000, after=after) == []


SHORT: dict[str, Setting] = {
    "producers": "max_producer_per_topic",
    "consumers": "max_consumer_per_topic",
    "each": "max_consumers_per_subscription",
    "threshold": "compaction_threshold",
    "unacked": "max_unacked_messages_on_consumer",
}


def written(text: str) -> Document:
    """Returns the document of a text like ``producers 1, consumers 2``."""
    pairs = (each.split(" ") for each in text.split(", "))
    return {SHORT[name]: value.encode() for name, value in pairs}


@pytest.mark.parametrize(
    ("before", "events", "left"),
    [
        (  # producers and unacked removed, consumers and threshold set; two removals of what is unset
            "producers 1, threshold 1, unacked 1",
            [
                (0, "consumers 2, producers 1, threshold 1, unacked 1"),
                (0, "consumers 2, producers 1, threshold 1, unacked 1"),
                (0, "consumers 2, producers 1, threshold 1"),
                (1, "consumers 2, threshold 2"),
                (1, "consumers 2, threshold 2"),
                (0, "consumers 2, threshold 2, producers 1"),  # late: from before the producers were removed
            ],
            "consumers 2, threshold 2",
        ),
        (  # consumers and threshold removed, each, producers and unacked set; a removal of what is unset
            "consumers 1, each 1, threshold 1",
            [
                (0, "consumers 1, each 2"),
                (0, "consumers 1, each 2"),
                (0, "each 2, producers 2"),
                (0, "each 2, producers 2"),
                (0, "consumers 1, each 2, producers 2"),  # late: from before the consumers were removed
                (1, "each 2, producers 2, unacked 2"),  # what brokers show is right, and must not be overwritten
            ],
            "each 2, producers 2, unacked 2",
        ),
    ],
    ids=["it-comes-last", "another-follows-it"],
)
def test_a_late_document_of_a_real_broker_sets_back_nothing_although_other_events_came_between(
    before: str, events: list[tuple[int, str]], left: str
) -> None:
    script = Script(FoldContext(in_place=True))
    script.write(written(before))
    begun = script.now + 20_000
    for at, text in events:
        script.write(written(text), wait=begun + at - script.now)
    assert script.document == written(left)
    assert script.due() == (script.shown() != script.document)


@pytest.mark.parametrize(("after", "set_back"), [(60, False), (400, False), (600, True)])
def test_a_document_that_our_event_superseded_may_be_old_however_long_it_was_the_newest(after: int, set_back: bool) -> None:
    assert changed(BEFORE, BEFORE, stood=20_000, after=after, successor=OURS) == ["compaction_threshold"] * set_back


@pytest.mark.parametrize(("after", "set_back"), [(60, False), (200, False), (300, True), (1_100, True)])
def test_an_empty_document_may_be_an_old_one_computed_from_no_document(after: int, set_back: bool) -> None:
    only: Document = {"compaction_threshold": b"1"}
    found = infer_overlapping({}, Superseded(only, 100_000 + after, ""), [Superseded(None, 100_000, "")], only, None, 70_000, 0)
    assert found.changed == ["compaction_threshold"] * set_back


@pytest.mark.parametrize(
    "slow",
    [{"lag": (100, 400), "spread": 400}, {"stalls": (300, 990), "spread": 1_000}],
    ids=["reads-late", "reads-nothing-for-a-while"],
)
def test_first_calls_at_a_slow_broker_lose_little_because_documents_made_from_none_are_recognized(
    slow: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost() -> tuple[int, int]:
        all_runs = [Storm(seed, rounds=1, removals=0.25, fresh=True, **slow).run() for seed in range(400)]
        return sum(len(run.lost) for run in all_runs), sum(run.counts["calls"] for run in all_runs)

    with_rule, calls = lost()
    monkeypatch.setattr(overlap, "_made_from_none", lambda entry, before: False)
    without_rule, _ = lost()
    assert with_rule <= calls / 500
    assert without_rule > 3 * with_rule and without_rule > calls / 500


THREE: Document = {"max_consumer_per_topic": b"1", "max_producer_per_topic": b"1", "compaction_threshold": b"1"}
FIRST: Document = {"max_consumer_per_topic": b"1"}
SECOND: Document = {"max_consumers_per_subscription": b"1"}


@pytest.mark.parametrize(
    ("older", "newest"),
    [
        ([Superseded(None, 612, ""), Superseded(FIRST, 634, ""), Superseded(THREE, 812, OURS)], Superseded(SECOND, 845, "")),
        ([Superseded(None, 437, ""), Superseded(FIRST, 569, ""), Superseded(SECOND, 718, "")], Superseded({**THREE, **SECOND}, 732, OURS)),
    ],
    ids=["from-none-after-a-repair", "from-none-before-a-repair"],
)
def test_a_broker_that_just_made_a_document_from_none_makes_the_next_one_from_none_too(older: list[Superseded], newest: Superseded) -> None:
    assert infer_overlapping({}, newest, older, newest.raw, None, -30_000, 0).changed == []


def test_a_late_document_without_a_change_of_its_own_reverts_nothing() -> None:
    base: Document = {"max_producer_per_topic": b"1", "compaction_threshold": b"1"}
    live: Document = {"max_producer_per_topic": b"2", "compaction_threshold": b"2", "dispatch_rate": b"2"}
    document: Document = {"max_producer_per_topic": b"2", "compaction_threshold": b"1", "dispatch_rate": b"2"}
    found = infer_overlapping(
        document, Superseded(live, 100_000, ""), [Superseded({}, 80_000, ""), Superseded(base, 100_002, "")], live, None, 70_000, 0
    )
    assert found.changed == []
