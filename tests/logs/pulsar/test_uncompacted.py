"""Entries that compaction erased for readers and that still stand in the ledgers are read as they were, all of them or none."""

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
from topicpolicies_server.core.reasons import LogState
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
    """Returns the broker's answers. All entries of ledger 7 can be examined; those in ``markers`` are markers."""
    path = f"persistent/a/b/{TOPIC}"
    headers = {f"{path}/ledger/7/entry/{entry}": {"X-Pulsar-marker-type": "10"} if entry in markers else {} for entry in range(10)}
    return Topics(cast("Admin", FakeAdmin({f"{path}/internalStats": {"ledgers": ledgers}, **headers})), TOPIC)


class Client:
    """A client that hands out one reader."""

    def __init__(self, handle: FakeReader) -> None:
        self.handle = handle
        self.first: MessageId | None = None

    async def create_reader(self, topic: str, name: str, *, queue_size: int, first: MessageId | None = None) -> FakeReader:
        assert topic.endswith(TOPIC) and name and queue_size
        self.first = first
        return self.handle


def replaced(message: FakeMessage, batch_index: int) -> FakeMessage:
    """Returns the message as one of a batch."""
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
async def test_the_newest_entries_up_to_the_horizon_are_chosen(horizon: MessageId, most: int, stretch: EntryRange) -> None:
    assert await topics().uncompacted("a/b", TOPIC, horizon, most) == stretch


async def test_erased_entries_are_read_from_the_first_chosen_one_up_to_the_horizon() -> None:
    entries, client = await recalled(FakeReader(*updates(2, 3, 4, 5)), MessageId(7, 4), most=3)
    assert client.first == MessageId(7, 2)
    assert places(entries) == [(7, 2), (7, 3), (7, 4)]


async def test_nothing_is_recalled_if_an_entry_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    entries, _ = await recalled(FakeReader(*updates(2, 4, 5)), MessageId(7, 4), most=3)
    assert entries == [] and "of 3 entries that were compacted away only 2 can be recalled" in caplog.text


async def test_nothing_is_recalled_if_entries_do_not_arrive() -> None:
    async with asyncio.timeout(20):
        entries, _ = await recalled(FakeReader(*updates(2, 3)), MessageId(7, 4), most=3)
    assert entries == []


async def test_repeated_entries_do_not_hide_a_missing_one() -> None:
    handle = FakeReader(*updates(*range(70)), *updates(*range(34, 70)))  # as after a connection that was restored and lost again
    entries, _ = await recalled(handle, MessageId(7, 99), most=100)
    assert entries == []


async def test_repeated_entries_are_recalled_once() -> None:
    handle = FakeReader(*updates(*range(100)), *updates(*range(60, 200)))
    entries, _ = await recalled(handle, MessageId(7, 199), most=200)
    assert places(entries) == [(7, entry) for entry in range(200)]


@pytest.mark.parametrize("whole", [True, False])
async def test_nothing_is_recalled_if_an_entry_is_a_batch_whose_completeness_is_not_known(whole: bool) -> None:
    first, second, third = updates(2, 3, 4)
    batch = [replaced(second, index) for index in (range(2) if whole else (0,))]
    entries, _ = await recalled(FakeReader(first, *batch, third), MessageId(7, 4), most=3)
    assert entries == []


@pytest.mark.parametrize("ledgers", [[None], [{"entries": 3}], [{"ledgerId": 7, "entries": "3"}, {"ledgerId": "5"}], 7, ["7"]])
async def test_nothing_is_recalled_if_the_brokers_statistics_can_not_be_interpreted(ledgers: Any, caplog: pytest.LogCaptureFixture) -> None:
    entries, client = await recalled(FakeReader(*updates(2, 3, 4)), MessageId(7, 4), ledgers)
    assert entries == [] and client.first is None
    assert "can't be recalled" in caplog.text


class Mute(FakeReader):
    """A reader whose close never completes."""

    closing = False

    def close_async(self, callback: Callable[[Any], None]) -> None:
        self.closing = True


async def test_a_reader_that_never_closes_does_not_delay_the_result() -> None:
    handle = Mute(*updates(2, 3, 4))
    async with asyncio.timeout(20):
        entries, _ = await recalled(handle, MessageId(7, 4), most=3)
    assert handle.closing and places(entries) == [(7, 2), (7, 3), (7, 4)]


async def test_reading_erased_entries_ends_in_time_although_entries_keep_arriving_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert next(numbers) > 5, "the test needs entries that keep arriving"


async def test_no_reader_is_opened_if_recalling_is_off_or_nothing_is_left() -> None:
    for most, horizon in ((0, MessageId(7, 4)), (10, MessageId(2, 4))):
        entries, client = await recalled(FakeReader(*updates(2)), horizon, most=most)
        assert entries == [] and client.first is None


