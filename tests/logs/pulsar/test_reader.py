"""Reading a partition: in order, in slices, and up to an end that is found whatever the library reports."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from tests.logs.pulsar.fakes import FakeAdmin, FakeMessage, FakeMessageId, FakeReader, a_message
from tests.logs.samples import a_key, a_tombstone, an_update
from topicpolicies.v1.events_pb2 import ChangeOrigin
from topicpolicies_server.core.names import Scope
from topicpolicies_server.core.policies.events import LATEST_MS, Placed
from topicpolicies_server.core.reasons import LogState, Reason
from topicpolicies_server.logs.avro import PULSAR_4_2_4, Dialect
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar.admin import Admin
from topicpolicies_server.logs.pulsar.admin.schemas import Schemas
from topicpolicies_server.logs.pulsar.admin.topics import Compaction
from topicpolicies_server.logs.pulsar.client import Result
from topicpolicies_server.logs.pulsar.ids import MessageId, border_of, position_of
from topicpolicies_server.logs.pulsar.reading import continuity_requests, patience, receiving
from topicpolicies_server.logs.pulsar.reading import partition as reader
from topicpolicies_server.logs.pulsar.reading.continuity import Continuity
from topicpolicies_server.logs.pulsar.reading.continuity_requests import ContinuityRequests
from topicpolicies_server.logs.pulsar.reading.entries import Entries
from topicpolicies_server.logs.pulsar.reading.partition import Goal, PartitionReader
from topicpolicies_server.logs.pulsar.reading.receiving import Received
from topicpolicies_server.namespaces.wording import event_in_words

NAMESPACE = "public/default"
KEY = a_key(NAMESPACE)
NEVER_COMPACTED = Compaction(-1, MessageId(7, -1))


class Reading:
    """A running reader, and what it delivered."""

    def __init__(
        self,
        handle: FakeReader,
        last: MessageId | None,
        *,
        sent: Callable[[], bool | LogError] = lambda: False,
        patience: float = 5.0,
        fresh_ledger: int | None = None,
        opening: Compaction = NEVER_COMPACTED,
        answers: dict[str, Any] | None = None,
        recalled: Sequence[Received] = (),
        recall: Callable[[MessageId, MessageId], Awaitable[Sequence[Received] | None]] | None = None,
        not_handed_over: set[MessageId] | None = None,
        successors: Sequence[FakeReader | LogError] | None = None,
        replaced: Sequence[LogError | None] = (),
    ) -> None:
        """``successors``: the readers that are opened in place of the first one, in turn; an error: opening fails.

        ``replaced``: the result of each check whether the log was replaced, in turn; errors of the admin API are raised.
        """

        async def all_sent(last: MessageId) -> bool:
            self.broker_asked += 1
            self.asked_about.append(last)
            answer = sent()
            if isinstance(answer, LogError):
                raise answer
            return answer

        self.broker_asked = 0
        self.asked_about: list[MessageId] = []
        self.handle = handle
        schema = {"version": 0, "type": "AVRO", "data": PULSAR_4_2_4}
        path = f"schemas/{NAMESPACE}/__change_events/schema"
        self.admin = FakeAdmin({path: schema, f"{path}/0": schema, **(answers or {})})
        schemas = Schemas(cast("Admin", self.admin), NAMESPACE, "__change_events", cluster="standalone", dialect=Dialect.PREFIXED)
        self.compactions = [opening]
        """The broker's answers about its compaction, in turn; the last one is repeated."""

        async def compaction() -> Compaction:
            return self.compactions.pop(0) if len(self.compactions) > 1 else self.compactions[0]

        self.ledgers: set[MessageId] = set()
        """The messages that the broker has, although the library may not hand them over."""

        async def skipped(after: MessageId, before: MessageId) -> MessageId | None:
            return min((each for each in self.ledgers if after < each < before), default=None)

        self.resumed: list[MessageId] = []
        """The places after which a reader was reopened."""

        async def reopen(last: MessageId) -> FakeReader:
            assert successors is not None
            self.resumed.append(last)
            successor = successors[len(self.resumed) - 1]
            if isinstance(successor, LogError):
                raise successor
            return successor

        self.replaced = list(replaced)

        async def another() -> LogError | None:
            error = self.replaced.pop(0)
            if error is not None and error.state in (LogState.ADMIN_UNREACHABLE, LogState.ADMIN_REFUSED):
                raise error
            return error

        self.continuity = Continuity(opening, not_handed_over)
        self.requests = ContinuityRequests(compaction, skipped, recall, another if replaced else None)
        goal = Goal(last, all_sent, patience, fresh_ledger)
        entries = Entries(2, schemas, "standalone")
        again = None if successors is None else reopen
        self.reader = PartitionReader(handle, entries, goal, self.continuity, self.requests, recalled, again)
        self.batches: list[list[Placed]] = []
        self.caught_up_after: list[int] = []
        self.task = asyncio.create_task(self.reader.run(self._deliver, lambda: self.caught_up_after.append(len(self.entries))))

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
    assert handle.asked_for_more == 0
    assert {placed.partition for placed in reading.entries} == {2}
    await reading.stop()


