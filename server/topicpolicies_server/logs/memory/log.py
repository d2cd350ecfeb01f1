"""A storage's logs as one process has them open: every step is a callback of the running loop, never a call within a call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from ...core.names import PolicyKey
from ...core.policies.events import Event, Placed, Position
from ...core.reasons import Reason
from ..brokerless import Brokerless
from ..change_log import LogError, LogSink, Start, already_open, anchor_of, busy, closed
from ..routing import partition_of
from .line import Line
from .storage import MemoryStorage, StoredNamespace

IN_FLIGHT = 65_536
"""Appends of one opened log that may wait for their outcome, unless told otherwise."""
CLOSE_SECONDS = 5.0
"""How long ``close`` waits for outcomes, unless told otherwise."""


@dataclass(slots=True, eq=False)
class Sent:
    """An event on its way to the storage and, as its outcome, back. Compared by identity."""

    event: Event
    partition: int
    place: Placed | None = None
    error: LogError | None = None


Message: TypeAlias = Sent | Callable[[], None]
"""What is under way: an event, or something else that happens when it arrives."""


class MemoryNamespaceLog(Brokerless):
    """One namespace's log, as one process has it open (``change_log.NamespaceLog``)."""

    def __init__(self, owner: MemoryLog, stored: StoredNamespace, sink: LogSink, start: Start | None = None) -> None:
        self._owner = owner
        self._stored = stored
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._in_flight: dict[Sent, None] = {}
        self._ended: LogError | None = None
        self._settled = asyncio.Event()
        self._settled.set()
        span = range(stored.partitions)
        self.appends: list[Line[Message]] = [Line(self._loop, self._arrive) for _ in span]
        """Towards the storage, by partition."""
        self.answers: list[Line[Message]] = [Line(self._loop, self._answer) for _ in span]
        """Outcomes on their way back, by partition."""
        self.reads: list[Line[Placed | None]] = [Line(self._loop, self._read) for _ in span]
        """Entries on their way here, by partition; None is where the log ended at opening."""
        self.questions: list[Line[Callable[[], None]]] = [Line(self._loop, _do_all) for _ in span]
        """Questions on their way to the storage, by partition."""
        self._asked: dict[asyncio.Future[Position], None] = {}
        self._behind = stored.partitions
        self._complete_after = tuple(stored.compacted)
        self.resumed = start is not None and is_place_of(start, stored)
        """See ``change_log.NamespaceLog.resumed``."""
        for partition, (line, entries) in enumerate(zip(self.reads, stored.entries, strict=True)):
            known = start.positions[partition] if start is not None and self.resumed else ""
            for placed in entries:
                if placed.position > known:
                    self.show(placed)
            line.push(None)
        stored.followers.append(self)

    @property
    def identity(self) -> str:
        """The storage's name, the namespace and how often it was created."""
        return self._stored.identity

    @property
    def partitions(self) -> int:
        """As the storage has it."""
        return self._stored.partitions

    @property
    def namespace(self) -> str:
        """``tenant/namespace``."""
        return self._stored.name

    @property
    def in_flight(self) -> int:
        """Appends that wait for their outcome."""
        return len(self._in_flight)

    def partition_of(self, key: PolicyKey) -> int:
        """Where brokers would look for the key."""
        return partition_of(key, self._stored.partitions)

    def complete_after(self, partition: int) -> Position | None:
        """The last entry that a compaction has removed."""
        return self._complete_after[partition]

    @property
    def shared(self) -> bool:
        """Any number of processes write."""
        return True

    async def end(self, partition: int) -> Position:
        """The place of the newest entry that was ever stored."""
        if self._ended is not None:
            raise LogError(self._ended.reason, self._ended.message)
        answer: asyncio.Future[Position] = self._loop.create_future()
        self._asked[answer] = None
        self._ask_end(partition, answer)
        try:
            return await answer
        finally:
            del self._asked[answer]

    def append(self, event: Event) -> None:
        """Takes an event for appending (see ``change_log.NamespaceLog.append``)."""
        if self._ended is not None:
            raise LogError(self._ended.reason, self._ended.message)
        if len(self._in_flight) >= self._owner.in_flight_limit:
            raise busy(len(self._in_flight))
        sent = self._addressed(event)
        self._in_flight[sent] = None
        self._settled.clear()
        self._hand_in(sent)

    async def close(self) -> None:
        """Waits for outstanding outcomes, at most as long as the log was told to; what is left fails with an unknown outcome."""
        if self._ended is None:
            self._ended = closed(self._stored.name)
            try:
                if self._in_flight:
                    await asyncio.wait_for(self._settled.wait(), self._owner.close_seconds)
            except TimeoutError:
                self._abandon(LogError(Reason.LOG_CLOSED, "The change log was closed before it answered.", outcome_unknown=True))
        else:
            await self._settled.wait()
        self._end()

    def crash(self) -> None:
        """Stops at once, as if the process had died: what has not reached the storage is gone, and the sink hears nothing more."""
        self._end()

    def _end(self) -> None:
        self._stop(self._ended or closed(self._stored.name))
        self._in_flight.clear()
        self._settled.set()

    def lose(self, error: LogError) -> None:
        """Ends following: outstanding appends fail with an unknown outcome, then the log is lost."""
        self._loop.call_soon(self._lose, error)

    def show(self, placed: Placed) -> None:
        """Takes an entry that was stored, for reading."""
        self.reads[placed.partition].push(placed)

    def _lose(self, error: LogError) -> None:
        if self not in self._stored.followers:
            return
        self._stop(error)
        self._abandon(LogError(error.reason, error.message, outcome_unknown=True))
        self._sink.lost(error)

    def _stop(self, error: LogError) -> None:
        self._ended = error
        for towards, back in zip(self.appends, self.answers, strict=True):
            towards.drop()
            back.drop()
        for line in self.reads:
            line.drop()
        for questions in self.questions:
            questions.drop()
        for answer in self._asked:
            if not answer.done():
                answer.set_exception(LogError(error.reason, error.message))
        if self in self._stored.followers:
            self._stored.followers.remove(self)
        self._owner.forget(self._stored.name, self)

    def _abandon(self, error: LogError) -> None:
        outstanding = list(self._in_flight)
        self._in_flight.clear()
        self._settled.set()
        for sent in outstanding:
            self._sink.append_failed(sent.event, error)

    def _addressed(self, event: Event) -> Sent:
        return Sent(event, self.partition_of(event.key))

    def _hand_in(self, sent: Sent) -> None:
        self.appends[sent.partition].push(sent)

    def _ask_end(self, partition: int, answer: asyncio.Future[Position]) -> None:
        self.questions[partition].push(partial(self._tell_end, partition, answer))

    # What happens at the storage

    def _arrive(self, messages: list[Message]) -> None:
        for message in messages:
            if isinstance(message, Sent):
                self._store(message)
                self._send_back(message)
            else:
                message()

    def _store(self, sent: Sent) -> None:
        sent.place = self._stored.store(sent.partition, sent.event, self._owner.storage.now(), self._owner.producer)

    def _send_back(self, sent: Sent) -> None:
        self.answers[sent.partition].push(sent)

    def _tell_end(self, partition: int, answer: asyncio.Future[Position]) -> None:
        if not answer.done():
            answer.set_result(self._stored.ends[partition])

    # What happens here

    def _answer(self, messages: list[Message]) -> None:
        placed: list[Placed] = []
        for message in messages:
            if isinstance(message, Sent) and message not in self._in_flight:
                continue  # it has its outcome
            if isinstance(message, Sent) and message.error is None and message.place is not None:
                del self._in_flight[message]
                placed.append(message.place)
                continue
            if placed:
                self._sink.appended(placed)
                placed = []
            if not isinstance(message, Sent):
                message()
            elif message in self._in_flight and message.error is not None:
                del self._in_flight[message]
                self._fail(message.event, message.error)
        if placed:
            self._sink.appended(placed)
        if not self._in_flight:
            self._settled.set()

    def _fail(self, event: Event, error: LogError) -> None:
        self._sink.append_failed(event, error)

    def _hand_on(self, placed: Sequence[Placed]) -> None:
        self._sink.read(placed)

    def _tell_caught_up(self) -> None:
        self._sink.caught_up()

    def _read(self, items: list[Placed | None]) -> None:
        placed: list[Placed] = []
        for item in items:
            if item is not None:
                placed.append(item)
                continue
            if placed:
                self._hand_on(placed)
                placed = []
            self._behind -= 1
            if self._behind == 0:
                self._tell_caught_up()
        if placed:
            self._hand_on(placed)