async def test_recalled_entries_are_delivered_once_and_at_their_places() -> None:
    handle = FakeReader(*updates(1, 6, 8, 9))  # 6 and 8 are what compaction left of 4 to 8
    opening = Compaction(11, MessageId(7, 8))
    recalled = [(MessageId(7, entry), message) for entry, message in zip(range(4, 9), updates(4, 5, 6, 7, 8), strict=True)]
    reading = Reading(handle, MessageId(7, 9), opening=opening, recalled=recalled)
    await reading.until(lambda: bool(reading.caught_up_after))
    assert reading.ids == ["1", "4", "5", "6", "7", "8", "9"]
    await reading.stop()


async def test_recalled_entries_are_delivered_although_compaction_left_nothing_after_them() -> None:
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
async def test_the_range_between_two_entries_is_known_unless_it_was_trimmed(
    after: MessageId, before: MessageId, stretch: EntryRange | None
) -> None:
    assert await topics().between("a/b", TOPIC, after, before) == stretch


async def test_entries_between_two_places_are_returned_or_reported_as_unavailable() -> None:
    recall = a_recall(Client(FakeReader(*updates(2, 3, 4, 5))))
    between = await recall.between(MessageId(7, 1), MessageId(7, 4))
    assert between is not None and places(between) == [(7, 2), (7, 3)]
    assert await recall.between(MessageId(3, 9), MessageId(5, 0)) == []
    assert await recall.between(MessageId(2, 5), MessageId(3, 1)) is None
    assert await a_recall(Client(FakeReader()), most=0).between(MessageId(7, 1), MessageId(7, 4)) is None


async def test_entries_that_arrived_before_the_broker_stalled_are_returned() -> None:
    between = await a_recall(Client(FakeReader(*updates(2, 3)))).between(MessageId(7, 1), MessageId(7, 9))
    assert between is not None and places(between) == [(7, 2), (7, 3)]


async def test_reading_between_two_places_fails_if_nothing_arrives() -> None:
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
async def test_brokers_markers_are_not_missing_entries_and_messages_are(
    come: tuple[int, ...], markers: tuple[int, ...], had: list[int] | None
) -> None:
    recall = a_recall(Client(FakeReader(*updates(*come))), markers=markers)
    between = await recall.between(MessageId(7, 1), MessageId(7, 5))
    assert (None if between is None else places(between)) == (None if had is None else [(7, entry) for entry in had])


async def test_the_first_entries_of_the_next_ledger_follow_without_a_missing_entry() -> None:
    messages = [*updates(0, 1)]
    recall = a_recall(Client(FakeReader(*messages)), [{"ledgerId": 5, "entries": 4}, {"ledgerId": 7, "entries": 0}])
    between = await recall.between(MessageId(5, 3), MessageId(7, 2))
    assert between is not None and places(between) == [(7, 0), (7, 1)]


async def test_entries_before_a_batch_are_returned_without_it() -> None:
    first, second, third = updates(2, 3, 4)
    recall = a_recall(Client(FakeReader(first, replaced(second, 0), replaced(second, 1), third)))
    between = await recall.between(MessageId(7, 1), MessageId(7, 5))
    assert between is not None and places(between) == [(7, 2)]
    assert await a_recall(Client(FakeReader(replaced(second, 0), third))).between(MessageId(7, 2), MessageId(7, 5)) is None


async def compacted_meanwhile(*, known: bool) -> Reading:
    """Returns a reading of eight entries of which a compaction since the opening left 0 and 7; at the opening, 0 was the horizon."""

    async def between(after: MessageId, before: MessageId) -> list[Received] | None:
        asked.append((after.entry, before.entry))
        return [(MessageId(7, entry), updates(entry)[0]) for entry in range(after.entry + 1, before.entry)] if known else None

    asked: list[tuple[int, int]] = []
    reading = Reading(FakeReader(*updates(0, 7)), MessageId(7, 7), opening=Compaction(11, MessageId(7, 0)), recall=between)
    reading.compactions = [Compaction(12, MessageId(7, 7))]
    with contextlib.suppress(LogError):
        await reading.until(lambda: bool(reading.caught_up_after))
    assert asked == ([(0, 8)] if known else [(0, 8), (0, 7)]), "first everything up to the horizon, then what is in the gap"
    return reading


async def test_entries_erased_by_a_compaction_during_the_initial_replay_are_read_from_the_ledgers() -> None:
    reading = await compacted_meanwhile(known=True)
    assert reading.ids == [str(entry) for entry in range(8)] and reading.caught_up_after == [8]
    await reading.stop()


