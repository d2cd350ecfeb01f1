"""What the memory log offers beyond the protocol: faults, other writers, compaction, crashes."""

from __future__ import annotations

import asyncio

import pytest

from tests.logs.recorder import Recorder
from tests.logs.samples import a_key, a_tombstone, an_update
from tests.memory_log import Fate, Faults, MemoryLog, MemoryNamespaceLog, MemoryStorage, Outcome
from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.policies.events import Event
from topicpolicies_server.logs.change_log import LogError

NAMESPACE = "acme/orders"
KEY = a_key(NAMESPACE)


class Scripted(Faults):
    """Gives the appends the fates of a list; later appends succeed."""

    def __init__(self, *fates: Fate) -> None:
        self._fates = list(fates)

    def fate(self, namespace: str, event: Event) -> Fate:
        del namespace, event
        return self._fates.pop(0) if self._fates else Fate()


async def opened(log: MemoryLog) -> tuple[MemoryNamespaceLog, Recorder]:
    recorder = Recorder()
    return await log.open(NAMESPACE, recorder), recorder


@pytest.mark.parametrize(
    ("outcome", "stored", "unknown"), [(Outcome.REFUSED, 0, False), (Outcome.UNACKNOWLEDGED, 1, True), (Outcome.VANISHED, 0, True)]
)
async def test_a_failed_append_has_the_outcome_of_its_scripted_fate(outcome: Outcome, stored: int, unknown: bool) -> None:
    storage = MemoryStorage()
    log, recorder = await opened(MemoryLog(storage, faults=Scripted(Fate(outcome))))
    failing, following = an_update(KEY, 1, event_id="failing"), an_update(KEY, 2, event_id="following")
    recorder.append(log, failing)
    recorder.append(log, following)
    await recorder.until_settled(2)
    assert [(event, error.outcome_unknown) for event, error in recorder.failures] == [(failing, unknown)]
    assert recorder.ids(recorder.places) == ["following"]
    assert recorder.ids() == ["failing"] * stored + ["following"]
    assert recorder.complaints == []


async def test_an_event_that_is_stored_twice_is_read_twice_and_acknowledged_once_at_its_first_position() -> None:
    log, recorder = await opened(MemoryLog(faults=Scripted(Fate(copies=2))))
    recorder.append(log, an_update(KEY, event_id="twice"))
    await recorder.until(lambda: len(recorder.entries) == 2)
    assert recorder.ids() == ["twice", "twice"]
    assert recorder.places == recorder.entries[:1]


async def test_delays_do_not_reorder_a_partition() -> None:
    log, recorder = await opened(MemoryLog(faults=Scripted(Fate(delay=0.02, answer_delay=0.02), Fate())))
    recorder.append(log, an_update(KEY, 1, event_id="slow"))
    recorder.append(log, an_update(KEY, 2, event_id="quick"))
    await recorder.until_settled(2)
    assert recorder.ids() == recorder.ids(recorder.places) == ["slow", "quick"]


async def test_several_writers_of_a_storage_read_the_same_log() -> None:
    storage = MemoryStorage(partitions=3)
    (one, first), (two, second) = await opened(MemoryLog(storage)), await opened(MemoryLog(storage))
    for n in range(10):
        first.append(one, an_update(a_key(NAMESPACE, n)))
        second.append(two, an_update(a_key(NAMESPACE, n)))
        storage.write(NAMESPACE, an_update(a_key(NAMESPACE, n)))
    await first.until(lambda: len(first.entries) == 30)
    await second.until(lambda: len(second.entries) == 30)
    for partition in range(3):
        mine, theirs = ([e for e in r.entries if e.partition == partition] for r in (first, second))
        assert mine == theirs != []
    assert len(first.places) == len(second.places) == 10
    assert {entry.producer for entry in first.entries} == {"memory", "broker"}


async def test_positions_on_both_sides_of_a_skipped_one_are_not_adjacent() -> None:
    storage = MemoryStorage()
    log, recorder = await opened(MemoryLog(storage))
    places = [storage.write(NAMESPACE, an_update(KEY)).position for _ in range(2)]
    storage.skip(NAMESPACE)
    places.append(storage.write(NAMESPACE, an_update(KEY)).position)
    assert log.follows(places[0], places[1])
    assert not log.follows(places[1], places[2])
    await recorder.until_caught_up()


