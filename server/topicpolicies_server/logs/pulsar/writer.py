"""Writes one partition of a change log: appends events in order, and reports an outcome for each.

A producer is opened for the first event, and closed when there were no events for a while, so that another client can take the exclusive
one. While no producer is open, events wait here; otherwise they go to the library at once, which has them acknowledged in order.

**Which outcomes are certain.** When the library refuses from within the send call, nothing was sent. When an event waited here for too
long, nothing was sent either. Any later failure leaves the outcome unknown: the library sends unacknowledged messages again after a
connection broke, so even "fenced" may come after a first copy was stored. (That is also how an event can be stored twice; its event id
shows it.)
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ...core.policies.events import Event, Placed
from ...core.reasons import LogState
from ...tasks import RestartedTask
from ..avro import Codec
from ..change_log import LogError, LogSink
from .client import OK, Inbox, Result, begin_closing, message_of, refusal
from .ids import MessageId, position_of

_log = logging.getLogger(__name__)

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
_SLICE = 200
_USELESS_AFTER = frozenset({Result.AlreadyClosed, Result.NotConnected, Result.ProducerFenced, Result.TopicTerminated})
"""Result codes after which a producer takes nothing more."""
_PASSING = frozenset({LogState.UNREACHABLE, LogState.ADMIN_UNREACHABLE})
"""Reasons for which a producer could not be opened that may be gone the next time."""


class OpenProducer(NamedTuple):
    """A producer, and the schema that it writes with."""

    handle: Any
    codec: Codec
    schema_version: int

    @property
    def connected(self) -> bool:
        """Whether the producer has its connection now. The library restores lost connections by itself."""
        return bool(self.handle.is_connected())

    def close(self) -> None:
        """Starts closing the producer; nothing waits for the result."""
        begin_closing(self.handle)


class _Waiting(NamedTuple):
    event: Event
    until: float


class _Sent(NamedTuple):
    event: Event
    message: Any


class PartitionWriter:
    """Writes one partition."""

    def __init__(
        self,
        partition: int,
        open_producer: Callable[[int], Awaitable[OpenProducer]],
        rehearse: Callable[[Event], object],
        sink: LogSink,
        *,
        patience_seconds: float,
    ) -> None:
        """Opens nothing yet.

        ``rehearse`` raises ``LogError`` for an event that can't be written, as far as is known; called while there is no producer. ``sink``
        receives the outcomes, never from within ``append``. ``patience_seconds``: how long an event may wait for a producer.
        """
        self._partition = partition
        self._open_producer = open_producer
        self._rehearse = rehearse
        self._sink = sink
        self._patience = patience_seconds
        self._thread = threading.get_ident()
        self._producer: OpenProducer | None = None
        self._opening = RestartedTask(f"Writing partition {partition} of a change log", self._open)
        self._waiting: deque[_Waiting] = deque()
        self._sent: dict[int, _Sent] = {}
        self._acknowledgements: Inbox[tuple[int, Any, Any, bool]] = Inbox(asyncio.get_running_loop(), self._settle)
        self._counter = 0
        self._calling = 0
        self._used = 0.0

    @property
    def outstanding(self) -> int:
        """How many events have no outcome yet."""
        return len(self._waiting) + len(self._sent)

    def append(self, event: Event) -> None:
        """Takes an event.

        Raises:
            LogError: the schema or the dialect can't express the event.
        """
        if self._producer is not None and not self._waiting:
            self._send(self._producer, event)
        else:
            self._rehearse(event)
            self._waiting.append(_Waiting(event, time.monotonic() + self._patience))
            self._opening.start()

    def outdate(self, schema_version: int) -> None:
        """Closes a producer whose schema is older than this version. What it has sent has an unknown outcome then."""
        if self._producer is not None and self._producer.schema_version < schema_version:
            error = refusal("Appending to the change log", Result.AlreadyClosed, "it has a newer schema", outcome_unknown=True)
            sent = [each.event for each in self._sent.values()]
            self._sent.clear()
            self._drop_producer()
            for event in sent:
                self._sink.append_failed(event, error)

    def close_if_idle(self, idle_seconds: float) -> None:
        """Closes the producer if it was not used for ``idle_seconds``."""
        if self._producer is not None and not self.outstanding and time.monotonic() - self._used > idle_seconds:
            self._drop_producer()

    def stop(self) -> list[tuple[Event, bool]]:
        """Closes the producer at once: nothing is sent, or sent again, and no outcome is reported afterwards.

        Returns the events without an outcome, oldest first, each with whether it may be in the log all the same.
        """
        self._opening.cancel()
        left = [(sent.event, True) for sent in self._sent.values()] + [(waiting.event, False) for waiting in self._waiting]
        self._sent.clear()
        self._waiting.clear()
        self._drop_producer()
        return left

    def use(self, producer: OpenProducer) -> None:
        """Takes a producer that the leadership has opened, instead of opening one."""
        self._producer = producer
        self._used = time.monotonic()

    def fail_waiting(self, error: LogError) -> None:
        """Fails the events that wait for a producer: the brokers are out of reach, and the events certainly were not sent."""
        if self._producer is None:
            self._fail_waiting(len(self._waiting), error)

    def _send(self, producer: OpenProducer, event: Event) -> None:
        message = message_of(producer.codec.encode(event))
        self._used = time.monotonic()
        self._counter += 1
        number = self._calling = self._counter
        self._sent[number] = _Sent(event, message)
        try:
            producer.handle.send_async(message, functools.partial(self._acknowledge, number))
        except BaseException:
            self._sent.pop(number)  # the exception tells the caller that no acknowledgement comes
            raise
        finally:
            self._calling = 0

    def _acknowledge(self, number: int, result: Any, message_id: Any) -> None:
        """Called by the library: from within the send call if it refuses at once, otherwise from one of its threads."""
        at_once = number == self._calling and threading.get_ident() == self._thread
        self._acknowledgements.put((number, result, message_id, at_once))

    def _settle(self) -> None:
        placed: list[Placed] = []
        items = self._acknowledgements.items
        if len(items) > _SLICE:
            asyncio.get_running_loop().call_soon(self._settle)
        for _ in range(min(_SLICE, len(items))):
            number, result, message_id, at_once = items.popleft()
            sent = self._sent.pop(number, None)
            if sent is None:
                continue  # stopped meanwhile
            if result == OK:
                placed.append(self._placed(sent, message_id))
                continue
            if placed:
                self._sink.acknowledged(placed)
                placed = []
            # If its connection is lost, opening another one is quicker than the library, whose pauses grow.
            lost = result == Result.Timeout and self._producer is not None and not self._producer.connected
            if result in _USELESS_AFTER or lost:
                self._drop_producer()
            self._sink.append_failed(sent.event, refusal("Appending to the change log", result, outcome_unknown=not at_once))
        if placed:
            self._sink.acknowledged(placed)
        if self._waiting:
            self._opening.start()

    def _placed(self, sent: _Sent, message_id: Any) -> Placed:
        """Returns what readers will see, including the time and the producer name that the library put into the message on sending."""
        position = position_of(MessageId(message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()))
        return Placed(self._partition, position, sent.event, sent.message.publish_timestamp(), sent.message.producer_name())

    def _drop_producer(self) -> None:
        if self._producer is not None:
            self._producer.close()
        self._producer = None

    async def _open(self) -> None:
        pause = _FIRST_PAUSE
        while self._waiting:
            if self._producer is not None:
                self._send_some(self._producer)
                await asyncio.sleep(0)
            elif not await self._try_to_open() and self._waiting:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _try_to_open(self) -> bool:
        """Makes one attempt to open a producer; returns whether there is one now.

        Events may expire meanwhile, but never cut the attempt short, or a broker that is slow to come back would never be reached.
        """
        attempt = asyncio.ensure_future(self._open_producer(self._partition))
        try:
            while not attempt.done():
                self._expire(refusal("Opening the change log for writing", Result.Timeout, "no producer in time"))
                left = max(0.0, self._waiting[0].until - time.monotonic()) if self._waiting else self._patience
                await asyncio.wait({attempt}, timeout=left)
        except BaseException:
            if not attempt.cancel() and attempt.exception() is None:
                attempt.result().close()
            raise
        try:
            self._producer = attempt.result()
        except LogError as failure:
            if failure.state in _PASSING:
                self._expire(failure)
            else:
                self._fail_waiting(len(self._waiting), failure)
            return False
        self._used = time.monotonic()
        return True

    def _expire(self, failure: LogError) -> None:
        now = time.monotonic()
        self._fail_waiting(sum(1 for _ in itertools.takewhile(lambda waiting: waiting.until <= now, self._waiting)), failure)

    def _fail_waiting(self, count: int, failure: LogError) -> None:
        for _ in range(count):
            self._sink.append_failed(self._waiting.popleft().event, failure)

    def _send_some(self, producer: OpenProducer) -> None:
        for _ in range(min(_SLICE, len(self._waiting))):
            event = self._waiting.popleft().event
            try:
                self._send(producer, event)
            except LogError as error:
                self._sink.append_failed(event, error)
            except Exception as error:  # noqa: BLE001 (whoever waits for it is told, and those behind it are sent)
                _log.exception("An event of %s can't be sent", event.key.topic)
                why = f"The event can't be sent to the change log: {type(error).__name__}."
                self._sink.append_failed(event, LogError(LogState.APPEND_FAILED, why, outcome_unknown=True))
