"""A storage's logs as one process has them open. ``Faults`` decide what goes wrong between the process and the storage.

There are no threads here, and no clocks but the event loop's and the storage's ``now``: everything happens in callbacks of the running
loop, in the order in which they were scheduled. So a simulated event loop, which decides on time and order, makes every run deterministic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from tests.logs.routing import partition_of
from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.events import Event, Placed, Position
from topicpolicies_server.core.reasons import LogState, Reason
from topicpolicies_server.logs.avro.codec import EMBEDDED_CLUSTER
from topicpolicies_server.logs.change_log import ANYBODY, Leadership, LogError, LogSink, Start, already_open, anchor_of, busy, closed
from topicpolicies_server.logs.sqlite.file import directly_follows

from .channel import NO_FAULTS, Channel, Fate, Faults, Outcome
from .storage import MemoryStorage, Producer, StoredNamespace

IN_FLIGHT = 65_536
"""The default limit of appends of one open log that wait for their outcome."""
CLOSE_SECONDS = 5.0
"""The default time that ``close`` waits for outcomes."""


@dataclass(slots=True, eq=False)
class Sent:
    """An appended event on its way to the storage and back, where it carries its outcome. Compared by identity."""

    event: Event
    partition: int
    fate: Fate
    producer: Producer | None = None
    """The exclusive producer that sends it; None: the process is one of many writers."""
    place: Placed | None = None
    error: LogError | None = None


Message: TypeAlias = Sent | Callable[[], None]
"""What a channel delivers: an event, or a function that is called on arrival."""


class MemoryNamespaceLog:
    """The log of one namespace, as one process has it open (``change_log.NamespaceLog``)."""

    cluster = EMBEDDED_CLUSTER

    def __init__(self, owner: MemoryLog, stored: StoredNamespace, sink: LogSink, start: Start | None = None) -> None:
        self.in_place = owner.storage.in_place
        self._owner = owner
        self._stored = stored
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._in_flight: dict[Sent, None] = {}
        self._ended: LogError | None = None
        self._settled = asyncio.Event()
        self._settled.set()
        span = range(stored.partitions)
        self.appends: list[Channel[Message]] = [Channel(self._loop, self._arrive) for _ in span]
        """Appends on their way to the storage, by partition."""
        self.answers: list[Channel[Message]] = [Channel(self._loop, self._answer) for _ in span]
        """Outcomes on their way back, by partition."""
        self.reads: list[Channel[Placed | None]] = [Channel(self._loop, self._read) for _ in span]
        """Entries on their way to the reader, by partition; None marks where the log ended at opening."""
        self.questions: list[Channel[Callable[[], None]]] = [Channel(self._loop, _do_all) for _ in span]
        """Requests for the end of a partition on their way to the storage, by partition."""
        self._asked: dict[asyncio.Future[Position], None] = {}
        self._behind = stored.partitions
        self._complete_after = tuple(stored.compacted)
        self.resumed = start is not None and is_place_of(start, stored)
        """See ``change_log.NamespaceLog.resumed``."""
        for partition, (channel, entries) in enumerate(zip(self.reads, stored.entries, strict=True)):
            known = start.positions[partition] if start is not None and self.resumed else ""
            for placed in entries:
                if placed.position > known:
                    self.show(placed)
            channel.push(None)
        stored.followers.append(self)

    @property
    def identity(self) -> str:
        """The storage's name, the namespace, and how often the namespace was created."""
        return self._stored.identity

    @property
    def partitions(self) -> int:
        """The number of partitions in the storage."""
        return self._stored.partitions

    @property
    def namespace(self) -> str:
        """``tenant/namespace``."""
        return self._stored.name

    @property
    def in_flight(self) -> int:
        """The number of appends that wait for their outcome."""
        return len(self._in_flight)

    def partition_of(self, key: PolicyKey) -> int:
        """The partition in which brokers would look for the key."""
        return partition_of(key, self._stored.partitions)

    def complete_after(self, partition: int) -> Position | None:
        """The last position that a compaction had passed at opening; "" if there was none."""
        return self._complete_after[partition]

    @property
    def shared(self) -> bool:
        """True: any number of processes may write to the storage."""
        return True

    @property
    def leadership(self) -> Leadership:
        """``ANYBODY``: there is no leader to elect."""
        return ANYBODY

    def contend(self) -> None:
        """Does nothing: see ``leadership``."""

    def follows(self, earlier: Position, later: Position) -> bool:
        """Whether the row numbers are adjacent: rows are numbered without gaps."""
        return directly_follows(earlier, later)

    async def end(self, partition: int) -> Position:
        """Returns the position of the newest entry that was ever stored in a partition; "" if there is none.

        Raises:
            LogError: the log is closed or lost.
        """
        if self._ended is not None:
            raise LogError(self._ended.state or self._ended.reason, self._ended.message)
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
            raise LogError(self._ended.state or self._ended.reason, self._ended.message)
        if len(self._in_flight) >= self._owner.in_flight_limit:
            raise busy(len(self._in_flight))
        sent = self._addressed(event)
        self._in_flight[sent] = None
        self._settled.clear()
        self.appends[sent.partition].push(sent, sent.fate.delay)

    async def close(self) -> None:
        """Waits for outstanding outcomes, ``close_seconds`` at the most; appends that are left then fail with an unknown outcome."""
        if self._ended is None:
            self._ended = closed(self._stored.name)
            try:
                if self._in_flight:
                    await asyncio.wait_for(self._settled.wait(), self._owner.close_seconds)
            except TimeoutError:
                self._abandon(LogError(Reason.LOG_UNAVAILABLE, "The change log was closed before it answered.", outcome_unknown=True))
        else:
            await self._settled.wait()
        self._end()

    def crash(self) -> None:
        """Stops at once, as if the process had died: appends that have not reached the storage are gone, and nothing more is reported."""
        self._end()

    def _end(self) -> None:
        self._stop(self._ended or closed(self._stored.name))
        self._in_flight.clear()
        self._settled.set()

    def lose(self, error: LogError) -> None:
        """Ends the log: outstanding appends are reported as failed with an unknown outcome, then the log as lost."""
        self._loop.call_soon(self._lose, error)

    def show(self, placed: Placed) -> None:
        """Sends an entry that was stored on its way to the reader, where it arrives after the delay that the faults decide."""
        self.reads[placed.partition].push(placed, self._owner.faults.read_delay(self._stored.name, placed))

    def _lose(self, error: LogError) -> None:
        if self not in self._stored.followers:
            return
        self._stop(error)
        self._abandon(LogError(error.state or error.reason, error.message, outcome_unknown=True))
        self._sink.lost(error)

    def _stop(self, error: LogError) -> None:
        self._ended = error
        for towards, back in zip(self.appends, self.answers, strict=True):
            towards.drop()
            back.drop()
        for channel in self.reads:
            channel.drop()
        for questions in self.questions:
            questions.drop()
        for answer in self._asked:
            if not answer.done():
                answer.set_exception(LogError(error.state or error.reason, error.message))
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
        return Sent(event, self.partition_of(event.key), self._owner.faults.fate(self._stored.name, event))

    def _ask_end(self, partition: int, answer: asyncio.Future[Position]) -> None:
        delay = self._owner.faults.question_delay(self._stored.name)
        if delay is not None:
            self.questions[partition].push(partial(self._tell_end_late, partition, delay, answer), delay)

    # What happens when a message arrives at the storage

    def _arrive(self, messages: list[Message]) -> None:
        for message in messages:
            if isinstance(message, Sent):
                self._store(message)
                self.answers[message.partition].push(message, message.fate.answer_delay)
            else:
                message()

    def _store(self, sent: Sent) -> None:
        """Stores or fails an event as its fate says, if its producer may write the partition."""
        fate, producer = sent.fate, sent.producer
        if self._stored.seats[sent.partition].holder is not producer:
            sent.error = LogError(
                LogState.FENCED,
                "Opening the change log for writing failed, another client holds the exclusive producer.",
                kind=Kind.FAILED_PRECONDITION,
            )
        elif fate.outcome in (Outcome.STORED, Outcome.UNACKNOWLEDGED):
            for _ in range(fate.copies):
                name = producer.name if producer is not None else self._owner.producer
                placed = self._stored.store(sent.partition, sent.event, self._owner.storage.now(), name)
                sent.place = sent.place or placed
        if sent.error is None and fate.outcome is not Outcome.STORED:
            unknown = fate.outcome is not Outcome.REFUSED
            sent.error = LogError(LogState.APPEND_FAILED, "The change log did not acknowledge the event.", outcome_unknown=unknown)

    def _tell_end_late(self, partition: int, delay: float, answer: asyncio.Future[Position]) -> None:
        end = self._stored.ends[partition]
        self._loop.call_later(delay, lambda: None if answer.done() else answer.set_result(end))

    # What happens when a message arrives back in this process

    def _answer(self, messages: list[Message]) -> None:
        placed: list[Placed] = []
        for message in messages:
            if isinstance(message, Sent) and message not in self._in_flight:
                continue  # its outcome was reported already
            if isinstance(message, Sent) and message.error is None and message.place is not None:
                del self._in_flight[message]
                placed.append(message.place)
                continue
            if placed:
                self._sink.acknowledged(placed)
                placed = []
            if not isinstance(message, Sent):
                message()
            elif message in self._in_flight and message.error is not None:
                del self._in_flight[message]
                self._fail(message.event, message.error)
        if placed:
            self._sink.acknowledged(placed)
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
    """The change logs of a storage, as one process accesses them (``change_log.ChangeLogs``)."""

    def __init__(
        self,
        storage: MemoryStorage | None = None,
        *,
        faults: Faults = NO_FAULTS,
        producer: str = "memory",
        in_flight_limit: int = IN_FLIGHT,
        close_seconds: float = CLOSE_SECONDS,
    ) -> None:
        """Accesses a storage.

        Args:
            storage: the storage; None: a new one with one partition.
            faults: what goes wrong.
            producer: this process's producer name in the entries that it writes.
            in_flight_limit: how many appends of one open log may wait for their outcome.
            close_seconds: how long closing a log waits for outcomes.
        """
        self.storage = storage or MemoryStorage()
        self.faults = faults
        self.producer = producer
        self.in_flight_limit = in_flight_limit
        self.close_seconds = close_seconds
        self._open: dict[str, MemoryNamespaceLog] = {}

    async def open(self, namespace: str, sink: LogSink, start: Start | None = None) -> MemoryNamespaceLog:
        """Opens a namespace's log (see ``change_log.ChangeLogs.open``). Every namespace exists."""
        if namespace in self._open:
            raise already_open(namespace)
        log = self._opening(self.storage.namespace(namespace), sink, start)
        self._open[namespace] = log
        return log

    def _opening(self, stored: StoredNamespace, sink: LogSink, start: Start | None) -> MemoryNamespaceLog:
        return MemoryNamespaceLog(self, stored, sink, start)

    def opened(self, namespace: str) -> MemoryNamespaceLog:
        """The open log of a namespace."""
        return self._open[namespace]

    async def reach(self) -> None:
        """Returns at once: the storage is this object."""

    def cut_off(self, error: LogError) -> None:
        """Does nothing: no append waits."""

    def connections(self) -> None:
        """There are none."""

    async def close(self) -> None:
        """Closes all open logs."""
        await asyncio.gather(*(log.close() for log in list(self._open.values())))

    def crash(self) -> None:
        """Stops all logs at once, as if the process had died."""
        for log in list(self._open.values()):
            log.crash()

    def forget(self, namespace: str, log: MemoryNamespaceLog) -> None:
        """Called by a log that has ended: its namespace can be opened again."""
        if self._open.get(namespace) is log:
            del self._open[namespace]


def is_place_of(start: Start, stored: StoredNamespace) -> bool:
    """Whether ``start`` belongs to this stored log, and nothing behind it was compacted away."""
    if start.identity != stored.identity or len(start.positions) != stored.partitions or start.in_place:
        return False
    places = zip(start.positions, start.anchors, stored.compacted, stored.ends, stored.entries, strict=True)
    return all(compacted <= at <= end and _holds(anchor, at, entries) for at, anchor, compacted, end, entries in places)


def _holds(anchor: str, at: Position, entries: Sequence[Placed]) -> bool:
    """Whether the entry at a position has the given anchor; True, too, if the anchor is "" or no entry stands there."""
    there = next((placed for placed in entries if placed.position == at), None) if anchor else None
    return there is None or anchor_of(there) == anchor


def _do_all(steps: Sequence[Callable[[], None]]) -> None:
    for step in steps:
        step()
