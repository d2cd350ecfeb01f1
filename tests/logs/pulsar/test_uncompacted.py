"""What compaction erased for readers and still stands in the ledgers: it is read as it was, all of it or nothing."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from tests.logs.pulsar.conftest import QUICK, Following
from tests.logs.pulsar.fakes import FakeAdmin, FakeMessage, FakeReader
from tests.logs.pulsar.test_reader import Reading, updates
from tests.logs.samples import a_key, an_update
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar.access import Access
from topicpolicies_server.logs.pulsar.admin import Admin
from topicpolicies_server.logs.pulsar.admin.topics import Compaction, EntryRange, Topics
from topicpolicies_server.logs.pulsar.ids import MessageId, position_of
from topicpolicies_server.logs.pulsar.limits import PulsarLimits
from topicpolicies_server.logs.pulsar.reading import continuity_requests
from topicpolicies_server.logs.pulsar.reading import partition as reader_module
from topicpolicies_server.logs.pulsar.reading import uncompacted as recall_module
from topicpolicies_server.logs.pulsar.reading.receiving import Received
from topicpolicies_server.logs.pulsar.reading.uncompacted import Uncompacted

TOPIC = "__change_events"
LEDGERS = [{"ledgerId": 3, "entries": 10}, {"ledgerId": 5, "entries": 4}, {"ledgerId": 7, "entries": 0}]


def topics(ledgers: Any = LEDGERS, markers: Sequence[int] = ()) -> Topics:
    """The broker's answers; all entries of ledger 7 can be looked at, and some of them are markers."""
    path = f"persistent/a/b/{TOPIC}"
    headers = {f"{path}/ledger/7/entry/{entry}": {"X-Pulsar-marker-type": "10"} if entry in markers else {} for entry in range(10)}
    return Topics(cast("Admin", FakeAdmin({f"{path}/internalStats": {"ledgers": ledgers}, **headers})), TOPIC)


class Client:
    """Hands out one reader."""

    def __init__(self, handle: FakeReader) -> None:
        self.handle = handle
        self.first: MessageId | None = None

    async def create_reader(self, topic: str, name: str, *, queue_size: int, first: MessageId | None = None) -> FakeReader:
        assert topic.endswith(TOPIC) and name and queue_size
        self.first = first
        return self.handle


def replaced(message: FakeMessage, batch_index: int) -> FakeMessage:
    """The same as one of a batch."""
    ident = message.message_id()._replace(batch=batch_index)
    return FakeMessage(ident, message.partition_key(), message.data(), message.properties(), 0, message.producer_name())


def places(entries: list[Received]) -> list[tuple[int, int]]:
    return [(place.ledger, place.entry) for place, _ in entries]


async def recalled(handle: FakeReader, horizon: MessageId, ledgers: Any = LEDGERS, most: int = 100) -> tuple[list[Received], Client]:
    client = Client(handle)
    return await a_recall(client, ledgers, most).upto(horizon), client


def a_recall(client: Client, ledgers: Any = LEDGERS, most: int = 100, markers: Sequence[int] = ()) -> Uncompacted:
    access = Access(cast("Any", client), cast("Any", None), topics(ledgers, markers), cast("Any", None), PulsarLimits(recalled=most))
    return Uncompacted(access, "a/b", TOPIC, f"persistent://a/b/{TOPIC}")


@pytest.mark.parametrize(
    ("horizon", "most", "stretch"),
    [
        (MessageId(5, 3), 100, EntryRange(MessageId(3, 0), MessageId(5, 3), 14)),
        (MessageId(5, 1), 5, EntryRange(MessageId(3, 7), MessageId(5, 1), 5)),
        (MessageId(7, -1), 3, EntryRange(MessageId(5, 1), MessageId(5, 3), 3)),
        (MessageId(7, 8), 4, EntryRange(MessageId(7, 5), MessageId(7, 8), 4)),
        (MessageId(2, 8), 4, EntryRange(MessageId(2, 9), MessageId(2, 9), 0)),
    ],
)
async def test_the_newest_entries_up_to_the_end_of_compaction_are_asked_for(horizon: MessageId, most: int, stretch: EntryRange) -> None:
    assert await topics().uncompacted("a/b", TOPIC, horizon, most) == stretch