async def test_existing_entries_that_are_damaged_or_of_no_topic_are_counted_and_those_of_other_clusters_are_replicated() -> None:
    damaged = a_message(1, an_update(KEY))
    damaged._payload = b"?"
    of_no_topic = a_message(2, an_update(KEY))
    of_no_topic._key = "none"
    everywhere = a_message(3, an_update(KEY._replace(scope=Scope.GLOBAL)), producer="elsewhere-0-1")
    reading = Reading(FakeReader(*updates(0), damaged, of_no_topic, everywhere), MessageId(7, 3))
    await reading.until(lambda: bool(reading.caught_up_after))
    assert [placed.position for placed in reading.entries] == [position_of(MessageId(7, entry)) for entry in range(4)]
    assert [placed.event is not None for placed in reading.entries] == [True, False, False, True]
    assert [placed.event is not None and placed.event.replicated for placed in reading.entries] == [False, False, False, True]
    assert reading.reader.entries.problems == 2
    reading.handle.feed(updates(4)[0])
    await reading.until(lambda: len(reading.entries) == 5)
    assert reading.reader.entries.problems == 2
    await reading.stop()


async def test_a_publish_time_beyond_the_year_9999_is_that_of_its_end_which_answers_and_texts_can_express() -> None:
    messages = updates(0, 1, 2)
    for message, at in zip(messages, (1_700_000_000_000_000, 2**64 - 1, LATEST_MS), strict=True):  # microseconds for milliseconds
        message.published_at = at
    reading = Reading(FakeReader(*messages), MessageId(7, 2))
    await reading.until(lambda: bool(reading.caught_up_after))
    assert [placed.published_at for placed in reading.entries] == [LATEST_MS] * 3
    assert all("at 9999-12-31T23:59:59" in event_in_words(placed) for placed in reading.entries)
    ChangeOrigin().publish_time.FromMilliseconds(LATEST_MS)  # raises if it can't be expressed
    await reading.stop()


ANOTHER = LogError(Reason.LOG_REPLACED, "another one")
NO_ANSWER = LogError(LogState.ADMIN_UNREACHABLE, "no answer")
REFUSED = LogError(LogState.ADMIN_REFUSED, "401")


@pytest.mark.parametrize("beginning", [True, False])
async def test_entries_of_a_new_ledger_are_delivered_only_after_a_check_that_the_log_was_not_replaced(
    monkeypatch: pytest.MonkeyPatch, beginning: bool
) -> None:
    monkeypatch.setattr(continuity_requests, "_FIRST_PAUSE", 0.01)
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


@pytest.mark.parametrize("fresh", [6, None])
async def test_the_first_entry_of_an_empty_partition_is_not_delivered_if_the_log_was_replaced(fresh: int | None) -> None:
    handle = FakeReader()
    reading = Reading(handle, None, fresh_ledger=fresh, replaced=[ANOTHER])
    await reading.until(lambda: reading.caught_up_after == [0])
    handle.feed(updates(0)[0])
    assert await lost(reading) == "LOG_REPLACED"
    assert reading.ids == []