async def test_compaction_keeps_the_newest_event_of_each_key_and_all_young_events() -> None:
    now = 1_000
    storage = MemoryStorage(now=lambda: now)
    gone, kept = a_key(NAMESPACE, "gone"), a_key(NAMESPACE, "kept")
    for event in (an_update(kept, 1, event_id="k1"), an_update(gone, 1, event_id="g1"), a_tombstone(gone, event_id="g2")):
        storage.write(NAMESPACE, event)
    storage.write_unreadable(NAMESPACE)
    now = 2_000
    storage.write(NAMESPACE, an_update(kept, 2, event_id="k2"))
    storage.write(NAMESPACE, an_update(kept, 3, event_id="k3"))
    storage.compact(NAMESPACE, keep_younger_than=500)
    _, recorder = await opened(MemoryLog(storage))
    await recorder.until_caught_up()
    assert recorder.ids() == ["k1", "k2", "k3"]  # kept too: the event that the young ones were applied to
    storage.compact(NAMESPACE)
    _, recorder = await opened(MemoryLog(storage))
    await recorder.until_caught_up()
    assert recorder.ids() == ["k3"]


async def test_a_lost_log_fails_events_in_flight_and_can_be_opened_again() -> None:
    storage = MemoryStorage()
    owner = MemoryLog(storage)
    log, recorder = await opened(owner)
    log.answers[0].hold()
    recorder.append(log, an_update(KEY, event_id="in flight"))
    await recorder.until(lambda: len(recorder.entries) == 1)
    storage.lose(NAMESPACE)
    await recorder.until(lambda: bool(recorder.losses))
    assert recorder.reports[-2:] == ["append_failed", "lost"]
    assert recorder.failures[0][1].outcome_unknown
    with pytest.raises(LogError, match="Open it again"):
        log.append(an_update(KEY))
    again, second = await opened(owner)
    await second.until_caught_up()
    assert second.ids() == ["in flight"]
    assert again.identity == log.identity
    await recorder.close(log)
    assert owner.opened(NAMESPACE) is again
    assert recorder.complaints == second.complaints == []


async def test_a_recreated_log_is_empty_and_has_another_identity() -> None:
    storage = MemoryStorage()
    owner = MemoryLog(storage)
    log, recorder = await opened(owner)
    storage.write(NAMESPACE, an_update(KEY))
    storage.recreate(NAMESPACE)
    await recorder.until(lambda: bool(recorder.losses))
    again, second = await opened(owner)
    await second.until_caught_up()
    assert second.entries == []
    assert again.identity != log.identity


async def test_a_crash_reports_nothing_and_loses_events_that_were_not_stored() -> None:
    storage = MemoryStorage()
    owner = MemoryLog(storage)
    log, recorder = await opened(owner)
    log.answers[0].hold()
    recorder.append(log, an_update(KEY, event_id="stored"))
    await recorder.until(lambda: len(recorder.entries) == 1)
    recorder.append(log, an_update(KEY, event_id="on its way"))
    reports = list(recorder.reports)
    owner.crash()
    await asyncio.sleep(0.01)
    assert recorder.reports == reports
    _, second = await opened(owner)
    await second.until_caught_up()
    assert second.ids() == ["stored"]


async def test_appends_above_the_limit_in_flight_are_refused_until_an_outcome_makes_room() -> None:
    log, recorder = await opened(MemoryLog(in_flight_limit=2))
    for _ in range(2):
        recorder.append(log, an_update(KEY))
    with pytest.raises(LogError) as refused:
        log.append(an_update(KEY))
    assert (refused.value.kind, refused.value.reason, refused.value.outcome_unknown) == (Kind.RESOURCE_EXHAUSTED, "LIMIT_REACHED", False)
    await recorder.until_settled(2)
    recorder.append(log, an_update(KEY))
    await recorder.until_settled(3)
    assert len(recorder.entries) == 3


async def test_close_is_bounded_in_time_and_reports_unfinished_appends_as_unknown() -> None:
    log, recorder = await opened(MemoryLog(close_seconds=0.02))
    log.appends[0].hold()
    recorder.append(log, an_update(KEY))
    await recorder.close(log)
    assert [error.outcome_unknown for _, error in recorder.failures] == [True]
    assert log.in_flight == 0
    assert recorder.complaints == []


async def test_a_namespace_can_be_open_only_once_at_a_time() -> None:
    owner = MemoryLog()
    log, _ = await opened(owner)
    with pytest.raises(LogError, match="already open"):
        await opened(owner)
    await log.close()
    await opened(owner)


async def test_held_back_reads_do_not_delay_acknowledgements() -> None:
    log, recorder = await opened(MemoryLog())
    await recorder.until_caught_up()
    log.reads[0].hold()
    recorder.append(log, an_update(KEY))
    await recorder.until(lambda: bool(recorder.places))
    assert recorder.entries == []
    log.reads[0].release()
    await recorder.until_settled(1)