async def test_they_are_read_from_their_first_on_and_no_further_than_to_that_end() -> None:
    entries, client = await recalled(FakeReader(*updates(2, 3, 4, 5)), MessageId(7, 4), most=3)
    assert client.first == MessageId(7, 2)
    assert places(entries) == [(7, 2), (7, 3), (7, 4)]


async def test_with_a_hole_there_is_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    entries, _ = await recalled(FakeReader(*updates(2, 4, 5)), MessageId(7, 4), most=3)
    assert entries == [] and "of 3 entries that were compacted away only 2 can be recalled" in caplog.text


async def test_what_does_not_come_holds_nobody_up() -> None:
    async with asyncio.timeout(20):
        entries, _ = await recalled(FakeReader(*updates(2, 3)), MessageId(7, 4), most=3)
    assert entries == []


async def test_entries_that_come_twice_hide_no_hole() -> None:
    handle = FakeReader(*updates(*range(70)), *updates(*range(34, 70)))  # as after a connection that was restored, and lost again
    entries, _ = await recalled(handle, MessageId(7, 99), most=100)
    assert entries == []


async def test_and_they_are_had_once() -> None:
    handle = FakeReader(*updates(*range(100)), *updates(*range(60, 200)))
    entries, _ = await recalled(handle, MessageId(7, 199), most=200)
    assert places(entries) == [(7, entry) for entry in range(200)]


@pytest.mark.parametrize("whole", [True, False])
async def test_of_a_batch_it_can_not_be_told_whether_it_is_whole_so_there_is_nothing(whole: bool) -> None:
    first, second, third = updates(2, 3, 4)
    batch = [replaced(second, index) for index in (range(2) if whole else (0,))]
    entries, _ = await recalled(FakeReader(first, *batch, third), MessageId(7, 4), most=3)
    assert entries == []


@pytest.mark.parametrize("ledgers", [[None], [{"entries": 3}], [{"ledgerId": 7, "entries": "3"}, {"ledgerId": "5"}], 7, ["7"]])
async def test_what_brokers_answer_that_nobody_understands_fails_nothing(ledgers: Any, caplog: pytest.LogCaptureFixture) -> None:
    entries, client = await recalled(FakeReader(*updates(2, 3, 4)), MessageId(7, 4), ledgers)
    assert entries == [] and client.first is None
    assert "can't be recalled" in caplog.text


class Mute(FakeReader):
    """A reader that never closes."""

    closing = False

    def close_async(self, callback: Callable[[Any], None]) -> None:
        self.closing = True


async def test_a_reader_that_never_closes_holds_nobody_up() -> None:
    handle = Mute(*updates(2, 3, 4))
    async with asyncio.timeout(20):
        entries, _ = await recalled(handle, MessageId(7, 4), most=3)
    assert handle.closing and places(entries) == [(7, 2), (7, 3), (7, 4)]


async def test_what_comes_too_slowly_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall_module, "_LONGEST_SECONDS", 0.3)
    handle = Mute()
    numbers = iter(range(1_000))

    async def trickle() -> None:
        for number in numbers:
            handle.feed(*updates(number))
            await asyncio.sleep(0.02)

    feeding = asyncio.create_task(trickle())
    async with asyncio.timeout(20):
        entries, _ = await recalled(handle, MessageId(7, 999), most=1_000)
    feeding.cancel()
    assert entries == [] and handle.closing
    assert next(numbers) > 5, "the case: something came all the time"


async def test_nothing_is_asked_for_where_nothing_is_wanted_or_left() -> None:
    for most, horizon in ((0, MessageId(7, 4)), (10, MessageId(2, 4))):
        entries, client = await recalled(FakeReader(*updates(2)), horizon, most=most)
        assert entries == [] and client.first is None


async def test_what_was_recalled_is_handed_over_at_its_place_and_once() -> None:
    handle = FakeReader(*updates(1, 6, 8, 9))  # 6 and 8 are what compaction left of 4 to 8
    opening = Compaction(11, MessageId(7, 8))
    recalled = [(MessageId(7, entry), message) for entry, message in zip(range(4, 9), updates(4, 5, 6, 7, 8), strict=True)]
    reading = Reading(handle, MessageId(7, 9), opening=opening, recalled=recalled)
    await reading.until(lambda: bool(reading.caught_up_after))
    assert reading.ids == ["1", "4", "5", "6", "7", "8", "9"]
    await reading.stop()