async def test_a_check_that_is_refused_for_long_loses_the_log_instead_of_waiting_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuity_requests, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(continuity_requests, "_REFUSED_SECONDS", 0.1)
    handle = FakeReader(*updates(0))
    reading = Reading(handle, MessageId(7, 0), replaced=[REFUSED, None, *[NO_ANSWER] * 6, *[REFUSED] * 6])
    handle.feed(a_message(0, an_update(KEY, 1, event_id="1"), ledger=8))
    await reading.until(lambda: reading.ids == ["0", "1"])  # the first refusal was temporary
    handle.feed(a_message(0, an_update(KEY, 2, event_id="2"), ledger=9))
    assert await lost(reading) == "LOG_UNAVAILABLE"
    assert (reading.ids, len(reading.replaced) < 6) == (["0", "1"], True)


async def test_an_initial_replay_whose_end_does_not_arrive_because_the_log_was_replaced_is_not_completed() -> None:
    reading = Reading(FakeReader(*updates(0, 1)), MessageId(7, 5), replaced=[NO_ANSWER, ANOTHER])
    assert await lost(reading) == "LOG_REPLACED"
    assert (reading.ids, reading.caught_up_after) == (["0", "1"], [])
    tombstones = Reading(FakeReader(*updates(0, 1)), MessageId(7, 5), replaced=[None])  # a compaction removed the rest
    await tombstones.until(lambda: bool(tombstones.caught_up_after))
    await tombstones.stop()


async def test_a_later_end_that_does_not_arrive_because_the_log_was_replaced_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_OVERDUE_SECONDS", 0.02)
    reading = Reading(FakeReader(*updates(0, 1)), MessageId(7, 1), sent=lambda: True, replaced=[ANOTHER])
    await reading.until(lambda: bool(reading.caught_up_after))
    assert reading.reader.end(MessageId(7, 5)) == border_of(MessageId(7, 5))
    assert await lost(reading) == "LOG_REPLACED"
    assert reading.continuity.complete_upto == MessageId(7, 5), "the check for a replaced log is the last one"


async def test_an_empty_partition_catches_up_at_once() -> None:
    reading = Reading(FakeReader(), None)
    await reading.until(lambda: reading.caught_up_after == [0])
    assert reading.handle.asked_for_more == 0
    await reading.stop()


async def test_a_replay_without_its_compacted_last_entry_ends_when_the_library_reports_no_more_messages() -> None:
    reading = Reading(FakeReader(*updates(0, 1)), MessageId(7, 5))
    await reading.until(lambda: reading.caught_up_after == [2])
    assert reading.broker_asked == 0
    await reading.stop()


async def test_a_library_that_always_reports_more_messages_is_overruled_by_the_broker() -> None:
    handle = FakeReader(*updates(0, 1))
    handle.has_more = True
    reading = Reading(handle, MessageId(7, 5), sent=lambda: True)
    await reading.until(lambda: reading.caught_up_after == [2], 10)
    assert reading.broker_asked == 1
    await reading.stop()


async def test_the_broker_is_asked_before_patience_ends_if_the_library_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "_ANSWER_SECONDS", 0.3)
    handle = FakeReader(*updates(0, 1))
    handle.silent = True
    reading = Reading(handle, MessageId(7, 5), sent=lambda: True, patience=2.0)
    await reading.until(lambda: reading.caught_up_after == [2])
    assert handle.asked_for_more > 1 and reading.broker_asked == 1
    await reading.stop()


@pytest.mark.parametrize("answer", [False, LogError(LogState.ADMIN_UNREACHABLE, "no answer")])
async def test_a_replay_without_progress_loses_the_log_unless_the_broker_proves_that_it_is_complete(answer: bool | LogError) -> None:
    handle = FakeReader(*updates(0, 1))
    handle.has_more = True
    reading = Reading(handle, MessageId(7, 5), sent=lambda: answer, patience=2.0)
    with pytest.raises(LogError) as lost:
        await asyncio.wait_for(reading.task, 10)
    assert lost.value.reason == "LOG_UNAVAILABLE"
    assert reading.broker_asked > 0
    assert reading.caught_up_after == []