class MemoryLog:
    """The change logs of a storage, as one process has them (``change_log.ChangeLog``)."""

    def __init__(
        self,
        storage: MemoryStorage | None = None,
        *,
        producer: str = "memory",
        in_flight_limit: int = IN_FLIGHT,
        close_seconds: float = CLOSE_SECONDS,
    ) -> None:
        """Opens logs of a storage, of a new one with one partition if none is given; ``producer`` is our name in its entries."""
        self.storage = storage or MemoryStorage()
        self.producer = producer
        self.in_flight_limit = in_flight_limit
        self.close_seconds = close_seconds
        self._open: dict[str, MemoryNamespaceLog] = {}

    async def open(self, namespace: str, sink: LogSink, start: Start | None = None) -> MemoryNamespaceLog:
        """Opens a namespace's log (see ``change_log.ChangeLog.open``). Every namespace exists."""
        if namespace in self._open:
            raise already_open(namespace)
        log = self._opening(self.storage.namespace(namespace), sink, start)
        self._open[namespace] = log
        return log

    def _opening(self, stored: StoredNamespace, sink: LogSink, start: Start | None) -> MemoryNamespaceLog:
        return MemoryNamespaceLog(self, stored, sink, start)

    def opened(self, namespace: str) -> MemoryNamespaceLog:
        """The opened log of a namespace."""
        return self._open[namespace]

    async def close(self) -> None:
        """Closes all logs that are open."""
        await asyncio.gather(*(log.close() for log in list(self._open.values())))

    def crash(self) -> None:
        """Stops all logs at once, as if the process had died."""
        for log in list(self._open.values()):
            log.crash()

    def forget(self, namespace: str, log: MemoryNamespaceLog) -> None:
        """Takes note that a log has ended."""
        if self._open.get(namespace) is log:
            del self._open[namespace]


def is_place_of(start: Start, stored: StoredNamespace) -> bool:
    """Whether a place is one of a stored log behind which nothing was compacted away."""
    if start.identity != stored.identity or len(start.positions) != stored.partitions or start.in_place:
        return False
    places = zip(start.positions, start.anchors, stored.compacted, stored.ends, stored.entries, strict=True)
    return all(compacted <= at <= end and _holds(anchor, at, entries) for at, anchor, compacted, end, entries in places)


def _holds(anchor: str, at: Position, entries: Sequence[Placed]) -> bool:
    """Whether what stands at a position is what an anchor says, if it says anything, and something stands there."""
    there = next((placed for placed in entries if placed.position == at), None) if anchor else None
    return there is None or anchor_of(there) == anchor


def _do_all(steps: Sequence[Callable[[], None]]) -> None:
    for step in steps:
        step()