async def test_what_was_recalled_is_handed_over_although_compaction_left_nothing_after_it() -> None:
    recalled = [(MessageId(7, entry), message) for entry, message in zip(range(3), updates(0, 1, 2), strict=True)]
    reading = Reading(FakeReader(), MessageId(7, 2), opening=Compaction(11, MessageId(7, 2)), recalled=recalled)
    await reading.until(lambda: bool(reading.caught_up_after))
    assert reading.ids == ["0", "1", "2"] and reading.caught_up_after == [3]
    await reading.stop()


@pytest.mark.parametrize(
    ("after", "before", "stretch"),
    [
        (MessageId(5, 1), MessageId(7, 2), EntryRange(MessageId(5, 2), MessageId(7, 1), 4)),
        (MessageId(3, 9), MessageId(5, 0), EntryRange(MessageId(3, 10), MessageId(5, -1), 0)),
        (MessageId(7, -1), MessageId(7, 3), EntryRange(MessageId(7, 0), MessageId(7, 2), 3)),
        (MessageId(2, 5), MessageId(3, 1), None),
    ],
)
async def test_what_stands_between_two_entries_is_told_unless_it_was_trimmed(
    after: MessageId, before: MessageId, stretch: EntryRange | None
) -> None:
    assert await topics().between("a/b", TOPIC, after, before) == stretch


async def test_what_stands_between_two_entries_is_read_or_not_known() -> None:
    recall = a_recall(Client(FakeReader(*updates(2, 3, 4, 5))))
    between = await recall.between(MessageId(7, 1), MessageId(7, 4))
    assert between is not None and places(between) == [(7, 2), (7, 3)]
    assert await recall.between(MessageId(3, 9), MessageId(5, 0)) == []
    assert await recall.between(MessageId(2, 5), MessageId(3, 1)) is None
    assert await a_recall(Client(FakeReader()), most=0).between(MessageId(7, 1), MessageId(7, 4)) is None


async def test_of_what_a_broker_is_slow_to_send_that_is_had_which_came() -> None:
    between = await a_recall(Client(FakeReader(*updates(2, 3)))).between(MessageId(7, 1), MessageId(7, 9))
    assert between is not None and places(between) == [(7, 2), (7, 3)]


async def test_where_nothing_comes_nothing_is_known() -> None:
    with pytest.raises(LogError, match="from 7:2 on are not sent at the moment"):
        await a_recall(Client(FakeReader())).between(MessageId(7, 1), MessageId(7, 4))


@pytest.mark.parametrize(
    ("come", "markers", "had"),
    [
        ((2, 4, 5), (3,), [2, 4]),
        ((3, 4, 5), (2,), [3, 4]),
        ((5,), (2, 3, 4), []),
        ((2, 4, 5), (), [2]),
        ((3, 4, 5), (), None),
        ((5,), (2, 4), None),
    ],
)
async def test_markers_of_the_brokers_make_no_hole_and_messages_do(
    come: tuple[int, ...], markers: tuple[int, ...], had: list[int] | None
) -> None:
    recall = a_recall(Client(FakeReader(*updates(*come))), markers=markers)
    between = await recall.between(MessageId(7, 1), MessageId(7, 5))
    assert (None if between is None else places(between)) == (None if had is None else [(7, entry) for entry in had])


async def test_what_follows_in_the_next_ledger_makes_no_hole() -> None:
    messages = [*updates(0, 1)]
    recall = a_recall(Client(FakeReader(*messages)), [{"ledgerId": 5, "entries": 4}, {"ledgerId": 7, "entries": 0}])
    between = await recall.between(MessageId(5, 3), MessageId(7, 2))
    assert between is not None and places(between) == [(7, 0), (7, 1)]


async def test_before_a_batch_the_entries_end() -> None:
    first, second, third = updates(2, 3, 4)
    recall = a_recall(Client(FakeReader(first, replaced(second, 0), replaced(second, 1), third)))
    between = await recall.between(MessageId(7, 1), MessageId(7, 5))
    assert between is not None and places(between) == [(7, 2)]
    assert await a_recall(Client(FakeReader(replaced(second, 0), third))).between(MessageId(7, 2), MessageId(7, 5)) is None