def stuck(*entries: int) -> FakeReader:
    """Returns a reader that gets nothing more from the broker, although there is more."""
    handle = FakeReader(*updates(*entries))
    handle.has_more = True
    return handle


async def test_a_reader_that_gets_nothing_although_there_is_more_is_reopened_where_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_BROKER_SECONDS", 0.1)
    monkeypatch.setattr(patience, "_READER_SECONDS", 0.2)
    failure = LogError(LogState.UNREACHABLE, "not now")
    first = stuck(0, 1, 2)
    reading = Reading(first, MessageId(7, 5), successors=[failure, stuck(2), FakeReader(*updates(2, 3, 4, 5))], patience=20.0)
    await reading.until(lambda: bool(reading.caught_up_after), 20)
    assert reading.ids == ["0", "1", "2", "3", "4", "5"]
    assert reading.resumed == [MessageId(7, 2)] * 3
    first.feed(updates(3)[0])
    await asyncio.sleep(0.1)
    assert len(reading.entries) == 6, "messages of the former reader must be ignored"
    await reading.stop()


async def test_entries_repeated_by_reopened_readers_do_not_count_as_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_BROKER_SECONDS", 0.05)
    monkeypatch.setattr(patience, "_READER_SECONDS", 0.1)
    reading = Reading(stuck(0, 1), MessageId(7, 5), successors=[stuck(1) for _ in range(9)], patience=1.0)
    assert await lost(reading) == "LOG_UNAVAILABLE"
    assert 1 < len(reading.resumed) < 9, "the reader is reopened at growing intervals"


async def test_a_reader_is_also_reopened_after_the_replay_if_a_known_entry_does_not_arrive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "_OVERDUE_SECONDS", 0.05)
    monkeypatch.setattr(patience, "_READER_SECONDS", 0.2)
    reading = await caught_up(successors=[FakeReader(*updates(2, 3, 4))])
    await asyncio.sleep(0.3)
    assert reading.resumed == [], "nothing is expected yet"
    reading.reader.end(MessageId(7, 4))
    await reading.until(lambda: len(reading.entries) == 5, 20)
    assert reading.resumed == [MessageId(7, 2)] and reading.ids[3:] == ["3", "4"]
    await reading.stop()


async def test_entries_that_arrive_late_are_read_before_caught_up() -> None:
    handle = FakeReader(*updates(0))
    handle.has_more = True
    reading = Reading(handle, MessageId(7, 2))
    await asyncio.sleep(0.5)
    assert reading.caught_up_after == []
    for message in updates(1, 2):
        handle.feed(message)
    await reading.until(lambda: reading.caught_up_after == [3])
    await reading.stop()


async def test_entries_in_transit_while_the_library_reports_no_more_are_read_before_caught_up() -> None:
    handle = FakeReader(*updates(0))
    handle.has_more = False
    reading = Reading(handle, MessageId(7, 9))
    await reading.until(lambda: handle.asked_for_more == 1)
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


class OneByOne(Reading):
    """A reader that gets the next entry, on another thread, whenever one was delivered: it never has to wait."""

    def _deliver(self, events: Sequence[Placed]) -> None:
        super()._deliver(events)
        if self.caught_up_after and len(self.entries) < 200:
            self.handle.feed(*updates(len(self.entries)))


async def test_an_endless_stream_of_single_entries_lets_other_tasks_run() -> None:
    reading = OneByOne(FakeReader(*updates(0)), MessageId(7, 0))
    await reading.until(lambda: bool(reading.caught_up_after))
    await asyncio.sleep(0.01)
    reading.handle.feed(*updates(1))
    turns = 0
    async with asyncio.timeout(20):
        while len(reading.entries) < 200:
            turns += 1
            await asyncio.sleep(0)
    assert reading.ids == [f"{n}" for n in range(200)]
    assert len(reading.batches) == 200
    assert turns >= 20
    await reading.stop()


