"""Reading a partition: in order, in slices, and up to an end that is found whatever the library reports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.logs.pulsar.fakes import FakeAdmin, FakeMessage, FakeMessageId, FakeReader, a_message
from tests.logs.samples import a_key, a_tombstone, an_update
from topicpolicies_server.core.names import Scope
from topicpolicies_server.core.policies.events import Placed
from topicpolicies_server.core.reasons import LogState, Reason
from topicpolicies_server.logs.avro import PULSAR_4_2_4, Dialect
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar import PulsarLimits, reader
from topicpolicies_server.logs.pulsar.admin import Admin
from topicpolicies_server.logs.pulsar.brokers import Brokers
from topicpolicies_server.logs.pulsar.client import Result, refusal
from topicpolicies_server.logs.pulsar.entries import Entries, ResumePoint
from topicpolicies_server.logs.pulsar.ids import NOWHERE, MessageId, border_of, position_of
from topicpolicies_server.logs.pulsar.reader import PartitionReader
from topicpolicies_server.logs.pulsar.topics import Compaction, Gap, Schemas, State

NAMESPACE = "public/default"
KEY = a_key(NAMESPACE)
NEVER_COMPACTED = Compaction(-1, MessageId(7, -1))
BEGINNING = MessageId(7, 0)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the reader ask again soon."""
    monkeypatch.setattr(reader, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(reader, "_OVERDUE_SECONDS", 0.05)
    monkeypatch.setattr(reader, "_SETTLING_SECONDS", 0.01)


class Reading:
    """A running reader, its broker, and what it delivered."""

    def __init__(
        self,
        handle: FakeReader,
        last: MessageId,
        *,
        sent: Callable[[], bool | LogError] = lambda: False,
        patience: float = 5.0,
        opening: Compaction = NEVER_COMPACTED,
        first: MessageId = BEGINNING,
        answers: dict[str, Any] | None = None,
        successors: Sequence[FakeReader | LogError] = (),
        replaced: Sequence[LogError | None] | None = None,
        resume_point: ResumePoint | None = None,
    ) -> None:
        """The partition is one of a broker that answers as the arguments say.

        Args:
            handle: the first reader.
            last: the last entry at the opening.
            sent: whether the broker has sent everything.
            patience: after how many seconds without an entry the initial replay gives up.
            opening: how far the partition is compacted at the opening.
            first: the entry from which on it is read uncompacted.
            answers: further answers of the admin API.
            successors: the readers that are opened after the first one, in turn; an error: opening fails.
            replaced: the result of each check whether the log was replaced, in turn; None: always that it was not. Errors of the admin API
                are raised.
            resume_point: how far the partition was read before.
        """
        self.handle = handle
        self.sent = sent
        self.broker_asked = 0
        self.asked_about: list[MessageId] = []
        self.states = [State(opening, last, first)]
        """The broker's answers about the partition's state, in turn; the last one is repeated."""
        self.ledgers: set[MessageId] = set()
        """The messages that the broker has, although the library may not hand them over."""
        self.trimmed: set[int] = set()
        """The ledgers that the broker has no more."""
        self.refusing = False
        """Whether the broker gives no answer about gaps."""
        self.gaps: list[MessageId] = []
        """Before which entries the broker was asked about a gap."""
        self.opened: list[tuple[MessageId, bool]] = []
        """By reader: with which entry it begins, and whether it is compacted."""
        self._handles = [handle, *successors]
        schema = {"version": 0, "type": "AVRO", "data": PULSAR_4_2_4}
        path = f"schemas/{NAMESPACE}/__change_events/schema"
        self.admin = FakeAdmin({path: schema, f"{path}/0": schema, **(answers or {})})
        schemas = Schemas(cast("Admin", self.admin), NAMESPACE, cluster="standalone", dialect=Dialect.PREFIXED)
        self.replaced = list(replaced or ())
        self._checked = replaced is not None
        self.access = SimpleNamespace(client=self, topics=self, limits=PulsarLimits(stuck_seconds=patience))
        self.reader = PartitionReader(cast("Brokers", self.access), "log", Entries(2, schemas, "standalone", resume_point), self._another)
        self.batches: list[list[Placed]] = []
        self.caught_up_after: list[int] = []
        self.task = asyncio.create_task(self._run(self.states[0] if resume_point is not None else None))

    async def _run(self, resumed: State | None) -> None:
        await self.reader.connect(resumed=resumed)
        await self.reader.run(self._deliver, lambda: self.caught_up_after.append(len(self.entries)))

    async def create_reader(self, topic: str, name: str, *, queue_size: int, first: MessageId, compacted: bool) -> FakeReader:
        assert topic and name and queue_size
        self.opened.append((first, compacted))
        handle = self._handles[len(self.opened) - 1]
        if isinstance(handle, LogError):
            raise handle
        return handle

    async def state(self, *_: object) -> State:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    async def gap(self, _topic: str, after: MessageId, before: MessageId) -> Gap:
        self.gaps.append(before)
        if self.refusing:
            raise LogError(LogState.ADMIN_UNREACHABLE, "no answer")
        message = min((each for each in self.ledgers if after < each < before), default=None)
        return Gap(message, after.ledger in self.trimmed, self.states[0].compaction.ledger)

    async def sent_up_to(self, _topic: str, name: str, last: MessageId) -> bool:
        assert name
        self.broker_asked += 1
        self.asked_about.append(last)
        answer = self.sent()
        if isinstance(answer, LogError):
            raise answer
        return answer

    async def _another(self) -> LogError | None:
        error = self.replaced.pop(0) if self._checked else None
        if error is not None and error.state in (LogState.ADMIN_UNREACHABLE, LogState.ADMIN_REFUSED):
            raise error
        return error

    def compacted(self, ledger: int, horizon: MessageId, *, trimmed: int | None = None) -> None:
        """Notes a compaction, which the broker reports from now on; ``trimmed``: the ledger that was deleted because of it."""
        self.states = [self.states[-1]._replace(compaction=Compaction(ledger, horizon))]
        if trimmed is not None:
            self.trimmed.add(trimmed)

    def _deliver(self, events: Sequence[Placed]) -> None:
        self.batches.append(list(events))

    @property
    def entries(self) -> list[Placed]:
        return [placed for batch in self.batches for placed in batch]

    @property
    def ids(self) -> list[str]:
        return [p.event.stamp.event_id if p.event and p.event.stamp else "" for p in self.entries]

    async def until(self, holds: Callable[[], bool], seconds: float = 5.0) -> None:
        async with asyncio.timeout(seconds):
            while not holds():
                if self.task.done():
                    await self.task
                await asyncio.sleep(0.005)

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def updates(*entries: int) -> list[FakeMessage]:
    return [a_message(entry, an_update(KEY, entry, event_id=f"{entry}")) for entry in entries]


async def test_the_last_entry_ends_the_initial_replay_without_any_request() -> None:
    handle = FakeReader(*updates(0, 1, 2))
    reading = Reading(handle, MessageId(7, 2))
    await reading.until(lambda: bool(reading.caught_up_after))
    handle.feed(updates(3)[0])
    await reading.until(lambda: len(reading.entries) == 4)
    assert reading.ids == ["0", "1", "2", "3"]
    assert reading.caught_up_after == [3]
    assert reading.broker_asked == 0
    assert {placed.partition for placed in reading.entries} == {2}
    await reading.stop()


ANOTHER = LogError(Reason.LOG_REPLACED, "another one")
NO_ANSWER = LogError(LogState.ADMIN_UNREACHABLE, "no answer")
REFUSED = LogError(LogState.ADMIN_REFUSED, "401")


@pytest.mark.parametrize("beginning", [True, False])
async def test_entries_of_a_new_ledger_are_delivered_only_after_a_check_that_the_log_was_not_replaced(beginning: bool) -> None:
    handle = FakeReader(*updates(0, 1))
    later = [a_message(0, an_update(KEY, 2, event_id="2"), ledger=8), a_message(1, an_update(KEY, 3, event_id="3"), ledger=8)]
    last = MessageId(8, 0) if beginning else MessageId(7, 1)
    reading = Reading(handle, last, replaced=[NO_ANSWER, None, ANOTHER])
    for message in later:
        handle.feed(message)
    await reading.until(lambda: reading.ids == ["0", "1", "2", "3"])
    assert len(reading.replaced) == (3 if beginning else 1), "the check is repeated until it gets an answer, and made once for each ledger"
    if beginning:
        reading.replaced[:] = [ANOTHER]
    handle.feed(a_message(2, an_update(KEY, 4, event_id="4"), ledger=8))
    handle.feed(a_message(0, an_update(KEY, 5, event_id="5"), ledger=9))
    assert await lost(reading) == "LOG_REPLACED"
    assert reading.ids == ["0", "1", "2", "3", "4"]


async def test_the_first_entry_of_an_empty_partition_is_not_delivered_if_the_log_was_replaced() -> None:
    handle = FakeReader()
    reading = Reading(handle, MessageId(6, -1), first=MessageId(6, 0), replaced=[ANOTHER])
    await reading.until(lambda: reading.caught_up_after == [0])
    handle.feed(updates(0)[0])
    assert await lost(reading) == "LOG_REPLACED"
    assert reading.ids == []


async def test_a_check_that_is_refused_for_long_loses_the_log_instead_of_waiting_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_REFUSED_SECONDS", 0.1)
    handle = FakeReader(*updates(0))
    reading = Reading(handle, MessageId(7, 0), replaced=[REFUSED, None, *[NO_ANSWER] * 6, *[REFUSED] * 6])
    handle.feed(a_message(0, an_update(KEY, 1, event_id="1"), ledger=8))
    await reading.until(lambda: reading.ids == ["0", "1"])  # the first refusal was temporary
    handle.feed(a_message(0, an_update(KEY, 2, event_id="2"), ledger=9))
    assert await lost(reading) == "LOG_UNAVAILABLE"
    assert (reading.ids, len(reading.replaced) < 6) == (["0", "1"], True)


async def test_an_initial_replay_whose_end_does_not_arrive_because_the_log_was_replaced_is_not_completed() -> None:
    reading = Reading(FakeReader(*updates(0, 1)), MessageId(7, 5), sent=lambda: True, replaced=[NO_ANSWER, ANOTHER])
    assert await lost(reading) == "LOG_REPLACED"
    assert (reading.ids, reading.caught_up_after) == (["0", "1"], [])
    markers = Reading(FakeReader(*updates(0, 1)), MessageId(7, 5), sent=lambda: True, replaced=[None])
    await markers.until(lambda: bool(markers.caught_up_after))
    await markers.stop()


async def test_a_later_end_that_does_not_arrive_because_the_log_was_replaced_is_not_reached() -> None:
    reading = Reading(FakeReader(*updates(0, 1)), MessageId(7, 1), sent=lambda: True, replaced=[ANOTHER])
    await reading.until(lambda: bool(reading.caught_up_after))
    assert reading.reader.end(MessageId(7, 5)) == border_of(MessageId(7, 5))
    assert await lost(reading) == "LOG_REPLACED"


async def test_a_replay_whose_last_entry_is_a_marker_ends_when_the_broker_has_sent_everything() -> None:
    reading = Reading(FakeReader(*updates(0, 1)), MessageId(7, 5), sent=lambda: True)
    await reading.until(lambda: reading.caught_up_after == [2])
    assert reading.asked_about == [MessageId(7, 5)]
    await reading.stop()


@pytest.mark.parametrize("answer", [False, LogError(LogState.ADMIN_UNREACHABLE, "no answer")])
async def test_a_replay_without_progress_loses_the_log_unless_the_broker_proves_that_it_is_complete(answer: bool | LogError) -> None:
    handle = FakeReader(*updates(0, 1))
    reading = Reading(handle, MessageId(7, 5), sent=lambda: answer, patience=0.3)
    with pytest.raises(LogError) as lost:
        await asyncio.wait_for(reading.task, 10)
    assert lost.value.reason == "LOG_UNAVAILABLE"
    assert reading.broker_asked > 0
    assert reading.caught_up_after == []


async def test_a_reader_that_gets_nothing_although_there_is_more_is_reopened_where_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_STUCK_SECONDS", 0.2)
    first, failure = FakeReader(*updates(0, 1, 2)), refusal("Reading it", Result.Timeout)
    reading = Reading(
        first, MessageId(7, 5), successors=[failure, FakeReader(*updates(2)), FakeReader(*updates(2, 3, 4, 5))], patience=20.0
    )
    await reading.until(lambda: bool(reading.caught_up_after), 20)
    assert reading.ids == ["0", "1", "2", "3", "4", "5"]
    assert reading.opened == [(MessageId(7, 0), False), *[(MessageId(7, 2), False)] * 3]
    first.feed(updates(3)[0])
    await asyncio.sleep(0.1)
    assert len(reading.entries) == 6, "messages of the former reader must be ignored"
    await reading.stop()


async def test_a_reader_is_also_reopened_after_the_replay_if_a_known_entry_does_not_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_STUCK_SECONDS", 0.2)
    reading = await caught_up(successors=[FakeReader(*updates(2, 3, 4))])
    await asyncio.sleep(0.3)
    assert len(reading.opened) == 1, "nothing is expected yet"
    reading.reader.end(MessageId(7, 4))
    await reading.until(lambda: len(reading.entries) == 5, 20)
    assert reading.opened[1:] == [(MessageId(7, 2), False)] and reading.ids[3:] == ["3", "4"]
    await reading.stop()


async def test_entries_that_arrive_late_are_read_before_caught_up() -> None:
    handle = FakeReader(*updates(0))
    reading = Reading(handle, MessageId(7, 2))
    await reading.until(lambda: reading.broker_asked > 1)
    assert reading.caught_up_after == []
    for message in updates(1, 2):
        handle.feed(message)
    await reading.until(lambda: reading.caught_up_after == [3])
    await reading.stop()


async def test_entries_in_transit_while_the_broker_reports_that_it_has_sent_everything_are_read_before_caught_up() -> None:
    handle = FakeReader(*updates(0))
    reading = Reading(handle, MessageId(7, 9), sent=lambda: True)
    await reading.until(lambda: reading.broker_asked == 1)
    for message in updates(1, 2):
        handle.feed(message)
    await reading.until(lambda: reading.caught_up_after == [3])
    await reading.stop()


async def test_entries_delivered_again_after_a_reconnection_are_read_once() -> None:
    reading = Reading(FakeReader(*updates(0, 1, 2, 1, 2, 3)), MessageId(7, 3))
    await reading.until(lambda: bool(reading.caught_up_after))
    assert reading.ids == ["0", "1", "2", "3"]
    await reading.stop()


async def test_a_long_log_is_read_in_slices_between_which_other_tasks_run() -> None:
    reading = Reading(FakeReader(*updates(*range(3_000))), MessageId(7, 2_999))
    turns = 0
    async with asyncio.timeout(20):
        while not reading.caught_up_after:
            turns += 1
            await asyncio.sleep(0)
    assert reading.ids == [f"{n}" for n in range(3_000)]
    assert len(reading.batches) > 10
    assert turns > 10
    await reading.stop()


async def test_unreadable_entries_are_delivered_with_a_problem_and_counted() -> None:
    garbage = FakeMessage(FakeMessageId(7, 1), KEY.topic, b"\x02no event", {}, 0, "standalone-0-1")
    foreign = FakeMessage(FakeMessageId(7, 2), KEY.topic, b"{}", {}, 1, "standalone-0-1")
    gone = FakeMessage(FakeMessageId(7, 3), KEY.topic, b"", {}, 2, "standalone-0-1")
    of_no_topic = a_message(4, an_update(KEY))
    of_no_topic._key = "none"
    answers = {f"schemas/{NAMESPACE}/__change_events/schema/1": {"version": 1, "type": "JSON", "data": "{}"}}
    reading = Reading(FakeReader(*updates(0), garbage, foreign, gone, of_no_topic, *updates(5)), MessageId(7, 5), answers=answers)
    await reading.until(lambda: bool(reading.caught_up_after))
    assert reading.ids == ["0", "", "", "", "", "5"]
    assert [bool(placed.problem) for placed in reading.entries] == [False, True, True, True, True, False]
    await reading.stop()


async def test_an_entry_waits_until_its_schema_is_available() -> None:
    path = f"schemas/{NAMESPACE}/__change_events/schema/0"
    reading = Reading(FakeReader(*updates(0)), MessageId(7, 0), answers={path: LogError(LogState.ADMIN_UNREACHABLE, "no answer")})
    await asyncio.sleep(0.2)
    assert reading.entries == []
    reading.admin.answers[path] = {"version": 0, "type": "AVRO", "data": PULSAR_4_2_4}
    await reading.until(lambda: reading.caught_up_after == [1])
    await reading.stop()


async def test_only_global_events_of_another_clusters_broker_are_marked_as_replicated() -> None:
    everywhere = a_key(NAMESPACE, 0, Scope.GLOBAL)
    messages = [
        a_message(0, an_update(everywhere), producer="standalone-0-1"),
        a_message(1, an_update(everywhere), producer="us-west-2-0-17"),
        a_message(2, a_tombstone(everywhere), producer="us-west-2-0-17"),
        a_message(3, an_update(KEY), producer="us-west-2-0-17"),
        a_message(4, an_update(everywhere), producer="a name of its own"),
    ]
    reading = Reading(FakeReader(*messages), MessageId(7, 4))
    await reading.until(lambda: bool(reading.caught_up_after))
    assert [placed.event.replicated for placed in reading.entries if placed.event] == [False, True, True, False, False]
    assert [placed.producer for placed in reading.entries][:2] == ["standalone-0-1", "us-west-2-0-17"]
    await reading.stop()


async def test_a_reader_that_the_library_closes_loses_the_log() -> None:
    handle = FakeReader(*updates(0))
    reading = Reading(handle, MessageId(7, 0))
    await reading.until(lambda: bool(reading.caught_up_after))
    handle.fail(Result.AlreadyClosed)
    with pytest.raises(LogError) as lost:
        await asyncio.wait_for(reading.task, 20)
    assert lost.value.reason == "LOG_UNAVAILABLE"


# Gaps


async def caught_up(last: int = 2, **options: Any) -> Reading:
    """Returns a reading that has caught up at entry ``last``, of a topic that was never compacted."""
    reading = Reading(FakeReader(*updates(*range(last + 1))), MessageId(7, last), **options)
    await reading.until(lambda: bool(reading.caught_up_after))
    return reading


async def lost(reading: Reading) -> str:
    with pytest.raises(LogError) as error:
        await asyncio.wait_for(reading.task, 20)
    return error.value.reason


def in_ledger(ledger: int, entry: int = 0) -> FakeMessage:
    """Returns an event of another ledger."""
    return a_message(entry, an_update(KEY, event_id=f"{ledger}:{entry}"), ledger=ledger)


async def test_adjacent_entries_need_no_requests_and_neither_does_the_first_one_of_a_new_partition() -> None:
    reading = await caught_up()
    for message in updates(3, 4):
        reading.handle.feed(message)
    await reading.until(lambda: len(reading.entries) == 5)
    fresh = Reading(FakeReader(), MessageId(7, -1))
    await fresh.until(lambda: fresh.caught_up_after == [0])
    fresh.handle.feed(updates(0)[0])
    await fresh.until(lambda: fresh.ids == ["0"])
    for each in (reading, fresh):
        assert each.gaps == [] and each.broker_asked == 0
        await each.stop()


async def test_a_gap_of_markers_and_the_end_of_a_ledger_are_harmless() -> None:
    reading = await caught_up()
    for message in (updates(5)[0], in_ledger(9)):
        reading.handle.feed(message)
    await reading.until(lambda: len(reading.entries) == 5)
    assert reading.ids[3:] == ["5", "9:0"] and reading.gaps == [MessageId(7, 5), MessageId(9, 0)]
    await reading.stop()


async def test_a_ledger_that_was_compacted_and_deleted_before_it_was_read_to_its_end_loses_the_log() -> None:
    reading = await caught_up()
    reading.compacted(20, MessageId(9, -1), trimmed=7)
    reading.handle.feed(in_ledger(9))
    assert await lost(reading) == "LOG_UNAVAILABLE"
    assert reading.ids == ["0", "1", "2"]


async def test_a_deleted_ledger_is_harmless_if_it_is_known_that_all_of_it_had_been_read() -> None:
    reading = await caught_up()
    reading.compacted(20, MessageId(7, 2))
    await reading.reader.keep_up()
    reading.compacted(20, MessageId(8, -1), trimmed=7)  # the same compaction, as brokers report it after the topic was reloaded
    reading.handle.feed(in_ledger(8))
    await reading.until(lambda: len(reading.entries) == 4)
    reading.compacted(21, MessageId(9, -1), trimmed=8)
    reading.handle.feed(in_ledger(9))
    assert await lost(reading) == "LOG_UNAVAILABLE"


async def test_a_deleted_ledger_is_harmless_if_the_log_is_compacted_no_further_than_it_was_read() -> None:
    reading = await caught_up()
    reading.compacted(20, MessageId(7, 2), trimmed=7)
    reading.handle.feed(in_ledger(8))
    await reading.until(lambda: len(reading.entries) == 4)
    await reading.stop()


async def test_a_ledger_that_was_deleted_although_nothing_was_ever_compacted_was_empty() -> None:
    reading = Reading(FakeReader(), MessageId(7, -1))
    await reading.until(lambda: reading.caught_up_after == [0])
    reading.trimmed.add(7)
    reading.handle.feed(in_ledger(9))
    await reading.until(lambda: reading.ids == ["9:0"])
    await reading.stop()


async def test_a_message_that_was_not_handed_over_is_read_by_the_next_reader() -> None:
    reading = await caught_up(successors=[FakeReader(*updates(2, 3, 4, 5))])
    reading.ledgers = {MessageId(7, entry) for entry in range(6)}
    for message in updates(3, 5):
        reading.handle.feed(message)
    await reading.until(lambda: reading.ids == ["0", "1", "2", "3", "4", "5"])
    assert reading.opened[1:] == [(MessageId(7, 3), False)]
    assert not any(placed.problem for placed in reading.entries)
    await reading.stop()


async def test_messages_that_the_next_readers_do_not_hand_over_either_are_unreadable_and_counted() -> None:
    reading = Reading(FakeReader(*updates(0, 1, 4)), MessageId(7, 4), successors=[FakeReader(*updates(1, 4)), FakeReader(*updates(1, 4))])
    reading.ledgers = {MessageId(7, entry) for entry in range(5)}
    await reading.until(lambda: reading.caught_up_after == [5])
    assert reading.ids == ["0", "1", "", "", "4"]
    assert [bool(placed.problem) for placed in reading.entries] == [False, False, True, True, False]
    await reading.stop()


async def test_a_last_message_that_does_not_come_for_long_is_unreadable_and_counted() -> None:
    reading = await caught_up(sent=lambda: True, successors=[FakeReader(*updates(2))], patience=1_000.0)
    reading.ledgers = {MessageId(7, entry) for entry in (0, 1, 2, 4)}
    reading.reader.end(MessageId(7, 4))
    await reading.until(lambda: reading.broker_asked > 1)
    assert len(reading.entries) == 3, "it may be on its way"
    reading.access.limits = PulsarLimits(stuck_seconds=0.0)
    await reading.until(lambda: len(reading.entries) == 4)
    assert reading.entries[-1].position == position_of(MessageId(7, 4))
    assert [bool(placed.problem) for placed in reading.entries] == [False, False, False, True]
    await reading.stop()


async def test_messages_handed_over_out_of_order_are_read_in_order() -> None:
    reading = await caught_up(successors=[FakeReader(*updates(2, 3, 4))])
    reading.ledgers = {MessageId(7, entry) for entry in range(5)}
    for message in (*updates(4), *updates(3)):
        reading.handle.feed(message)
        await asyncio.sleep(0.1)
    await reading.until(lambda: reading.ids == ["0", "1", "2", "3", "4"])
    await reading.stop()


async def test_a_message_left_in_the_librarys_queue_is_read_before_caught_up_although_all_was_sent() -> None:
    handle = FakeReader(*updates(0, 1))
    reading = Reading(handle, MessageId(7, 2), sent=lambda: True)
    await reading.until(lambda: len(reading.entries) == 2)
    handle.misses = 1
    handle.feed(updates(2)[0])
    await reading.until(lambda: bool(reading.caught_up_after))
    assert reading.ids == ["0", "1", "2"] and reading.caught_up_after == [3]
    await reading.stop()


# Two phases

COMPACTED = Compaction(20, MessageId(7, 4))


async def test_a_compacted_partition_is_read_as_it_was_from_the_first_entry_on_that_is_wanted_and_left() -> None:
    second = FakeReader(*updates(2, 3, 4, 5))
    reading = Reading(FakeReader(*updates(1, 4, 5)), MessageId(7, 5), opening=COMPACTED, first=MessageId(7, 3), successors=[second])
    await reading.until(lambda: reading.caught_up_after == [4])
    assert reading.ids == ["1", "3", "4", "5"], "entry 2 is not among those that compaction left"
    assert reading.opened == [(NOWHERE, True), (MessageId(7, 2), False)] and reading.gaps == []
    assert reading.reader.complete_after == position_of(MessageId(7, 4))
    second.feed(updates(6)[0])
    await reading.until(lambda: reading.ids[4:] == ["6"])
    await reading.stop()


async def test_a_partition_of_which_compaction_left_nothing_catches_up_when_the_broker_has_sent_everything() -> None:
    reading = Reading(
        FakeReader(), MessageId(7, 4), opening=COMPACTED, first=MessageId(7, 5), successors=[FakeReader(), FakeReader()], sent=lambda: True
    )
    await reading.until(lambda: reading.caught_up_after == [0])
    assert reading.asked_about == [MessageId(7, 4)]
    await reading.stop()


async def test_a_compacted_entry_that_was_sent_and_comes_late_is_read_before_the_second_phase() -> None:
    handle, second = FakeReader(), FakeReader()
    reading = Reading(handle, MessageId(7, 4), opening=COMPACTED, first=MessageId(7, 5), sent=lambda: True)
    create = reading.create_reader

    async def late(*arguments: Any, first: MessageId, compacted: bool, **named: Any) -> FakeReader:
        reading._handles.append(second)
        if len(reading.opened) == 1:
            handle.feed(updates(1)[0])  # it was sent before the answer
        return await create(*arguments, first=first, compacted=compacted, **named)

    reading.create_reader = late  # type: ignore[method-assign]
    await reading.until(lambda: reading.caught_up_after == [1])
    assert reading.ids == ["1"]
    await reading.stop()


async def test_a_compacted_reader_that_gets_nothing_is_reopened_where_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_STUCK_SECONDS", 0.2)
    successors = [FakeReader(*updates(1, 4)), FakeReader(*updates(4))]
    reading = Reading(FakeReader(*updates(1)), MessageId(7, 4), opening=COMPACTED, first=MessageId(7, 4), successors=successors)
    await reading.until(lambda: reading.caught_up_after == [2])
    assert reading.opened == [(NOWHERE, True), (MessageId(7, 1), True), (MessageId(7, 3), False)]
    await reading.stop()


async def test_a_compaction_during_the_first_phase_moves_the_end_of_the_replay_to_its_horizon() -> None:
    second = FakeReader(*updates(5, 6))
    reading = Reading(FakeReader(*updates(1, 5)), MessageId(7, 4), opening=COMPACTED, first=MessageId(7, 5), successors=[second])
    late = [Compaction(21, MessageId(7, 4)), Compaction(21, MessageId(7, 8))]  # the horizon is reported after the ledger
    reading.states += [reading.states[0]._replace(compaction=compaction) for compaction in late]
    await reading.until(lambda: reading.ids == ["1", "5", "6"])
    assert reading.caught_up_after == []
    for message in updates(7, 8):
        second.feed(message)
    await reading.until(lambda: reading.caught_up_after == [5])
    assert reading.reader.complete_after == position_of(MessageId(7, 8))
    await reading.stop()


async def test_entries_that_were_wanted_and_deleted_before_they_were_read_lose_the_log() -> None:
    successors = [FakeReader(in_ledger(9))]
    reading = Reading(FakeReader(*updates(1, 5)), MessageId(9, 0), opening=COMPACTED, first=MessageId(7, 2), successors=successors)
    reading.trimmed.add(7)
    assert await lost(reading) == "LOG_UNAVAILABLE"
    assert (reading.ids, reading.caught_up_after) == (["1"], [])


async def test_a_horizon_that_is_reported_late_does_not_hide_that_entries_were_deleted() -> None:
    just_ended, successors = Compaction(20, MessageId(7, -1)), [FakeReader(in_ledger(8))]
    reading = Reading(FakeReader(in_ledger(8)), MessageId(8, 0), opening=just_ended, first=BEGINNING, successors=successors)
    opening = reading.states[0]
    reading.states = [opening, opening, opening, opening._replace(compaction=Compaction(20, MessageId(8, 0)))]
    reading.trimmed.add(7)
    assert await lost(reading) == "LOG_UNAVAILABLE"
    assert reading.ids == []


async def test_a_partition_whose_compacted_ledgers_are_all_gone_is_read_on_in_the_next_one() -> None:
    successors = [FakeReader(in_ledger(9))]
    reading = Reading(
        FakeReader(*updates(1), in_ledger(9)), MessageId(9, 0), opening=COMPACTED, first=MessageId(7, 5), successors=successors
    )
    reading.trimmed.add(7)
    await reading.until(lambda: reading.caught_up_after == [2])
    await reading.stop()


async def test_a_partition_that_was_read_before_is_read_on_uncompacted() -> None:
    point = ResumePoint(MessageId(7, 2), "2")
    reading = Reading(FakeReader(*updates(2, 3, 4)), MessageId(7, 4), opening=Compaction(20, MessageId(7, 1)), resume_point=point)
    await reading.until(lambda: reading.caught_up_after == [2])
    assert reading.ids == ["3", "4"] and reading.opened == [(MessageId(7, 2), False)]
    await reading.stop()


async def test_another_entry_where_reading_had_stopped_loses_the_log() -> None:
    point = ResumePoint(MessageId(7, 2), "another")
    assert await lost(Reading(FakeReader(*updates(2, 3, 4)), MessageId(7, 4), resume_point=point)) == "LOG_REPLACED"


@pytest.mark.parametrize(
    ("opening", "complete_after"),
    [
        (Compaction(), None),
        (NEVER_COMPACTED, ""),
        (Compaction(20, MessageId(7, 2)), position_of(MessageId(7, 2))),
        (Compaction(20, MessageId(8, -1)), "a8"),
        (Compaction(20, None), None),
    ],
)
async def test_complete_after_follows_from_the_compaction_at_the_opening(opening: Compaction, complete_after: str | None) -> None:
    reading = Reading(FakeReader(), MessageId(7, 2), opening=opening)
    await reading.until(lambda: bool(reading.opened))
    assert reading.reader.complete_after == complete_after
    await reading.stop()


# Where the partition ends later


def an_end(entry: int, ledger: int = 7) -> MessageId:
    return MessageId(ledger, entry)


async def test_the_end_of_a_partition_that_was_never_written_is_its_beginning() -> None:
    reading = Reading(FakeReader(), MessageId(7, -1))
    await reading.until(lambda: reading.caught_up_after == [0])
    assert reading.reader.end(an_end(-1)) == ""
    await reading.stop()


async def test_an_end_that_is_in_transit_is_awaited_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_OVERDUE_SECONDS", 10.0)
    reading = await caught_up(sent=lambda: True)
    end = reading.reader.end(an_end(4))
    await asyncio.sleep(0.05)
    for message in updates(3, 4):
        reading.handle.feed(message)
    await reading.until(lambda: reading.entries[-1].position >= end)
    assert reading.ids == ["0", "1", "2", "3", "4"]
    assert reading.broker_asked == 0
    await reading.stop()


@pytest.mark.parametrize("end", [an_end(4), an_end(-1, ledger=9), an_end(3, ledger=9)], ids=["marker", "no entries", "markers"])
async def test_an_end_without_a_readable_entry_is_recognized_after_a_while(end: MessageId) -> None:
    reading = await caught_up(sent=lambda: True)
    assert reading.reader.end(end) > position_of(an_end(2))
    await reading.until(lambda: reading.reader.end(end) == position_of(an_end(2)))
    assert set(reading.asked_about) == {end}
    assert reading.ids == ["0", "1", "2"]
    reading.handle.feed(a_message(7, an_update(KEY, event_id="next"), ledger=9))
    await reading.until(lambda: reading.ids[3:] == ["next"])
    await reading.stop()


async def test_an_end_that_was_compacted_and_deleted_before_it_was_read_loses_the_log() -> None:
    reading = await caught_up(sent=lambda: True)
    reading.compacted(20, MessageId(9, -1), trimmed=7)
    reading.reader.end(an_end(-1, ledger=9))
    assert await lost(reading) == "LOG_UNAVAILABLE"


async def test_entries_that_were_compacted_and_deleted_without_a_trace_lose_the_log_once_the_broker_is_asked() -> None:
    reading = await caught_up(sent=lambda: True)
    reading.states = [reading.states[0]._replace(last=an_end(5))]
    reading.compacted(20, MessageId(9, -1), trimmed=7)
    await reading.reader.keep_up()
    assert await lost(reading) == "LOG_UNAVAILABLE"


@pytest.mark.parametrize("answer", [False, LogError(LogState.ADMIN_UNREACHABLE, "no answer")])
async def test_an_end_that_the_broker_has_not_sent_is_awaited(answer: bool | LogError) -> None:
    reading = await caught_up(sent=lambda: answer)
    reading.ledgers = {an_end(entry) for entry in range(4)}
    end = reading.reader.end(an_end(3))
    await reading.until(lambda: reading.broker_asked > 1)
    assert reading.reader.end(an_end(3)) == end
    reading.handle.feed(updates(3)[0])
    await reading.until(lambda: reading.ids == ["0", "1", "2", "3"])
    asked = reading.broker_asked
    await asyncio.sleep(0.3)
    assert reading.broker_asked == asked, "nothing is left to ask"
    await reading.stop()
