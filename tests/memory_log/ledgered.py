"""The memory log in ledgers, read as the Pulsar log is: by the Pulsar log's own reader of a partition, from a simulated broker.

Entries are taken from the broker only when they are due, so a compaction or a trim may erase them first. Requests, such as those about
what compaction may have erased, take time, or are not answered.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar, cast

import _pulsar

from topicpolicies_server.core.policies.events import Placed, Position
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError, LogSink, Start, anchor_of
from topicpolicies_server.logs.pulsar import PulsarLimits
from topicpolicies_server.logs.pulsar.brokers import Brokers
from topicpolicies_server.logs.pulsar.client import OK
from topicpolicies_server.logs.pulsar.entries import Entries
from topicpolicies_server.logs.pulsar.ids import NOWHERE, MessageId, directly_follows, message_id_of, place_of, position_of
from topicpolicies_server.logs.pulsar.reader import PartitionReader
from topicpolicies_server.logs.pulsar.topics import Gap, State

from .channel import Channel, Faults
from .ledgers import LedgeredNamespace, LedgeredStorage
from .log import MemoryLog, MemoryNamespaceLog
from .storage import StoredNamespace

T = TypeVar("T")

_REFUSED_SECONDS = 0.2
"""After how long a request fails without an answer."""


class LedgerBroker:
    """The broker of one partition, for one process: it answers requests, and sends entries to the last reader that was opened."""

    def __init__(self, partition: int, stored: LedgeredNamespace, faults: Faults, counts: Counter[str], kept_back: set[MessageId]) -> None:
        """``kept_back``: the messages that were not handed over to this process; further ones are added."""
        self.on_the_way: Callable[[], bool] = lambda: True
        """Returns whether existing entries are still in transit."""
        self._partition = partition
        self._stored = stored
        self._ledgers = stored.ledgers[partition]
        self._faults = faults
        self._counts = counts
        self._kept_back = kept_back
        self._upto: Position = ""
        """The position up to which existing entries are due."""
        self._handle = _Handle(self, MessageId(0, 0), compacted=False)

    def reader(self, stood: Position = "") -> PartitionReader:
        """Returns a reader, not connected; ``stood``: the position up to which everything was read before; "" is the beginning."""
        access = SimpleNamespace(client=self, topics=self, limits=PulsarLimits())
        entries = _Entries(self._partition, place_of(stood))
        return PartitionReader(cast("Brokers", access), str(self._partition), cast("Entries", entries), _never_replaced)

    def come(self, items: Sequence[Placed | None]) -> None:
        """Called when entries are due and may be taken."""
        for item in items:
            assert item is not None
            self._upto = max(self._upto, item.position)
        self._handle.offer()

    # What the Pulsar log's reader requests

    async def create_reader(self, *_names: str, first: MessageId, compacted: bool, **_options: Any) -> Any:
        """Opens a reader."""
        self._counts["reading: readers opened"] += 1
        self._handle = _Handle(self, first, compacted=compacted)
        return self._handle

    async def state(self, *_: object) -> State:
        """Returns how far the partition is written and compacted. Raises LogError if there is no answer."""
        return await self._asked("states", self._ledgers.state)

    async def gap(self, _topic: str, after: MessageId, before: MessageId) -> Gap:
        """Returns what stands between two entries. Raises LogError if there is no answer."""
        gap = await self._asked("gaps", lambda: self._ledgers.gap(after, before))
        self._counts["reading: gaps beside a ledger that was trimmed"] += gap.trimmed
        self._counts["reading: gaps with a message"] += gap.message is not None
        return gap

    async def sent_up_to(self, *_: object) -> bool:
        """Returns whether everything was sent. Raises LogError if there is no answer."""
        return await self._asked("what was sent", lambda: not self.on_the_way() and self.next(self._handle) is None)

    def next(self, handle: _Handle) -> Placed | None:
        """Returns what a reader gets next; None: nothing for now."""
        while True:
            if handle.compacted:
                found = next(iter(self._stored.next(self._partition, handle.next, 1)), None)
            else:
                found = self._ledgers.next(handle.next)
            if found is None or (found.position > self._upto and self.on_the_way()):
                return None
            if handle.compacted or self._handed_over(found):
                return found
            handle.pass_over(found)

    def took(self, handle: _Handle, placed: Placed) -> None:
        """Notes that a reader got an entry."""
        if not handle.compacted:
            self._counts["reading: entries read as they were"] += placed not in self._stored.entries[self._partition]

    def _handed_over(self, placed: Placed) -> bool:
        """Whether an entry is handed over. One that was kept back is handed over to the next reader. The last entry always is."""
        place = message_id_of(placed.position)
        hidden = place != self._ledgers.last and place not in self._kept_back
        if not hidden or self._faults.handed_over(self._stored.name, placed):
            return True
        self._kept_back.add(place)
        self._counts["reading: entries not handed over"] += 1
        return False

    async def _asked(self, what: str, answer: Callable[[], T]) -> T:
        self._counts[f"reading: questions for {what}"] += 1
        delay = self._faults.question_delay(self._stored.name)
        if delay is None:
            self._counts["reading: questions without an answer"] += 1
            await asyncio.sleep(_REFUSED_SECONDS)
            raise LogError(LogState.UNREACHABLE, "There is no answer.")
        await asyncio.sleep(delay)
        found = answer()
        await asyncio.sleep(delay)  # the answer may be outdated by then
        return found


class _Handle:
    """A reader of the client library."""

    def __init__(self, broker: LedgerBroker, first: MessageId, *, compacted: bool) -> None:
        self.compacted = compacted
        self.next = first
        self._broker = broker
        self._pending: Callable[[Any, Any], None] | None = None

    def read_next_async(self, callback: Callable[[Any, Any], None]) -> None:
        self._pending = callback
        self.offer()

    def read_next(self, timeout_ms: int) -> Any:
        raise _pulsar.Timeout

    def is_connected(self) -> bool:
        return True

    def close_async(self, callback: Callable[[Any], None]) -> None:
        self._pending = None
        callback(OK)

    def offer(self) -> None:
        """Hands over the next entry, if one is due and requested."""
        if self._pending is not None and (placed := self._broker.next(self)) is not None:
            self._broker.took(self, placed)
            self.pass_over(placed)
            pending, self._pending = self._pending, None
            pending(OK, _Message(placed, message_id_of(placed.position)))

    def pass_over(self, placed: Placed) -> None:
        """Goes on behind an entry."""
        place = message_id_of(placed.position)
        self.next = MessageId(place.ledger, place.entry + 1)


class _Message(NamedTuple):
    """A message, which is its own id."""

    placed: Placed
    place: MessageId

    def message_id(self) -> _Message:
        return self

    def ledger_id(self) -> int:
        return self.place.ledger

    def entry_id(self) -> int:
        return self.place.entry

    def batch_index(self) -> int:
        return -1


class _Entries:
    """Entries that need no decoding."""

    def __init__(self, partition: int, last: MessageId) -> None:
        self.last = last
        self._partition = partition

    def ready(self, message: object) -> bool:
        del message
        return True

    def entry(self, place: MessageId, message: _Message | None) -> Placed | None:
        if place <= self.last:
            return None
        self.last = place
        problem = "the client library does not hand it over"
        return Placed(self._partition, position_of(place), None, 0, "", problem) if message is None else message.placed


async def _never_replaced() -> None:
    return None


_KEEP_UP_SECONDS = 1.5
"""How often to request how far the log is compacted."""


class Opening(NamedTuple):
    """What an opening has connected."""

    brokers: Sequence[LedgerBroker]
    readers: Sequence[PartitionReader]
    resumed: bool
    """Whether reading goes on at a known place."""


class LedgeredNamespaceLog(MemoryNamespaceLog):
    """One namespace's log in ledgers, as one process has it open."""

    def __init__(self, owner: LedgeredLog, stored: LedgeredNamespace, sink: LogSink, opening: Opening) -> None:
        """``opening``: the connected readers, and their brokers."""
        self._readers: Sequence[PartitionReader] = ()
        super().__init__(owner, stored, sink)
        for channel in self.reads:
            channel.drop()
        self.resumed = opening.resumed
        self._readers = opening.readers
        self.reads = [Channel(self._loop, broker.come) for broker in opening.brokers]
        for channel, broker, entries in zip(self.reads, opening.brokers, stored.entries, strict=True):
            broker.on_the_way = partial(_some, channel)
            for placed in entries:
                self.show(placed)
        self._tasks = [self._loop.create_task(self._run(reader)) for reader in self._readers]
        self._tasks.append(self._loop.create_task(self._keep_up()))
        for task in self._tasks:
            task.add_done_callback(self._tell_of_failure)

    def complete_after(self, partition: int) -> Position | None:
        """Returns what the reader knows."""
        return self._readers[partition].complete_after

    def follows(self, earlier: Position, later: Position) -> bool:
        """Whether nothing can stand between two entries of a ledger."""
        return directly_follows(earlier, later)

    def show(self, placed: Placed) -> None:
        """Takes notice of a stored entry, which is read when it is due."""
        if self._readers:
            super().show(placed)

    def _tell_end_late(self, partition: int, delay: float, answer: asyncio.Future[Position]) -> None:
        assert isinstance(self._stored, LedgeredNamespace)
        last = self._stored.ledgers[partition].last or NOWHERE
        self._loop.call_later(delay, lambda: None if answer.done() else answer.set_result(self._readers[partition].end(last)))

    def _stop(self, error: LogError) -> None:
        super()._stop(error)
        for task in self._tasks:
            task.cancel()

    async def _run(self, reader: PartitionReader) -> None:
        def caught_up() -> None:
            self._behind -= 1
            if self._behind == 0:
                self._tell_caught_up()

        try:
            await reader.run(self._hand_on, caught_up)
        except LogError as error:
            assert isinstance(self._owner, LedgeredLog)
            self._owner.counts["reading: begun anew"] += 1
            self.lose(error)

    async def _keep_up(self) -> None:
        while True:
            await asyncio.sleep(_KEEP_UP_SECONDS)
            for reader in self._readers:
                try:
                    await reader.keep_up()
                except LogError:
                    continue

    def _tell_of_failure(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._loop.call_exception_handler({"message": "reading failed", "exception": error})


class LedgeredLog(MemoryLog):
    """The change logs of a storage in ledgers, as one process has them."""

    storage: LedgeredStorage

    def __init__(self, storage: LedgeredStorage, *, counts: Counter[str] | None = None, **options: Any) -> None:
        """Opens logs of a storage. ``counts`` counts what reading encounters; the other options are those of ``MemoryLog``."""
        super().__init__(storage, **options)
        self.counts: Counter[str] = Counter() if counts is None else counts
        self._kept_back: dict[tuple[str, int], set[MessageId]] = {}
        """By namespace and partition: the messages that were not handed over to this process at first."""
        self._openings: dict[str, Opening] = {}

    async def open(self, namespace: str, sink: LogSink, start: Start | None = None) -> MemoryNamespaceLog:
        """Opens a namespace's log.

        Raises:
            LogError: a request for the state of a partition got no answer, or the log is already open.
        """
        stored = self.storage.namespace(namespace)
        kept_back = [self._kept_back.setdefault((namespace, partition), set()) for partition in range(stored.partitions)]
        brokers = [LedgerBroker(partition, stored, self.faults, self.counts, kept) for partition, kept in enumerate(kept_back)]
        states = [await broker.state() for broker in brokers]
        resumed = start is not None and resumes_from(start, stored, states)
        stood = start.positions if start is not None and resumed else [""] * stored.partitions
        readers = [broker.reader(position) for broker, position in zip(brokers, stood, strict=True)]
        for reader, state in zip(readers, states, strict=True):
            await reader.connect(resumed=state if resumed else None)
        self._openings[namespace] = Opening(brokers, readers, resumed)
        return await super().open(namespace, sink, start)

    def _opening(self, stored: StoredNamespace, sink: LogSink, start: Start | None) -> MemoryNamespaceLog:
        assert isinstance(stored, LedgeredNamespace)
        return LedgeredNamespaceLog(self, stored, sink, self._openings.pop(stored.name))


def resumes_from(start: Start, stored: LedgeredNamespace, states: Sequence[State]) -> bool:
    """Whether reading resumes at ``start``, by the rules of ``logs/pulsar/reader``."""
    if start.identity != stored.identity or len(start.positions) != stored.partitions or start.in_place:
        return False
    try:
        places = [place_of(position) for position in start.positions]
    except ValueError:
        return False
    known = all(
        state.compaction.horizon is not None and (state.compaction.ledger == -1 or state.compaction.horizon <= place)
        for state, place in zip(states, places, strict=True)
    )
    ends = all(position <= end for position, end in zip(start.positions, stored.ends, strict=True))
    there = [{placed.position: placed for placed in entries} for entries in stored.entries]
    stood = zip(start.positions, start.anchors, there, strict=True)
    same = all(at not in entries or anchor in ("", anchor_of(entries[at])) for at, anchor, entries in stood)
    return known and ends and same


def _some(channel: Channel[Placed | None]) -> bool:
    return bool(channel.waiting)
