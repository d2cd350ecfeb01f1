"""A guard of brokers that change their cached document in place, as 4.0.0 does: they lose changes, and carry those of other calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from tests.core.fold.storm import SETTINGS, Storm
from topicpolicies_server.core.fold import fold, inference, overlap
from topicpolicies_server.core.fold.inference import infer
from topicpolicies_server.core.fold.keystate import Superseded
from topicpolicies_server.core.fold.overlap import infer_overlapping
from topicpolicies_server.core.policies.documents import Setting

SEEDS, ROUNDS = 40, 10
CHANGES = SEEDS * ROUNDS * len(SETTINGS)
LAGS = {"quick": (1, 10), "usual": (3, 60), "slow": (20, 200)}
"""How long brokers take to read an event, in milliseconds."""
BUSY = 20
"""For how many milliseconds at most a document that a busy broker encoded waits until it gets its publish time."""
EACH_LAG = [pytest.param(lag, marks=() if name == "usual" else pytest.mark.slow, id=name) for name, lag in LAGS.items()]


def storm(seeds: Iterable[int] = range(SEEDS), **options: Any) -> tuple[int, Counter[str]]:
    """Returns how many changes are lost in many runs, and what was counted."""
    lost, counts = 0, Counter[str]()
    for seed in seeds:
        run = Storm(seed, rounds=ROUNDS, **options).run()
        lost += len(run.lost)
        counts += run.counts
    return lost, counts


@pytest.mark.parametrize("lag", EACH_LAG)
def test_many_changes_are_lost_without_a_guard_and_none_with_one_that_knows_these_brokers(lag: tuple[int, int]) -> None:
    without, _ = storm(lag=lag, guard=False)
    lost, counts = storm(lag=lag)
    assert without > CHANGES / 100
    assert lost == 0
    assert counts["stale"] > CHANGES / 100 and counts["repairs"] > CHANGES / 200


@pytest.mark.parametrize("lag", EACH_LAG)
def test_no_change_is_lost_if_a_sidecar_writes_too(lag: tuple[int, int]) -> None:
    lost, counts = storm(lag=lag, sidecar=True)
    assert lost == 0
    assert counts["stale"] > CHANGES / 100


def test_no_change_is_lost_under_a_guard_if_a_busy_broker_publishes_documents_some_time_after_it_encoded_them() -> None:
    without, _ = storm(rests=(1_000, 40_000), busy=BUSY, guard=False)
    lost, counts = storm(rests=(1_000, 40_000), busy=BUSY)
    assert without > CHANGES / 100
    assert lost == 0
    assert counts["stale"] > CHANGES / 100


@pytest.mark.parametrize("spread", [400, 1_000])
def test_a_broker_that_reads_nothing_for_up_to_a_second_loses_nothing_under_a_guard(spread: int) -> None:
    without, _ = storm(spread=spread, stalls=(300, 900), guard=False)
    lost, counts = storm(spread=spread, stalls=(300, 900))
    assert without > CHANGES / 200
    assert lost == 0
    assert counts["stale"] > CHANGES / 200


def test_a_stalled_broker_reverts_nothing_that_was_changed_while_it_did_not_read() -> None:
    base: dict[Setting, bytes] = {"max_consumer_per_topic": b"1", "max_producer_per_topic": b"1", "max_subscriptions_per_topic": b"2"}
    before = {**base, "max_producer_per_topic": b"2", "max_subscriptions_per_topic": b"1"}
    live = {**base, "max_producer_per_topic": b"2"}
    document = {**base, "max_consumer_per_topic": b"2"}  # computed from `base`, which was restated as `live` 388 ms ago
    older = [Superseded(before, 1_000, ""), Superseded(base, 1_169, "")]
    found = infer_overlapping(document, Superseded(live, 1_557, ""), older, live, None, 0, 0)
    assert (found.changed, found.base, found.unexplained) == (["max_consumer_per_topic"], base, False)


def test_the_first_calls_at_a_broker_that_does_not_read_yet_are_each_inferred_correctly() -> None:
    stall: dict[str, Any] = {"spread": 1_000, "stalls": (600, 990), "fresh": True}
    without, _ = storm(**stall, guard=False)
    lost, counts = storm(**stall)
    assert without > SEEDS
    assert lost == 0
    assert counts["ambiguous"] == counts["unexplained"] == 0
    assert counts["stale"] > SEEDS


@pytest.mark.parametrize(("milliseconds", "set_back"), [(30, False), (720, False), (990, False), (1_100, True)])
def test_for_a_second_a_document_that_lacks_another_change_is_taken_for_an_old_one(milliseconds: int, set_back: bool) -> None:
    first: dict[Setting, bytes] = {"max_producer_per_topic": b"1"}
    document: dict[Setting, bytes] = {"compaction_threshold": b"1"}  # from no document, which there was before `first`
    found = infer_overlapping(document, Superseded(first, 1_000 + milliseconds, ""), [Superseded(None, 1_000, "")], first, None, 0, 0)
    changed = ["compaction_threshold", "max_producer_per_topic"] if set_back else ["compaction_threshold"]
    assert sorted(found.changed) == changed
    assert found.base == (first if set_back else None)


def test_a_guard_that_does_not_know_how_these_brokers_write_loses_some_changes() -> None:
    lost, counts = storm(known=False)
    assert 0 < lost < CHANGES / 100
    assert counts["unexplained"] > 0 and counts["ambiguous"] > 0


@pytest.mark.parametrize("values", [2, 3])
def test_a_revert_after_a_second_is_not_taken_for_an_old_document(values: int) -> None:
    rests = (1_000, 2_000, 40_000)
    without, _ = storm(values=values, rests=rests, guard=False)
    lost, _ = storm(values=values, rests=rests)
    stalled, _ = storm(values=values, rests=rests, lag=(100, 1_500))
    assert without > 200
    assert lost == stalled == 0


@pytest.mark.slow
def test_a_revert_while_documents_overlap_may_be_lost_but_is_flagged() -> None:
    lost, counts = storm(values=2, rests=(200,))
    assert 0 < lost < counts["ambiguous"] + counts["unexplained"]
    assert counts["rounds that lost and were flagged"] >= 0.9 * counts["rounds that lost"] > 0


@pytest.mark.parametrize(
    ("planted", "value"),
    [("_RETURN", 0), ("_CARRIED", 20), ("OWED_MS", -1), ("_LATE", 0)],
)
def test_changes_are_lost_if_any_part_of_the_inference_is_disabled(planted: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold if planted == "OWED_MS" else overlap, planted, value)
    assert any(storm([seed], rests=(1_000, 40_000), busy=BUSY)[0] for seed in range(60))


@pytest.mark.parametrize(("owed", "changed"), [(0, ["publish_rate"]), (1, [])])
def test_a_document_without_a_change_of_its_own_is_an_old_one_only_if_its_event_is_owed(owed: int, changed: list[str]) -> None:
    before = {"publish_rate": b"0"}
    first = {"publish_rate": b"1"}
    live = {"publish_rate": b"1", "dispatch_rate": b"1"}
    document = {
        "publish_rate": b"0",
        "dispatch_rate": b"1",
    }  # a revert; or encoded before the first change, with what the second event had carried
    older = [Superseded(before, 1_000, ""), Superseded(first, 1_020, "")]
    found = infer_overlapping(document, Superseded(live, 1_040, ""), older, live, None, 0, owed)
    assert found.changed == changed


def test_taking_the_newest_document_as_the_base_of_unexplained_events_loses_more_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    lost, _ = storm(known=False)
    monkeypatch.setattr(inference, "_nearest", lambda document, raws, known: (inference._apart(raws[0], document, known), raws[0]))
    planted, _ = storm(known=False)
    assert planted > 3 * lost


def test_the_nearest_document_is_the_base_of_an_unexplained_event() -> None:
    base = {"publish_rate": b"1", "dispatch_rate": b"1"}
    newer = {"publish_rate": b"2", "dispatch_rate": b"2"}
    stale = {**base, "max_message_size": b"7", "subscribe_rate": b"7"}
    found = infer(stale, newer, [Superseded(base, 1_000, "")], None, None, 0)
    assert (sorted(found.changed), found.base, found.unexplained) == (["max_message_size", "subscribe_rate"], base, True)