async def test_unreadable_entries_are_delivered_with_a_problem_and_counted() -> None:
    garbage = FakeMessage(FakeMessageId(7, 1), KEY.topic, b"\x02no event", {}, 0, "standalone-0-1")
    foreign = FakeMessage(FakeMessageId(7, 2), KEY.topic, b"{}", {}, 1, "standalone-0-1")
    gone = FakeMessage(FakeMessageId(7, 3), KEY.topic, b"", {}, 2, "standalone-0-1")
    answers = {f"schemas/{NAMESPACE}/__change_events/schema/1": {"version": 1, "type": "JSON", "data": "{}"}}
    reading = Reading(FakeReader(*updates(0), garbage, foreign, gone, *updates(4)), MessageId(7, 4), answers=answers)
    await reading.until(lambda: bool(reading.caught_up_after))
    assert reading.ids == ["0", "", "", "", "4"]
    assert [bool(placed.problem) for placed in reading.entries] == [False, True, True, True, False]
    assert reading.reader.entries.problems == 3
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


async def test_entries_that_compaction_erased_before_they_were_read_lose_the_log() -> None:
    reading = await caught_up()
    reading.compactions = [Compaction(20, MessageId(7, 2)), Compaction(20, MessageId(7, 5))]  # the horizon is reported late
    reading.handle.feed(updates(5)[0])
    assert await lost(reading) == "LOG_UNAVAILABLE"
    assert reading.ids == ["0", "1", "2"]


async def test_a_compaction_of_entries_that_were_read_does_not_affect_the_reader() -> None:
    reading = await caught_up()
    reading.compactions = [Compaction(20, MessageId(7, 2))]
    for message in (updates(5)[0], a_message(0, an_update(KEY, event_id="next ledger"), ledger=9)):
        reading.handle.feed(message)
    await reading.until(lambda: len(reading.entries) == 5)
    assert reading.ids[3:] == ["5", "next ledger"]
    await reading.stop()


async def test_a_gap_at_the_end_of_a_ledger_is_harmless_without_a_compaction() -> None:
    reading = await caught_up()
    reading.handle.feed(a_message(0, an_update(KEY, event_id="next ledger"), ledger=9))
    await reading.until(lambda: len(reading.entries) == 4)
    await reading.stop()


async def test_a_message_that_is_not_handed_over_loses_the_log() -> None:
    reading = await caught_up()
    reading.ledgers = {MessageId(7, entry) for entry in range(6)}
    for message in (*updates(3), *updates(5)):
        reading.handle.feed(message)
    assert await lost(reading) == "LOG_UNAVAILABLE"
    assert "5" not in reading.ids


def with_a_hole(known: set[MessageId]) -> Reading:
    """Returns a reading of five entries, two of which the library does not hand over."""
    reading = Reading(FakeReader(*updates(0, 1, 4)), MessageId(7, 4), not_handed_over=known)
    reading.ledgers = {MessageId(7, entry) for entry in range(5)}
    return reading


async def test_messages_that_are_not_handed_over_at_two_openings_are_unreadable_and_counted() -> None:
    known: set[MessageId] = set()
    assert await lost(with_a_hole(known)) == "LOG_UNAVAILABLE"
    reading = with_a_hole(known)
    await reading.until(lambda: reading.caught_up_after == [5])
    assert reading.ids == ["0", "1", "", "", "4"]
    assert [bool(placed.problem) for placed in reading.entries] == [False, False, True, True, False]
    assert reading.reader.entries.problems == 2
    await reading.stop()


async def test_a_message_that_was_handed_over_meanwhile_loses_the_log_again_if_it_is_missing_later() -> None:
    known: set[MessageId] = set()
    assert await lost(with_a_hole(known)) == "LOG_UNAVAILABLE"
    reading = await caught_up(4, not_handed_over=known)
    await reading.stop()
    assert await lost(with_a_hole(known)) == "LOG_UNAVAILABLE"


async def test_a_last_message_that_is_not_handed_over_at_two_openings_is_unreadable_and_counted() -> None:
    reading = await caught_up(sent=lambda: True, not_handed_over={MessageId(7, 4)})
    reading.ledgers = {MessageId(7, entry) for entry in (0, 1, 2, 4)}
    reading.reader.end(MessageId(7, 4))
    await reading.until(lambda: len(reading.entries) == 4)
    assert reading.entries[-1].position == position_of(MessageId(7, 4)) and reading.reader.entries.problems == 1
    await reading.stop()