async def compacted_meanwhile(*, known: bool) -> Reading:
    """A reader to which a compaction gives 0 and 7 of eight entries, though the last one before the opening was 0."""

    async def between(after: MessageId, before: MessageId) -> list[Received] | None:
        asked.append((after.entry, before.entry))
        return [(MessageId(7, entry), updates(entry)[0]) for entry in range(after.entry + 1, before.entry)] if known else None

    asked: list[tuple[int, int]] = []
    reading = Reading(FakeReader(*updates(0, 7)), MessageId(7, 7), opening=Compaction(11, MessageId(7, 0)), recall=between)
    reading.compactions = [Compaction(12, MessageId(7, 7))]
    with contextlib.suppress(LogError):
        await reading.until(lambda: bool(reading.caught_up_after))
    assert asked == ([(0, 8)] if known else [(0, 8), (0, 7)]), "all that the compaction went over, at once, or else what is in the gap"
    return reading


async def test_a_compaction_while_the_beginning_is_read_takes_nothing_away_that_still_stands_in_the_ledgers() -> None:
    reading = await compacted_meanwhile(known=True)
    assert reading.ids == [str(entry) for entry in range(8)] and reading.caught_up_after == [8]
    await reading.stop()


async def test_but_has_it_opened_anew_where_it_does_not() -> None:
    reading = await compacted_meanwhile(known=False)
    assert reading.caught_up_after == []
    with pytest.raises(LogError, match="was compacted while it was read"):
        await reading.task


@pytest.mark.parametrize("failures", [3, 1_000])
async def test_what_can_not_be_had_at_the_moment_is_asked_for_again_before_the_log_is_opened_anew(
    monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    async def between(after: MessageId, before: MessageId) -> list[Received] | None:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise LogError(Reason.LOG_NOT_SERVED, "They are not sent at the moment.")
        return [(MessageId(7, entry), updates(entry)[0]) for entry in range(after.entry + 1, before.entry)]

    monkeypatch.setattr(continuity_requests, "_PAUSES", (0.01, 0.02, 0.03))
    reading = Reading(FakeReader(*updates(0, 7)), MessageId(7, 7), opening=Compaction(11, MessageId(7, 0)), recall=between)
    reading.compactions = [Compaction(12, MessageId(7, 7))]
    if failures > 3:
        with pytest.raises(LogError, match="was compacted while it was read"):
            await reading.until(lambda: bool(reading.caught_up_after))
        return
    await reading.until(lambda: bool(reading.caught_up_after))
    assert reading.ids == [str(entry) for entry in range(8)]
    await reading.stop()


async def test_the_last_entries_that_compaction_took_away_are_read_too() -> None:
    async def between(after: MessageId, before: MessageId) -> list[Received] | None:
        return [(MessageId(7, entry), updates(entry)[0]) for entry in range(after.entry + 1, before.entry)]

    reading = Reading(FakeReader(*updates(0, 1)), MessageId(7, 3), opening=Compaction(11, MessageId(7, 0)), recall=between)
    reading.compactions = [Compaction(12, MessageId(7, 3))]
    await reading.until(lambda: bool(reading.caught_up_after))
    assert reading.ids == ["0", "1", "2", "3"]
    await reading.stop()


async def test_a_compaction_while_the_beginning_is_read_has_it_end_no_earlier_than_the_compaction() -> None:
    async def between(after: MessageId, before: MessageId) -> list[Received] | None:
        asked.append((after.entry, before.entry))
        return None

    asked: list[tuple[int, int]] = []
    handle = FakeReader(*updates(0, 1))
    handle.has_more = True
    reading = Reading(handle, MessageId(7, 1), opening=Compaction(11, MessageId(7, 0)), recall=between)
    reading.compactions = [Compaction(12, MessageId(7, 3))]
    await reading.until(lambda: len(reading.entries) == 2)
    assert asked == [(0, 4)] and reading.continuity.complete_after == position_of(MessageId(7, 3))
    handle.feed(updates(2)[0])
    await reading.until(lambda: len(reading.entries) == 3)
    assert reading.caught_up_after == [], "whoever follows takes everything up to there for read when it has caught up"
    handle.feed(updates(3)[0])
    await reading.until(lambda: reading.caught_up_after == [4])
    await reading.stop()


class Standing(Client):
    """Hands out readers of what stands in the ledgers, each from its first message on."""

    readers = 0

    async def create_reader(self, topic: str, name: str, *, queue_size: int, first: MessageId | None = None) -> FakeReader:
        await super().create_reader(topic, name, queue_size=queue_size, first=first)
        self.readers += 1
        assert first is not None
        return FakeReader(*updates(*range(first.entry, 1_000)))


async def test_what_a_compaction_erased_while_the_beginning_was_read_is_had_however_much_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall_module, "_AT_ONCE", 300)
    client = Standing(FakeReader())
    handle = FakeReader(*updates(*range(0, 999, 2), 999))
    recall = a_recall(client, [{"ledgerId": 7, "entries": 0}], most=10)
    reading = Reading(handle, MessageId(7, 999), opening=Compaction(11, MessageId(7, 0)), recall=recall.between)
    reading.compactions = [Compaction(12, MessageId(7, 999))]
    await reading.until(lambda: bool(reading.caught_up_after), 20)
    assert reading.ids == [str(entry) for entry in range(1_000)]
    assert client.readers == 4, "not one for each gap"
    assert reading.continuity.complete_after == position_of(MessageId(7, 999))
    await reading.stop()