async def test_a_compaction_during_the_initial_replay_loses_the_log_if_ledgers_were_trimmed() -> None:
    reading = await compacted_meanwhile(known=False)
    assert reading.caught_up_after == []
    with pytest.raises(LogError, match="was compacted while it was read"):
        await reading.task


@pytest.mark.parametrize("failures", [3, 1_000])
async def test_entries_that_are_temporarily_unavailable_are_requested_again_before_the_log_is_lost(
    monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    async def between(after: MessageId, before: MessageId) -> list[Received] | None:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise LogError(LogState.NOT_SERVED, "They are not sent at the moment.")
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


async def test_erased_entries_at_the_end_of_the_log_are_read_too() -> None:
    async def between(after: MessageId, before: MessageId) -> list[Received] | None:
        return [(MessageId(7, entry), updates(entry)[0]) for entry in range(after.entry + 1, before.entry)]

    reading = Reading(FakeReader(*updates(0, 1)), MessageId(7, 3), opening=Compaction(11, MessageId(7, 0)), recall=between)
    reading.compactions = [Compaction(12, MessageId(7, 3))]
    await reading.until(lambda: bool(reading.caught_up_after))
    assert reading.ids == ["0", "1", "2", "3"]
    await reading.stop()


async def test_a_compaction_during_the_initial_replay_moves_the_end_of_the_replay_to_its_horizon() -> None:
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
    assert reading.caught_up_after == [], "a sink takes everything up to the horizon for read once the log has caught up"
    handle.feed(updates(3)[0])
    await reading.until(lambda: reading.caught_up_after == [4])
    await reading.stop()


class Standing(Client):
    """A client that hands out readers of the ledgers, each beginning at its first message."""

    readers = 0

    async def create_reader(self, topic: str, name: str, *, queue_size: int, first: MessageId | None = None) -> FakeReader:
        await super().create_reader(topic, name, queue_size=queue_size, first=first)
        self.readers += 1
        assert first is not None
        return FakeReader(*updates(*range(first.entry, 1_000)))


async def test_any_number_of_entries_erased_during_the_initial_replay_is_read_with_few_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall_module, "_AT_ONCE", 300)
    client = Standing(FakeReader())
    handle = FakeReader(*updates(*range(0, 999, 2), 999))
    recall = a_recall(client, [{"ledgerId": 7, "entries": 0}], most=10)
    reading = Reading(handle, MessageId(7, 999), opening=Compaction(11, MessageId(7, 0)), recall=recall.between)
    reading.compactions = [Compaction(12, MessageId(7, 999))]
    await reading.until(lambda: bool(reading.caught_up_after), 20)
    assert reading.ids == [str(entry) for entry in range(1_000)]
    assert client.readers == 4, "one reader for each gap would be too many"
    assert reading.continuity.complete_after == position_of(MessageId(7, 999))
    await reading.stop()


async def test_a_reader_is_reopened_behind_entries_that_were_read_from_the_ledgers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "_WORTH_A_READER", 500)
    behind = FakeReader(*updates(999, 1_000, 1_001))
    first = FakeReader(*updates(*range(0, 1_000, 2)))
    recall = a_recall(Standing(FakeReader()), [{"ledgerId": 7, "entries": 0}], most=10)
    reading = Reading(first, MessageId(7, 1_001), opening=Compaction(11, MessageId(7, 0)), recall=recall.between, successors=[behind])
    reading.compactions = [Compaction(12, MessageId(7, 999))]
    await reading.until(lambda: bool(reading.caught_up_after), 20)
    assert reading.ids == [str(entry) for entry in range(1_002)]
    assert reading.resumed == [MessageId(7, 999)] and first.queue, "the former reader's remaining messages are already known"
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
async def test_the_first_entries_of_a_range_are_chosen_up_to_a_limit(most: int, stretch: EntryRange) -> None:
    assert await topics().between("a/b", TOPIC, MessageId(3, 7), MessageId(7, 2), most) == stretch


@pytest.mark.stages_compaction
@pytest.mark.broker
async def test_on_a_broker_a_new_reader_reads_compacted_entries_as_they_were(following: Following, namespace: str) -> None:
    await compare(following, namespace)


@pytest.mark.stages_compaction
@pytest.mark.broker
async def test_on_a_broker_a_new_reader_reads_compacted_entries_of_three_partitions_as_they_were(
    following: Following, partitioned_namespace: str
) -> None:
    await compare(following, partitioned_namespace)


async def compare(following: Following, namespace: str) -> None:
    """Writes, compacts, and reads with and without recalling erased entries."""
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
        assert fewest <= len(compacted.entries) < 40, "the test needs entries that were compacted away"
        positions = {placed.position for placed in whole.entries}
        assert {placed.position for placed in compacted.entries} <= positions