async def test_a_missing_message_other_than_the_one_known_to_be_missing_loses_the_log() -> None:
    reading = await caught_up(not_handed_over={MessageId(7, 3)})
    reading.ledgers = {MessageId(7, entry) for entry in range(6)}
    reading.handle.feed(updates(5)[0])
    assert await lost(reading) == "LOG_UNAVAILABLE"


async def test_messages_handed_over_out_of_order_lose_the_log() -> None:
    reading = await caught_up()
    reading.ledgers = {MessageId(7, entry) for entry in range(5)}
    for message in (*updates(4), *updates(3)):
        reading.handle.feed(message)
        await asyncio.sleep(0.1)
    assert await lost(reading) == "LOG_UNAVAILABLE"
    assert reading.ids == ["0", "1", "2"]


async def test_messages_that_the_library_reorders_within_its_queue_are_read_in_order() -> None:
    reading = await caught_up()
    reading.ledgers = {MessageId(7, entry) for entry in range(6)}
    await asyncio.sleep(0.05)  # the receiver waits by now
    reading.handle.misses = 1
    for message in updates(3, 4, 5):
        reading.handle.feed(message)
    await reading.until(lambda: reading.ids == ["0", "1", "2", "3", "4", "5"])
    await reading.stop()


async def test_a_message_left_in_the_librarys_queue_is_read_before_caught_up_although_all_was_sent() -> None:
    handle = FakeReader(*updates(0, 1))
    handle.has_more = True
    reading = Reading(handle, MessageId(7, 2), sent=lambda: True)
    await reading.until(lambda: len(reading.entries) == 2)
    handle.misses = 1
    handle.feed(updates(2)[0])
    await reading.until(lambda: bool(reading.caught_up_after))
    assert reading.ids == ["0", "1", "2"] and reading.caught_up_after == [3]
    await reading.stop()


@pytest.mark.parametrize("handed_over", [(1, 2), (0, 2)])
async def test_a_message_that_is_not_handed_over_during_the_initial_replay_loses_the_log(handed_over: tuple[int, ...]) -> None:
    reading = Reading(FakeReader(*updates(*handed_over)), MessageId(7, 2))
    reading.ledgers = {MessageId(7, entry) for entry in range(3)}
    assert await lost(reading) == "LOG_UNAVAILABLE"
    assert reading.caught_up_after == []


async def test_entries_compacted_before_the_opening_are_not_missed_during_the_initial_replay() -> None:
    reading = Reading(FakeReader(*updates(2, 4, 5)), MessageId(7, 5), opening=Compaction(20, MessageId(7, 4)))
    reading.ledgers = {MessageId(7, entry) for entry in range(6)}  # they still stand in the ledgers
    await reading.until(lambda: reading.caught_up_after == [3])
    await reading.stop()


async def test_adjacent_entries_need_no_requests() -> None:
    reading = await caught_up()
    reading.compactions = [Compaction(20, MessageId(9, 9))]
    for message in updates(3, 4):
        reading.handle.feed(message)
    await reading.until(lambda: len(reading.entries) == 5)
    await reading.stop()


async def test_a_gap_after_a_known_compaction_of_read_entries_is_harmless() -> None:
    reading = await caught_up()
    reading.compactions = [Compaction(20, MessageId(7, 2))]
    await reading.reader.keep_up()
    reading.compactions = [Compaction(20, MessageId(8, -1))]  # the same compaction, as brokers report it after the topic was reloaded
    reading.handle.feed(a_message(0, an_update(KEY, event_id="next ledger"), ledger=8))
    await reading.until(lambda: len(reading.entries) == 4)
    await reading.stop()


