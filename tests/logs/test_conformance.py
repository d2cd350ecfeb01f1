"""The contract of ``logs/change_log.py`` as tests, which every kind of change log must pass.

A kind skips a test only if it has no way to do from outside what the test needs (see ``backend.py``).
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from tests.logs.backend import Backend
from tests.logs.recorder import Recorder, Report, at
from tests.logs.routing import partition_of
from tests.logs.samples import a_key, a_large_document, a_tombstone, an_update, documents, stamps
from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.names import Scope
from topicpolicies_server.core.policies.documents import Document
from topicpolicies_server.core.policies.events import ABSENT, Action, Event, Placed, Stamp
from topicpolicies_server.logs.change_log import ChangeLogs, LogError, NamespaceLog, Start, anchor_of


@dataclass
class Bench:
    """Opens logs of a backend; at the end, closes them and checks that no sink has complaints."""

    backend: Backend
    changes: list[ChangeLogs] = field(default_factory=list)
    recorders: list[Recorder] = field(default_factory=list)

    async def start(self, *, in_flight_limit: int | None = None) -> ChangeLogs:
        change_log = await self.backend.start(in_flight_limit=in_flight_limit)
        self.changes.append(change_log)
        return change_log

    async def open(self, namespace: str, change_log: ChangeLogs | None = None, start: Start | None = None) -> tuple[NamespaceLog, Recorder]:
        """Opens a log, which may still be reading what it holds."""
        if change_log is None:
            change_log = self.changes[-1] if self.changes else await self.start()
        recorder = Recorder()
        self.recorders.append(recorder)
        return await change_log.open(namespace, recorder, start), recorder

    async def ready(self, namespace: str, change_log: ChangeLogs | None = None) -> tuple[NamespaceLog, Recorder]:
        """Opens a log and waits until it has caught up."""
        log, recorder = await self.open(namespace, change_log)
        await recorder.until_caught_up()
        return log, recorder

    async def stop(self) -> None:
        """Closes everything, as a process does that exits normally."""
        for change_log in self.changes:
            await change_log.close()
        self.changes.clear()
        for recorder in self.recorders:
            recorder.closed = True

    async def filled(self, namespace: str, *events: Event) -> Recorder:
        """Opens the log, appends events, and closes everything; returns what was recorded."""
        log, recorder = await self.ready(namespace)
        for event in events:
            recorder.append(log, event)
        await recorder.until_settled(len(events))
        assert recorder.failures == []
        await self.stop()
        return recorder


@pytest.fixture
async def bench(backend: Backend) -> AsyncIterator[Bench]:
    bench = Bench(backend)
    yield bench
    await bench.stop()
    await asyncio.sleep(0)
    assert [recorder.complaints for recorder in bench.recorders] == [[] for _ in bench.recorders]


@pytest.fixture
def namespace(backend: Backend) -> str:
    return backend.namespace()


def by_partition(entries: list[Placed]) -> dict[int, list[Placed]]:
    result: dict[int, list[Placed]] = {}
    for placed in entries:
        result.setdefault(placed.partition, []).append(placed)
    return result


def growing(entries: list[Placed]) -> bool:
    """Returns whether the positions grow within each partition."""
    return all(earlier.position < later.position for part in by_partition(entries).values() for earlier, later in itertools.pairwise(part))


def place(log: NamespaceLog, entries: list[Placed]) -> Start:
    """Returns the ``Start`` of an opener that knows these entries of a log."""
    last = {placed.partition: placed for placed in entries}
    there = [last.get(partition) for partition in range(log.partitions)]
    positions = tuple(placed.position if placed is not None else "" for placed in there)
    return Start(log.identity, positions, tuple(anchor_of(placed) if placed is not None else "" for placed in there), log.in_place)


# Opening and catching up


async def test_an_empty_log_reports_caught_up_once_and_no_reads(bench: Bench) -> None:
    log, recorder = await bench.ready(bench.backend.namespace())
    assert log.partitions >= 1
    assert log.identity
    await asyncio.sleep(0.05)
    assert recorder.reports == ["caught_up"]


async def test_opening_a_log_creates_nothing(bench: Bench, namespace: str) -> None:
    await bench.ready(namespace)
    await bench.stop()
    assert not await bench.backend.stored(namespace)


async def test_existing_events_are_read_in_order_before_caught_up_and_new_events_after_it(bench: Bench, namespace: str) -> None:
    keys = [a_key(namespace, n) for n in range(5)]
    wrote = await bench.filled(namespace, *(an_update(keys[n % 5], n) for n in range(300)))
    log, recorder = await bench.ready(namespace)
    assert recorder.caught_up_after == [300]
    assert by_partition(recorder.entries) == by_partition(wrote.entries)
    recorder.append(log, an_update(keys[0], 300))
    await recorder.until_settled(1)
    assert recorder.caught_up_after == [300]
    assert growing(recorder.entries)


async def test_events_may_be_appended_before_the_log_is_caught_up(bench: Bench, namespace: str) -> None:
    await bench.filled(namespace, *(an_update(a_key(namespace, n), event_id=f"old-{n}") for n in range(100)))
    log, recorder = await bench.open(namespace)
    for n in range(100):
        recorder.append(log, an_update(a_key(namespace, n), event_id=f"new-{n}"))
    await recorder.until_settled(100)
    await recorder.until_caught_up()
    assert growing(recorder.entries)
    for n in range(100):
        assert recorder.ids(recorder.of(a_key(namespace, n))) == [f"old-{n}", f"new-{n}"]


async def test_the_event_loop_is_never_blocked_while_a_long_log_is_read(bench: Bench, namespace: str) -> None:
    await bench.filled(namespace, *(an_update(a_key(namespace, n)) for n in range(3_000)))
    log, recorder = await bench.open(namespace)
    at_once, longest = [], 0.0
    while not recorder.caught_up_after:
        assert not recorder.losses
        before, began = len(recorder.entries), time.perf_counter()
        await asyncio.sleep(0)
        at_once.append(len(recorder.entries) - before)
        longest = max(longest, time.perf_counter() - began)
    assert sum(at_once) > 2_000
    assert len(recorder.entries) == 3_000
    assert recorder.reports.count("read") > 1
    assert max(at_once) <= 600 * log.partitions, "entries read in one turn of the event loop"
    assert longest < 1.0  # brokers and other tests use the same cores


# Appending


async def test_an_appended_event_is_acknowledged_once_and_read_once_at_the_same_position(bench: Bench, namespace: str) -> None:
    log, recorder = await bench.ready(namespace)
    event = an_update(a_key(namespace))
    before = time.time() * 1_000
    recorder.append(log, event)
    await recorder.until_settled(1)
    await asyncio.sleep(0.05)
    assert len(recorder.places) == len(recorder.entries) == 1
    place, entry = recorder.places[0], recorder.entries[0]
    assert at(place) == at(entry)
    assert place.event == entry.event == event
    assert entry.problem == ""
    assert before - 60_000 < entry.published_at < time.time() * 1_000 + 60_000
    assert entry.position > ABSENT


async def test_events_of_a_key_are_logged_in_the_order_of_their_appends_with_hundreds_in_flight(bench: Bench, namespace: str) -> None:
    log, recorder = await bench.ready(namespace)
    expected = [f"{n}" for n in range(500)]
    for name in expected:
        recorder.append(log, an_update(a_key(namespace), event_id=name))
    assert recorder.places == []
    await recorder.until_settled(500)
    assert recorder.ids() == recorder.ids(recorder.places) == expected
    assert growing(recorder.entries)
    assert growing(recorder.places)


async def test_interleaved_appends_of_many_keys_keep_each_key_in_order_in_its_own_partition(bench: Bench, namespace: str) -> None:
    log, recorder = await bench.ready(namespace)
    keys = [a_key(namespace, n, scope) for n in range(20) for scope in Scope]
    for turn in range(10):
        for key in keys:
            recorder.append(log, an_update(key, event_id=f"{turn}"))
        await asyncio.sleep(0)
    await recorder.until_settled(400)
    assert len(recorder.entries) == 400
    assert growing(recorder.entries)
    assert growing(recorder.places)
    assert by_partition(recorder.entries) == by_partition(recorder.places)
    for key in keys:
        mine = recorder.of(key)
        assert recorder.ids(mine) == [f"{turn}" for turn in range(10)]
        assert {placed.partition for placed in mine} == {log.partition_of(key)} == {partition_of(key, log.partitions)}
    assert {placed.partition for placed in recorder.entries} == set(range(log.partitions))


async def test_follows_is_true_only_for_adjacent_positions(bench: Bench, namespace: str) -> None:
    log, recorder = await bench.ready(namespace)
    for n in range(30):
        recorder.append(log, an_update(a_key(namespace, n)))
    await recorder.until_settled(30)
    proven = 0
    for entries in by_partition(recorder.entries).values():
        positions = ["", *(placed.position for placed in entries)]
        for i, earlier in enumerate(positions):
            for j, later in enumerate(positions[1:], start=1):
                if log.follows(earlier, later):
                    assert j == i + 1
                    proven += i > 0
    assert proven > 0 or not bench.backend.proves_neighbours


async def test_follows_is_false_if_another_writer_wrote_an_event_between(bench: Bench, namespace: str) -> None:
    key = a_key(namespace)
    log, recorder = await bench.ready(namespace)
    for n in range(5):
        recorder.append(log, an_update(key, event_id=f"mine-{n}"))
        await recorder.until_settled(n + 1)
        await bench.backend.write(namespace, an_update(key, event_id=f"theirs-{n}"))
    await recorder.until(lambda: len(recorder.entries) == 10)
    assert recorder.ids() == [f"{who}-{n}" for n in range(5) for who in ("mine", "theirs")]
    for earlier, later in itertools.pairwise(recorder.places):
        assert not log.follows(earlier.position, later.position)


async def test_a_sink_may_append_from_inside_a_report(bench: Bench, namespace: str) -> None:
    log, recorder = await bench.ready(namespace)
    left = 20

    def again(report: Report) -> None:
        nonlocal left
        if report in ("read", "acknowledged") and left > 0:
            left -= 1
            recorder.append(log, an_update(a_key(namespace)))

    recorder.then = again
    recorder.append(log, an_update(a_key(namespace)))
    await recorder.until_settled(21)
    assert len(recorder.entries) == 21


# What is kept


async def test_documents_are_read_back_byte_for_byte(bench: Bench, namespace: str) -> None:
    written: list[Document] = [*documents(), a_large_document(bench.backend.large)]
    await bench.filled(
        namespace,
        *(Event(a_key(namespace, n), Action.UPDATE, doc, an_update(a_key(namespace)).stamp) for n, doc in enumerate(written)),
    )
    _, recorder = await bench.ready(namespace)
    for n, document in enumerate(written):
        (placed,) = recorder.of(a_key(namespace, n))
        assert placed.event is not None
        assert placed.event.document is not None
        assert dict(placed.event.document) == dict(document)


async def test_stamps_are_read_back_in_every_part(bench: Bench, namespace: str) -> None:
    written: list[Stamp] = stamps()
    await bench.filled(namespace, *(Event(a_key(namespace), Action.UPDATE, documents()[1], stamp) for stamp in written))
    _, recorder = await bench.ready(namespace)
    assert [placed.event.stamp for placed in recorder.entries if placed.event is not None] == written


async def test_tombstones_are_read_back_with_their_scope_and_stamp(bench: Bench, namespace: str) -> None:
    events = [a_tombstone(a_key(namespace, 0, scope)) for scope in Scope]
    await bench.filled(namespace, *events)
    _, recorder = await bench.ready(namespace)
    for event in events:
        assert [placed.event for placed in recorder.of(event.key)] == [event]


@pytest.mark.parametrize("action", [Action.INSERT, Action.UPDATE, Action.DELETE, Action.NONE])
async def test_actions_and_scopes_are_read_back(bench: Bench, namespace: str, action: Action) -> None:
    events = [Event(a_key(namespace, 0, scope), action, documents()[1], an_update(a_key(namespace)).stamp) for scope in Scope]
    await bench.filled(namespace, *events)
    _, recorder = await bench.ready(namespace)
    for event in events:
        # A broker that follows the log may answer a DELETE with a tombstone of its own, which has no stamp.
        mine = [placed.event for placed in recorder.of(event.key) if placed.event and placed.event.stamp]
        assert [(read.action, read.stamp) for read in mine] == [(action, event.stamp)]


async def test_a_reopened_log_has_the_same_identity_and_entries_and_its_positions_grow(bench: Bench, namespace: str) -> None:
    seen: list[Placed] = []
    identities: set[str] = set()
    for life in range(3):
        log, recorder = await bench.ready(namespace)
        assert by_partition(recorder.entries) == by_partition(seen)
        for n in range(4):
            recorder.append(log, an_update(a_key(namespace, n), event_id=f"{life}-{n}"))
        await recorder.until_settled(4)
        assert growing(recorder.entries)
        identities.add(log.identity)
        seen = recorder.entries
        await bench.stop()
    assert len(seen) == 12
    assert len(identities) == 1


async def test_events_of_two_namespaces_are_separate(bench: Bench) -> None:
    one, two = bench.backend.namespace("one"), bench.backend.namespace("two")
    first, first_recorder = await bench.ready(one)
    second, second_recorder = await bench.ready(two)
    assert first.identity != second.identity
    for n in range(20):
        first_recorder.append(first, an_update(a_key(one, n)))
        second_recorder.append(second, an_update(a_key(two, n)))
    await first_recorder.until_settled(20)
    await second_recorder.until_settled(20)
    await first_recorder.close(first)
    second_recorder.append(second, an_update(a_key(two, 20)))
    await second_recorder.until_settled(21)
    for recorder, namespace, count in ((first_recorder, one, 20), (second_recorder, two, 21)):
        assert len(recorder.entries) == count
        assert {f"persistent://{namespace}/" in p.event.key.topic for p in recorder.entries if p.event} == {True}


async def test_compaction_keeps_the_newest_event_of_each_key_at_its_position(bench: Bench, namespace: str) -> None:
    keys = [a_key(namespace, n) for n in range(5)]
    wrote = await bench.filled(namespace, *(an_update(keys[n % 5], n, event_id=f"{n}") for n in range(50)))
    await bench.backend.compact(namespace)
    log, recorder = await bench.ready(namespace)
    assert sorted(recorder.ids(), key=int) == ["45", "46", "47", "48", "49"]
    assert {at(placed) for placed in recorder.entries} <= {at(placed) for placed in wrote.entries}
    assert growing(recorder.entries)
    recorder.append(log, an_update(keys[0], 50, event_id="50"))
    await recorder.until_settled(1)
    assert growing(recorder.entries)


@pytest.mark.stages_compaction
async def test_compaction_removes_nothing_after_its_end_and_no_newest_event_before_it(bench: Bench, namespace: str) -> None:
    wrote = await bench.filled(namespace, *(an_update(a_key(namespace, n % 5), n) for n in range(50)))
    log, _ = await bench.ready(namespace)
    assert {log.complete_after(partition) for partition in range(log.partitions)} <= {"", None}
    await bench.stop()
    await bench.backend.compact(namespace)
    await bench.filled(namespace, *(an_update(a_key(namespace, n % 5), n) for n in range(50, 60)))
    log, recorder = await bench.ready(namespace)
    borders = [log.complete_after(partition) for partition in range(log.partitions)]
    read = {at(placed) for placed in recorder.entries}
    for partition, entries in by_partition(wrote.entries).items():
        end = borders[partition]
        if end is not None:
            newest = {placed.event.key: placed for placed in entries if placed.event is not None and placed.position <= end}
            assert {at(placed) for placed in newest.values()} <= read
            assert {at(placed) for placed in entries if placed.position > end} <= read
    assert len(recorder.entries) < 60
    assert any(borders) or set(borders) == {None}


@pytest.mark.stages_compaction  # a log that is compacted before this reader finds it is opened again
async def test_an_event_of_another_writer_is_read_and_not_acknowledged(bench: Bench, namespace: str) -> None:
    key = a_key(namespace)
    _, recorder = await bench.ready(namespace)
    event = Event(key, Action.UPDATE, documents()[1])
    await bench.backend.write(namespace, event)
    await recorder.until(lambda: len(recorder.entries) == 1)
    (placed,) = recorder.of(key)
    assert placed.event is not None
    assert placed.event.stamp is None
    assert dict(placed.event.document or {}) == dict(documents()[1])
    assert recorder.places == []


async def test_several_processes_on_one_storage_read_the_same_log(bench: Bench) -> None:
    if bench.backend.exclusive:
        pytest.skip(f"{bench.backend.name} belongs to one process at a time")
    namespace = bench.backend.namespace()
    both = [await bench.ready(namespace, await bench.start()) for _ in range(2)]
    for n in range(50):
        for who, (log, recorder) in enumerate(both):
            recorder.append(log, an_update(a_key(namespace, n % 5), event_id=f"{who}-{n}"))
        await asyncio.sleep(0)
    for _, recorder in both:
        await recorder.until(lambda recorder=recorder: len(recorder.entries) == 100)  # type: ignore[misc]
    (one, first), (two, second) = both
    assert one.identity == two.identity
    assert by_partition(first.entries) == by_partition(second.entries)
    assert growing(first.entries)
    for who, recorder in enumerate((first, second)):
        assert len(recorder.places) == 50
        assert {at(placed) for placed in recorder.places} <= {at(placed) for placed in recorder.entries}
        assert {name.partition("-")[0] for name in recorder.ids(recorder.places)} == {str(who)}


async def test_a_reader_that_reached_the_end_has_read_everything_written_before_the_end_was_requested(bench: Bench, namespace: str) -> None:
    key = a_key(namespace)
    log, recorder = await bench.ready(namespace)
    partition = log.partition_of(key)
    recorder.append(log, an_update(key))
    await recorder.until_settled(1)
    for turn in range(5):
        if log.shared:
            await bench.backend.write(namespace, an_update(key, event_id=f"theirs-{turn}"))
        else:
            recorder.append(log, an_update(key, event_id=f"theirs-{turn}"))
            await recorder.until_settled(turn + 2)
        end = await log.end(partition)

        def come(end: str = end) -> bool:
            return any(placed.partition == partition and placed.position >= end for placed in recorder.entries)

        await recorder.until(come)
        assert recorder.ids(recorder.of(key))[-1] == f"theirs-{turn}"


async def test_the_end_of_a_log_that_another_writer_created_after_the_opening_is_returned_and_reached(bench: Bench, namespace: str) -> None:
    log, recorder = await bench.ready(namespace)
    await bench.backend.write(namespace, an_update(a_key(namespace), event_id="theirs"))
    ends = [await log.end(partition) for partition in range(log.partitions)]
    (partition,) = [partition for partition, end in enumerate(ends) if end]
    await recorder.until(lambda: any((placed.partition, placed.position) == (partition, ends[partition]) for placed in recorder.entries))
    assert recorder.ids() == ["theirs"]


async def test_the_end_is_returned_for_each_partition_separately(bench: Bench, namespace: str) -> None:
    log, recorder = await bench.ready(namespace)
    for n in range(30):
        recorder.append(log, an_update(a_key(namespace, n)))
    await recorder.until_settled(30)
    newest = {partition: entries[-1].position for partition, entries in by_partition(recorder.entries).items()}
    ends = await asyncio.gather(*(log.end(partition) for partition in range(log.partitions)))
    assert dict(enumerate(ends)) == newest


async def test_the_end_of_a_log_that_was_never_written_is_its_beginning_and_requesting_it_creates_nothing(
    bench: Bench, namespace: str
) -> None:
    log, _ = await bench.ready(namespace)
    assert [await log.end(partition) for partition in range(log.partitions)] == [""] * log.partitions
    await bench.stop()
    assert not await bench.backend.stored(namespace)


async def test_an_end_that_was_compacted_away_or_is_unreadable_is_reached_all_the_same(bench: Bench, namespace: str) -> None:
    key = a_key(namespace)

    async def come() -> Recorder:
        """Opens the log and waits until all ends are reached: by what was read, or by what was compacted before the opening."""
        log, recorder = await bench.ready(namespace)
        read = by_partition(recorder.entries)
        async with asyncio.timeout(100):
            for partition in range(log.partitions):
                here = max(log.complete_after(partition) or "", *(placed.position for placed in read.get(partition, ())), "")
                while await log.end(partition) > here:  # noqa: ASYNC110 (ends once the log knows that there is nothing to read)
                    await asyncio.sleep(0.1)
        await bench.stop()
        return recorder

    await bench.filled(namespace, an_update(key), a_tombstone(key))
    await bench.backend.compact(namespace)
    assert (await come()).entries == []
    await bench.backend.write_unreadable(namespace)
    assert [bool(placed.problem) for placed in (await come()).entries] == [True]


async def test_requesting_the_end_of_a_closed_log_fails(bench: Bench, namespace: str) -> None:
    log, recorder = await bench.ready(namespace)
    recorder.append(log, an_update(a_key(namespace)))
    await recorder.until_settled(1)
    await recorder.close(log)
    with pytest.raises(LogError):
        await log.end(0)


async def test_an_unreadable_entry_is_reported_with_its_problem_and_reading_continues(bench: Bench, namespace: str) -> None:
    await bench.filled(namespace, an_update(a_key(namespace), event_id="before"))
    await bench.backend.write_unreadable(namespace)
    await bench.filled(namespace, an_update(a_key(namespace), event_id="after"))
    _, recorder = await bench.ready(namespace)
    assert recorder.ids(recorder.of(a_key(namespace))) == ["before", "after"]
    (unreadable,) = [placed for placed in recorder.entries if placed.event is None]
    assert unreadable.problem
    assert growing(recorder.entries)


# When things fail or end


@pytest.mark.parametrize("outcome_unknown", [False, True])
async def test_a_failed_append_is_reported_once_and_with_whether_the_event_may_be_in_the_log(
    bench: Bench, namespace: str, outcome_unknown: bool
) -> None:
    log, recorder = await bench.ready(namespace)
    recorder.append(log, an_update(a_key(namespace), event_id="before"))
    await recorder.until_settled(1)
    failing = an_update(a_key(namespace), event_id="failing")
    with bench.backend.failing(log, outcome_unknown=outcome_unknown):
        recorder.append(log, failing)
        await recorder.until_settled(2)
    recorder.append(log, an_update(a_key(namespace), event_id="after"))
    await recorder.until_settled(3)
    assert [(event, error.outcome_unknown) for event, error in recorder.failures] == [(failing, outcome_unknown)]
    assert recorder.ids(recorder.places) == ["before", "after"]
    await bench.stop()
    _, again = await bench.ready(namespace)
    assert [name for name in again.ids() if name != "failing"] == ["before", "after"]
    assert again.ids() == recorder.ids()
    if not outcome_unknown:
        assert "failing" not in again.ids()


async def test_an_append_above_the_limit_of_events_in_flight_is_refused_and_not_in_the_log(bench: Bench, namespace: str) -> None:
    log, recorder = await bench.ready(namespace, await bench.start(in_flight_limit=10))
    with bench.backend.holding(log):
        for n in range(10):
            recorder.append(log, an_update(a_key(namespace, n)))
        with pytest.raises(LogError) as refused:
            recorder.append(log, an_update(a_key(namespace), event_id="refused"))
    assert (refused.value.kind, refused.value.reason) == (Kind.RESOURCE_EXHAUSTED, "LIMIT_REACHED")
    assert not refused.value.outcome_unknown
    await recorder.until_settled(10)
    recorder.append(log, an_update(a_key(namespace), event_id="taken"))
    await recorder.until_settled(11)
    assert len(recorder.entries) == 11
    assert "refused" not in recorder.ids()


@pytest.mark.stages_compaction  # of the events of one key, compaction leaves the last
async def test_close_finishes_pending_appends_and_reports_nothing_afterwards(bench: Bench, namespace: str) -> None:
    log, recorder = await bench.ready(namespace)
    for n in range(200):
        recorder.append(log, an_update(a_key(namespace), event_id=f"{n}"))
    assert recorder.places == []
    await recorder.close(log)
    assert recorder.ids(recorder.places) == [f"{n}" for n in range(200)]
    await asyncio.sleep(0.05)
    await bench.stop()
    _, again = await bench.ready(namespace)
    assert again.ids() == [f"{n}" for n in range(200)]


async def test_closing_the_change_log_finishes_the_pending_appends_of_all_namespaces(bench: Bench) -> None:
    namespaces = [bench.backend.namespace(f"ns-{n}") for n in range(3)]
    change_log = await bench.start()
    recorders = []
    for namespace in namespaces:
        log, recorder = await bench.open(namespace, change_log)
        recorders.append(recorder)
        for n in range(20):
            recorder.append(log, an_update(a_key(namespace, n)))
    await bench.stop()
    assert [len(recorder.places) for recorder in recorders] == [20, 20, 20]


async def test_a_closed_log_refuses_appends_and_may_be_closed_again(bench: Bench, namespace: str) -> None:
    log, recorder = await bench.ready(namespace)
    await recorder.close(log)
    with pytest.raises(LogError) as refused:
        log.append(an_update(a_key(namespace)))
    assert not refused.value.outcome_unknown
    await log.close()


async def test_a_log_that_is_closed_while_it_reads_reports_nothing_afterwards(bench: Bench, namespace: str) -> None:
    await bench.filled(namespace, *(an_update(a_key(namespace, n)) for n in range(1_000)))
    log, recorder = await bench.open(namespace)
    await recorder.close(log)
    read = len(recorder.entries)
    await asyncio.sleep(0.1)
    assert len(recorder.entries) == read


async def test_a_lost_log_reports_the_loss_once_and_can_be_opened_again(bench: Bench, namespace: str) -> None:
    log, recorder = await bench.ready(namespace)
    recorder.append(log, an_update(a_key(namespace), event_id="before"))
    await recorder.until_settled(1)
    with bench.backend.holding(log):
        recorder.append(log, an_update(a_key(namespace), event_id="in flight"))
        await bench.backend.lose(log)
        await recorder.until(lambda: bool(recorder.losses))
    assert recorder.reports.count("lost") == 1
    assert [event.stamp.event_id for event, _ in recorder.failures if event.stamp] == ["in flight"]
    with pytest.raises(LogError):
        log.append(an_update(a_key(namespace)))
    await recorder.close(log)
    again, second = await bench.ready(namespace)
    assert again.identity == log.identity
    assert second.ids()[0] == "before"
    second.append(again, an_update(a_key(namespace), event_id="after"))
    await second.until_settled(1)
    assert second.ids()[-1] == "after"


# Resuming


async def between_two_lives(bench: Bench) -> tuple[str, Start, list[str], list[str]]:
    """Returns a namespace, the position that the first run reached, and the ids of the events of the first and of the second run."""
    namespace = bench.backend.namespace()
    log, recorder = await bench.ready(namespace)
    for number in range(24):  # enough for an event in each partition
        recorder.append(log, an_update(a_key(namespace, number)))
    await recorder.until_settled(24)
    start, first = place(log, recorder.entries), recorder.ids(recorder.entries)
    await bench.stop()
    second = await bench.filled(namespace, *(an_update(a_key(namespace, number), 2) for number in range(5)))
    return namespace, start, first, second.ids(second.places)


async def test_a_log_opened_with_a_start_reads_only_the_events_behind_it(bench: Bench) -> None:
    namespace, start, _, second = await between_two_lives(bench)
    log, recorder = await bench.open(namespace, start=start)
    await recorder.until_caught_up()
    assert log.resumed and log.identity == start.identity
    assert sorted(recorder.ids()) == sorted(second)
    event = an_update(a_key(namespace), 3)
    recorder.append(log, event)
    await recorder.until_settled(1)
    assert recorder.ids(recorder.places) == recorder.ids(recorder.entries[-1:]) == [event.stamp.event_id if event.stamp else ""]


async def test_a_log_opened_with_its_end_as_the_start_reads_nothing(bench: Bench) -> None:
    namespace, _, _, _ = await between_two_lives(bench)
    log, recorder = await bench.ready(namespace)
    start = place(log, recorder.entries)
    await bench.stop()
    log, recorder = await bench.open(namespace, start=start)
    await recorder.until_caught_up()
    assert log.resumed and recorder.entries == []


@pytest.mark.parametrize("wrong", ["identity", "in place", "ahead", "another event", "no place", "partitions"])
async def test_a_start_that_does_not_match_the_log_is_ignored_and_the_log_read_from_its_beginning(bench: Bench, wrong: str) -> None:
    namespace, start, first, second = await between_two_lives(bench)
    match wrong:
        case "identity":
            start = start._replace(identity=start.identity + "x")
        case "in place":
            start = start._replace(in_place=not start.in_place)
        case "ahead":
            start = start._replace(
                positions=tuple("s9999999999999999999s9999999999999999999" if at.islower() else "fff" for at in start.positions)
            )
        case "another event":
            start = start._replace(anchors=tuple("another" for _ in start.anchors))
        case "no place":
            start = start._replace(positions=tuple("what?" for _ in start.positions))
        case _:
            start = start._replace(positions=(*start.positions, ""), anchors=(*start.anchors, ""))
    if wrong == "another event" and bench.backend.name.startswith("pulsar"):
        pytest.skip("it is found out as reading begins, and the log is lost")
    log, recorder = await bench.open(namespace, start=start)
    await recorder.until_caught_up()
    assert not log.resumed
    assert sorted(recorder.ids()) == sorted(first + second)


async def test_a_log_that_was_compacted_behind_the_start_is_read_from_its_beginning(bench: Bench) -> None:
    namespace, start, _, second = await between_two_lives(bench)
    await bench.backend.compact(namespace)
    log, recorder = await bench.open(namespace, start=start)
    await recorder.until_caught_up()
    assert not log.resumed
    assert len(recorder.entries) >= 24 and set(second) <= set(recorder.ids())
