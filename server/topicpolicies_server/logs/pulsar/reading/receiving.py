"""Takes messages from pulsar-client's reader for one task, with backpressure, and leaves none in the library's queue.

Backpressure is the library's own: its queue is bounded, and when it is full the broker stops sending. (The library's reader listener has
none, and takes twice the processor time: ``python -m bench.receiving``.)

A message that arrives just when a caller begins to wait may stay in the library's queue, and the next one overtakes it (pulsar-client-cpp,
``ConsumerImpl::executeNotifyCallback``, up to 4.2 at least). So after a message that was waited for, one more is taken before any is
returned, and each wait ends with a look into the queue. Whatever is out of order all the same leaves a gap (``partition``).
"""

from __future__ import annotations

import asyncio
import threading
from operator import itemgetter
from typing import Any, TypeAlias

from ....core.reasons import Reason
from ...change_log import LogError
from ..client import OK, Inbox, next_at_once
from ..ids import MessageId

_BATCH = 64
Received: TypeAlias = tuple[MessageId, Any]
"""Where a message stands, and the library's message."""


class Receiver:
    """Takes messages from one reader of the library."""

    def __init__(self, handle: Any) -> None:
        """``handle`` is pulsar-client's reader."""
        self._handle = handle
        self._thread = threading.get_ident()
        self._came = asyncio.Event()
        self._inbox: Inbox[tuple[Any, Any]] = Inbox(asyncio.get_running_loop(), self._came.set)
        """Results and messages that came after the request for them had returned."""
        self._at_once: tuple[Any, Any] | None = None
        """The result that came from within the request itself: the event loop need not be woken for it."""
        self._asked = False
        self._asking = False
        self._found: Received | None = None
        """The message that was found in the library's queue while another one was waited for."""

    def take(self) -> list[Received]:
        """Returns what has come, in log order, up to one batch and perhaps one message more, and requests the next message.

        Raises:
            LogError: the client has stopped reading.
        """
        batch: list[Received] = [] if self._found is None else [self._found]
        self._found = None
        items = self._inbox.items
        ask, received = self._handle.read_next_async, self._received
        waited = unordered = False
        while waited or len(batch) < _BATCH:
            if items:
                result, message = items.popleft()
                waited = True
            elif self._asked:
                break
            else:
                self._asked = self._asking = True
                # The callback runs within this call if a message is there already, else later and in a thread of the library.
                ask(received)
                self._asking = False
                if self._at_once is None:
                    continue
                (result, message), self._at_once = self._at_once, None
                waited = False
            self._asked = False
            if result != OK:
                raise LogError(Reason.LOG_UNAVAILABLE, f"Pulsar's client stopped reading the change log: {result.name}.")
            one = _placed(message)
            unordered = unordered or (bool(batch) and one[0] < batch[-1][0])
            batch.append(one)
        if unordered:
            batch.sort(key=itemgetter(0))
        return batch

    @property
    def has_some(self) -> bool:
        """Whether a message can be taken."""
        return bool(self._inbox.items) or self._found is not None

    def interrupt(self) -> None:
        """Ends the ``wait`` that is under way."""
        self._came.set()

    async def wait(self, seconds: float) -> bool:
        """Waits for a message; returns False if none came in time, or if ``interrupt`` was called."""
        if not self.has_some:
            self._came.clear()  # the message that set it may have been taken already
            try:
                async with asyncio.timeout(seconds):
                    await self._came.wait()
            except TimeoutError:
                if not self._inbox.items and (message := next_at_once(self._handle)) is not None:
                    self._found = _placed(message)
        return self.has_some

    def _received(self, result: Any, message: Any) -> None:
        if self._asking and threading.get_ident() == self._thread:
            self._at_once = result, message
        else:
            self._inbox.put((result, message))


def _placed(message: Any) -> Received:
    ident = message.message_id()
    return MessageId(ident.ledger_id(), ident.entry_id(), ident.batch_index()), message