async def test_compactions_are_requested_only_while_there_are_uncompacted_entries() -> None:
    reading = await caught_up()
    answers = [Compaction(-1, MessageId(7, -1)), Compaction(20, MessageId(7, 2))]
    for answer in answers:
        reading.compactions = [answer]
        await reading.reader.keep_up()
    reading.compactions = [Compaction(21, MessageId(7, 9))]
    await reading.reader.keep_up()  # no request was sent, because nothing was left to compact
    reading.compactions = [Compaction(20, MessageId(8, -1))]
    reading.handle.feed(a_message(0, an_update(KEY, event_id="next ledger"), ledger=8))
    await reading.until(lambda: len(reading.entries) == 4)
    await reading.stop()


@pytest.mark.parametrize("compaction", [Compaction(20, MessageId(7, 3)), Compaction(19, MessageId(7, 3))])
async def test_a_compaction_during_the_initial_replay_loses_the_log_if_the_erased_entries_are_unavailable(compaction: Compaction) -> None:
    handle = FakeReader(*updates(0, 1))
    reading = Reading(handle, MessageId(7, 3), opening=Compaction(19, MessageId(7, 1)))
    await reading.until(lambda: len(reading.entries) == 2)
    reading.compactions = [compaction]
    handle.feed(updates(3)[0])
    assert await lost(reading) == "LOG_UNAVAILABLE"
    assert reading.caught_up_after == []


@pytest.mark.parametrize("comes", [updates(), [a_message(2, an_update(KEY, event_id="next ledger"), ledger=9)]])
async def test_a_replay_whose_end_a_compaction_moved_loses_the_log_if_entries_up_to_there_are_unavailable(comes: list[FakeMessage]) -> None:
    handle = FakeReader(*updates(0, 1))
    reading = Reading(handle, MessageId(7, 1), opening=Compaction(19, MessageId(7, 1)))
    reading.compactions = [Compaction(20, MessageId(9, 2))]  # since the opening; ledger 7 was trimmed
    for message in comes:
        handle.feed(message)
    assert await lost(reading) == "LOG_UNAVAILABLE"
    assert reading.caught_up_after == [] and reading.ids == ["0", "1"]


async def test_a_replay_whose_end_a_compaction_moved_completes_there_once_all_entries_are_read() -> None:
    stands = [(MessageId(9, entry), a_message(entry, an_update(KEY, event_id=f"9:{entry}"), ledger=9)) for entry in range(3)]
    answers: list[Sequence[Received] | None] = [None, stands, []]  # at first they are unavailable

    async def recall(after: MessageId, before: MessageId) -> Sequence[Received] | None:
        assert reading.caught_up_after == [], "the replay must not be complete yet"
        return answers.pop(0)

    reading = Reading(FakeReader(*updates(0, 1)), MessageId(7, 1), opening=Compaction(19, MessageId(7, 1)), recall=recall)
    reading.compactions = [Compaction(20, MessageId(9, 2))]
    await reading.until(lambda: bool(reading.caught_up_after), seconds=20)
    assert reading.caught_up_after == [5] and reading.continuity.complete_after == position_of(MessageId(9, 2))
    await reading.stop()


@pytest.mark.parametrize("compaction", [Compaction(20, MessageId(7, 2)), Compaction(19, MessageId(7, 2))])
async def test_a_compaction_during_the_initial_replay_that_erased_no_unread_entries_is_harmless(compaction: Compaction) -> None:
    handle = FakeReader(*updates(0, 1))
    reading = Reading(handle, MessageId(7, 2), opening=Compaction(19, MessageId(7, 1)))
    await reading.until(lambda: len(reading.entries) == 2)
    reading.compactions = [compaction]
    handle.feed(updates(2)[0])
    await reading.until(lambda: reading.caught_up_after == [3])
    assert reading.continuity.complete_after == position_of(MessageId(7, 2)), "entries of its keys may be missing up to there"
    await reading.stop()


async def test_the_first_entry_of_a_new_partition_needs_no_requests() -> None:
    reading = Reading(FakeReader(), None, fresh_ledger=7)
    await reading.until(lambda: reading.caught_up_after == [0])
    reading.compactions = [Compaction(20, MessageId(9, 9))]
    reading.handle.feed(updates(0)[0])
    await reading.until(lambda: reading.ids == ["0"])
    await reading.stop()