async def test_what_was_read_beside_the_reader_is_not_waited_for_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "_WORTH_A_READER", 500)
    behind = FakeReader(*updates(999, 1_000, 1_001))
    first = FakeReader(*updates(*range(0, 1_000, 2)))
    recall = a_recall(Standing(FakeReader()), [{"ledgerId": 7, "entries": 0}], most=10)
    reading = Reading(first, MessageId(7, 1_001), opening=Compaction(11, MessageId(7, 0)), recall=recall.between, successors=[behind])
    reading.compactions = [Compaction(12, MessageId(7, 999))]
    await reading.until(lambda: bool(reading.caught_up_after), 20)
    assert reading.ids == [str(entry) for entry in range(1_002)]
    assert reading.resumed == [MessageId(7, 999)] and first.queue, "the rest of what it would give is known"
    await reading.stop()


@pytest.mark.parametrize(
    ("most", "stretch"),
    [
        (3, EntryRange(MessageId(3, 8), MessageId(5, 0), 3)),
        (2, EntryRange(MessageId(3, 8), MessageId(3, 9), 2)),
        (7, EntryRange(MessageId(3, 8), MessageId(7, 0), 7)),
        (8, EntryRange(MessageId(3, 8), MessageId(7, 1), 8)),
        (9, EntryRange(MessageId(3, 8), MessageId(7, 1), 8)),
    ],
)
async def test_the_first_of_what_stands_between_two_entries_is_told(most: int, stretch: EntryRange) -> None:
    assert await topics().between("a/b", TOPIC, MessageId(3, 7), MessageId(7, 2), most) == stretch


@pytest.mark.stages_compaction
@pytest.mark.broker
async def test_on_a_broker_a_newcomer_reads_what_was_compacted_away_as_it_was(following: Following, namespace: str) -> None:
    await compare(following, namespace)


@pytest.mark.broker
async def test_and_so_on_each_of_three_partitions(following: Following, partitioned_namespace: str) -> None:
    await compare(following, partitioned_namespace)


async def compare(following: Following, namespace: str) -> None:
    """Writes, compacts, and reads with and without recalling."""
    log, recorder = await following.open(namespace)
    for number in range(60):
        recorder.append(log, an_update(a_key(namespace, number % 4), number, event_id=f"{number}"))
    await recorder.until_settled(60)
    await recorder.until(lambda: len(recorder.entries) == 60)
    await asyncio.to_thread(following.admin.compact_change_events, namespace)
    recorder.append(log, an_update(a_key(namespace, 1), 60, event_id="60"))
    await recorder.until_settled(61)
    _, whole = await following.open(namespace)
    assert sorted(whole.ids(), key=int) == [str(number) for number in range(61)]
    for limits, fewest in ((dataclasses.replace(QUICK, recalled=0), 5), (dataclasses.replace(QUICK, recalled=7), 8)):
        _, compacted = await following.open(namespace, following.start(limits=limits))
        assert fewest <= len(compacted.entries) < 40, "the case: something was compacted away"
        positions = {placed.position for placed in whole.entries}
        assert {placed.position for placed in compacted.entries} <= positions
