"""The memory log with one writer at a time (PIP-68).

The election of a leader, and the beginning and end of a term, are the server's own code (``logs/leadership``), so that what tests and the
simulation find out about it also holds for the Pulsar log. This module replaces brokers and their client library: it has producers that
take seats of the storage (``storage``), messages that take time in both directions, and connections that break (``cut``).

As on Pulsar, a producer whose connection the storage has given up has lost its seat for good, before its process knows. What the producer
sends later is refused (``FENCED``) with an unknown outcome, because an earlier copy of the event might be stored. The process notices
the loss in an answer, or when it checks its producers, and closes all of them. Messages in transit at that time may still be stored, before
the next producer gets the seat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.policies.events import Event, Placed, Position
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import Leadership, LogError, LogSink, NotLeader, Start
from topicpolicies_server.logs.leadership import Candidate, ProducerTaken

from .channel import NO_FAULTS, Faults, Outcome
from .log import MemoryLog, MemoryNamespaceLog, Sent
from .storage import MemoryStorage, Producer, StoredNamespace

CLUSTER = "memory"
"""The cluster in the names of leaders."""
CONNECTION_CHECK_SECONDS = 0.08
"""How soon a process notices that its producer has lost its connection, once it can know, as on Pulsar (``pulsar/log``)."""
WAIT_SECONDS = 2.0
"""How long one attempt waits for a seat."""
_PRODUCER_FAILED = frozenset({LogState.FENCED, LogState.REFUSED, LogState.UNREACHABLE})


class Handle(Producer):
    """A producer as its process has it, with what ``Candidate`` needs of a producer of the client library."""

    def __init__(self, name: str, partition: int, close: Callable[[Handle], None]) -> None:
        """``close`` sends the storage a message that the producer is closed."""
        super().__init__(name, partition)
        self.closed = False
        self._connected = True
        self._close = close

    @property
    def connected(self) -> bool:
        """Whether the producer has its connection, as far as the process knows."""
        return self._connected and not self.closed

    def disconnected(self) -> None:
        """Called when the process can know that the connection is lost."""
        self._connected = False

    def close(self) -> None:
        """Closes the producer; a second call does nothing."""
        if not self.closed:
            self.closed = True
            self._close(self)


class LedNamespaceLog(MemoryNamespaceLog):
    """One namespace's log with one writer at a time, as one process has it open; its ``Candidate`` uses it as a ``LeadableLog``."""

    def __init__(self, owner: LedMemoryLog, stored: StoredNamespace, sink: LogSink) -> None:
        super().__init__(owner, stored, sink)
        self.candidate: Candidate[Handle] = Candidate(self, stored.name, stored.partitions, CLUSTER, owner.address)
        self._address = owner.address
        self._handles: dict[Handle, None] = {}
        """Producers that the storage may know, including those that are being opened."""
        self._term: Sequence[Handle] = ()
        """The producers of the current term, by partition: appended events are sent by them."""
        self._named = ("", "")
        self._linger = 0.0

    @property
    def leadership(self) -> Leadership:
        """Only the leader may append."""
        return self.candidate.leadership

    @property
    def shared(self) -> bool:
        """False for the leader, because no other process writes."""
        return not self.leadership.leads

    def contend(self) -> None:
        """Makes this process a candidate."""
        if self._ended is None:
            self.candidate.contend()

    def append(self, event: Event) -> None:
        """Takes an event for appending (see ``change_log.NamespaceLog.append``)."""
        if self._ended is None and not self.leadership.leads:
            raise NotLeader(self.namespace, self.leadership)
        super().append(event)

    def cut(self, *, answers: bool = False) -> None:
        """Makes the storage give up the connections of this process's producers. The process may notice with the next answer that it gets.

        ``answers``: whether answers in transit are lost too.
        """
        for channel in self.answers if answers else ():
            for message in channel.drop():
                if not isinstance(message, Sent):
                    channel.push(message)
        for handle in list(self._handles):
            self._disconnect(handle)

    def crash(self) -> None:
        """Ends the process without a message; the storage may take a while to notice (``Faults.session_seconds``)."""
        self._linger = self._owner.faults.session_seconds(self.namespace)
        super().crash()

    def _stop(self, error: LogError) -> None:
        super()._stop(error)
        handles, self._handles = self._handles, {}
        for handle in handles:
            handle.closed = True  # closed by the storage, not by a message of the process
            if self._linger:
                self._loop.call_later(self._linger, self._leave, handle)
            else:
                self._leave(handle)
        self.candidate.stop()

    # What the candidate calls (``LeadableLog``)

    async def open_exclusively(self, partition: int, name: str, *, wait: bool) -> Handle:
        """Opens a producer that is the only one of its partition."""
        if name != self._named[0]:
            self._named = name, self._owner.storage.leader_name(CLUSTER, self._address)
        handle = Handle(self._named[1], partition, self._send_close)
        answer: asyncio.Future[Handle] = self._loop.create_future()
        self._handles[handle] = None
        self.appends[partition].push(partial(self._seat, handle, wait, answer))
        try:
            return await answer
        except BaseException:
            handle.close()
            raise

    async def announce(self, partition: int, producer: Handle) -> Position:
        """Writes an entry without an event."""
        answer: asyncio.Future[Position] = self._loop.create_future()
        self.appends[partition].push(partial(self._announce, producer, answer))
        return await answer

    def elected(self, producers: Sequence[Handle]) -> None:
        """Begins a term: this process may append."""
        self._term = producers
        self._sink.led()

    def deposed(self, error: LogError) -> None:
        """Ends the term: fails all events without an outcome. All of them were sent."""
        self._term = ()
        outstanding = sorted(self._in_flight, key=lambda sent: sent.partition)
        self._in_flight.clear()
        for sent in outstanding:
            why = error.state or error.reason
            self._sink.append_failed(sent.event, LogError(why, error.message, kind=error.kind, outcome_unknown=True))
        self._settled.set()
        self._sink.led()

    def led(self) -> None:
        """Reports to the sink that another process leads."""
        self._sink.led()

    # What happens in the storage

    def _addressed(self, event: Event) -> Sent:
        sent = super()._addressed(event)
        sent.producer = self._term[sent.partition]
        return sent

    def _store(self, sent: Sent) -> None:
        producer, outcome = sent.producer, sent.fate.outcome
        if self._stored.seats[sent.partition].holder is not producer:
            sent.error = _fenced("Appending to the change log", outcome_unknown=True)
            return
        super()._store(sent)
        if outcome in (Outcome.VANISHED, Outcome.UNACKNOWLEDGED) and isinstance(producer, Handle):
            sent.error = LogError(LogState.UNREACHABLE, "Appending to the change log failed, no answer in time.", outcome_unknown=True)
            self._disconnect(producer)  # nothing that was sent after it is stored

    def _seat(self, handle: Handle, wait: bool, answer: asyncio.Future[Handle]) -> None:
        seat = self._stored.seats[handle.partition]
        if not wait:
            taken = not seat.take(handle)
            self._reply(handle, answer, ProducerTaken(seat.holder.name if seat.holder is not None else "") if taken else handle)
            return

        def give_up() -> None:
            seat.leave(handle)
            self._reply(handle, answer, ProducerTaken())

        patience = self._loop.call_later(WAIT_SECONDS, give_up)

        def seated() -> None:
            patience.cancel()
            self._reply(handle, answer, handle)

        answer.add_done_callback(lambda _: patience.cancel())
        seat.wait(handle, seated)

    def _announce(self, handle: Handle, answer: asyncio.Future[Position]) -> None:
        if self._stored.seats[handle.partition].holder is handle:
            placed = self._stored.store(handle.partition, None, self._owner.storage.now(), handle.name)
            self._reply(handle, answer, placed.position)
        else:
            self._reply(handle, answer, _fenced("Announcing its leader"))

    def _disconnect(self, handle: Handle) -> None:
        if self._stored.seats[handle.partition].leave(handle):
            self.answers[handle.partition].push(partial(self._lose_connection, handle))

    def _leave(self, handle: Handle) -> None:
        self._handles.pop(handle, None)
        self._stored.seats[handle.partition].leave(handle)

    def _send_close(self, handle: Handle) -> None:
        self.appends[handle.partition].push(partial(self._leave, handle))

    # What happens in this process

    def _reply(self, handle: Handle, answer: asyncio.Future[Any], result: object) -> None:
        def arrive() -> None:
            if answer.done():
                return
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)

        self.answers[handle.partition].push(arrive)

    def _lose_connection(self, handle: Handle) -> None:
        handle.disconnected()
        self._loop.call_later(CONNECTION_CHECK_SECONDS, self._check_connection, handle)

    def _check_connection(self, handle: Handle) -> None:
        if not handle.closed:  # otherwise the loss was noticed before
            self.candidate.check_connection()
            self._loop.call_later(CONNECTION_CHECK_SECONDS, self._check_connection, handle)

    def _fail(self, event: Event, error: LogError) -> None:
        if error.outcome_unknown or error.state in _PRODUCER_FAILED:
            self.candidate.step_down(error)
        super()._fail(event, error)

    def _hand_on(self, placed: Sequence[Placed]) -> None:
        super()._hand_on(placed)
        for each in placed:
            if each.partition == 0:
                self.candidate.note_producer(each.producer)
        self.candidate.read_up_to(placed[-1].partition, placed[-1].position)

    def _tell_caught_up(self) -> None:
        super()._tell_caught_up()
        if self.candidate.ever_led:
            self.candidate.contend()


class LedMemoryLog(MemoryLog):
    """The change logs of a storage, each with one writer at a time, as one process has them."""

    def __init__(self, storage: MemoryStorage | None = None, *, address: str, faults: Faults = NO_FAULTS, **options: Any) -> None:
        """Opens logs of a storage. ``address``: where clients reach this process; the other options are those of ``MemoryLog``."""
        super().__init__(storage, faults=faults, **options)
        self.address = address

    def _opening(self, stored: StoredNamespace, sink: LogSink, start: Start | None) -> MemoryNamespaceLog:
        del start  # the whole log is read, because it names earlier leaders
        return LedNamespaceLog(self, stored, sink)


def _fenced(what: str, *, outcome_unknown: bool = False) -> LogError:
    message = f"{what} failed, another client holds the exclusive producer."
    return LogError(LogState.FENCED, message, kind=Kind.FAILED_PRECONDITION, outcome_unknown=outcome_unknown)