async def test_a_request_for_the_compacted_ledger_is_repeated_until_it_is_answered() -> None:
    reading = await caught_up()
    refused = True

    async def ask() -> Compaction:
        if refused:
            raise LogError(LogState.ADMIN_UNREACHABLE, "no answer")
        return NEVER_COMPACTED

    reading.requests._compaction = ask
    reading.handle.feed(updates(5)[0])
    await asyncio.sleep(0.2)
    assert len(reading.entries) == 3
    refused = False
    await reading.until(lambda: len(reading.entries) == 4)
    await reading.stop()


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
def test_complete_after_follows_from_the_compaction_at_the_opening(opening: Compaction, complete_after: str | None) -> None:
    assert Continuity(opening).complete_after == complete_after


# Where the partition ends later


def an_end(entry: int, ledger: int = 7) -> MessageId:
    return MessageId(ledger, entry)


async def test_an_end_that_was_read_is_returned_without_a_request() -> None:
    reading = await caught_up()
    assert reading.reader.end(an_end(2)) == position_of(an_end(2))
    assert reading.reader.end(an_end(1)) == position_of(an_end(1))
    assert reading.broker_asked == 0
    await reading.stop()


async def test_the_end_of_a_partition_that_was_never_written_is_its_beginning() -> None:
    reading = Reading(FakeReader(), None, fresh_ledger=7)
    await reading.until(lambda: reading.caught_up_after == [0])
    assert reading.reader.end(an_end(-1)) == ""
    await reading.stop()


async def test_an_end_that_is_in_transit_is_awaited_without_a_request() -> None:
    reading = await caught_up(sent=lambda: True)
    end = reading.reader.end(an_end(4))
    await asyncio.sleep(0.2)
    for message in updates(3, 4):
        reading.handle.feed(message)
    await reading.until(lambda: reading.entries[-1].position >= end)
    await asyncio.sleep(1.0)
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


async def test_an_end_that_compaction_erased_before_it_was_read_loses_the_log() -> None:
    reading = await caught_up(sent=lambda: True)
    reading.compactions = [Compaction(20, an_end(4))]
    reading.reader.end(an_end(4))
    assert await lost(reading) == "LOG_UNAVAILABLE"


async def test_an_end_that_is_not_handed_over_loses_the_log() -> None:
    reading = await caught_up(sent=lambda: True)
    reading.ledgers = {an_end(entry) for entry in range(5)}
    reading.reader.end(an_end(4))
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
    await asyncio.sleep(1.0)
    assert reading.broker_asked == asked, "nothing is left to ask"
    await reading.stop()


async def test_a_compacted_end_is_not_taken_for_read_during_the_initial_replay() -> None:
    handle = FakeReader(*updates(0))
    handle.has_more = True
    reading = Reading(handle, an_end(2), opening=Compaction(20, an_end(2)))
    await reading.until(lambda: len(reading.entries) == 1)
    assert reading.reader.end(an_end(2)) == position_of(an_end(2)), "although the topic is compacted up to there"
    for message in updates(1, 2):
        handle.feed(message)
    await reading.until(lambda: reading.caught_up_after == [3])
    await reading.stop()


@pytest.mark.parametrize("horizon", [MessageId(7, 9), MessageId(8, -1)])
async def test_entries_erased_by_a_compaction_that_left_nothing_are_read_once_the_compaction_is_known(
    horizon: MessageId,
) -> None:
    erased = [(MessageId(7, entry), message) for entry, message in zip((3, 4), updates(3, 4), strict=True)]

    async def recall(after: MessageId, before: MessageId) -> Sequence[Received]:
        return [(place, message) for place, message in erased if after < place < before]

    reading = await caught_up(recall=recall, sent=lambda: True)
    reading.compactions = [Compaction(20, horizon)]
    await reading.reader.keep_up()
    await reading.until(lambda: len(reading.entries) == 5)
    reading.handle.feed(a_message(0, an_update(KEY, event_id="next ledger"), ledger=8))
    await reading.until(lambda: len(reading.entries) == 6)
    await reading.stop()
