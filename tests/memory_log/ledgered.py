"""The memory log in ledgers, read as the Pulsar log is: with requests about what compaction may have erased."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from topicpolicies_server.core.policies.events import Placed, Position
from topicpolicies_server.logs.change_log import LogError, LogSink, Start, anchor_of
from topicpolicies_server.logs.pulsar.ids import NOWHERE, MessageId, directly_follows, place_of
from topicpolicies_server.logs.pulsar.reader import PartitionReader
from topicpolicies_server.logs.pulsar.topics import State

from .channel import Channel
from .ledger_reader import LedgerBroker
from .ledgers import LedgeredNamespace, LedgeredStorage
from .log import MemoryLog, MemoryNamespaceLog
from .storage import StoredNamespace

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
