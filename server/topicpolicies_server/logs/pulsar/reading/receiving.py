"""Takes messages from pulsar-client's reader in log order, and leaves none in its queue.

The library has a race between its queue and its waiting callers (pulsar-client-cpp, ``ConsumerImpl::executeNotifyCallback``, up to 4.2 at
least). A library thread that brings a message and finds no waiting caller releases the lock, and only then puts the message into the queue.
A caller that begins to wait in between (``receiveAsync``) waits although a message is there. That message stays in the queue until it is
looked for, and the next one, which does find a waiting caller, overtakes it.

Hence two rules. First: after a message that was waited for, one more is taken before any is delivered; by then an overtaken message is the
first in the queue. Second: while nothing comes, the queue is looked into, soon after the wait began and then ever more rarely. A message
that is found there may stand behind one that a library thread is just handing to the waiting caller; so unless it directly follows the last
message taken, it is held back until that one has come, or for a second. (If that takes longer, ``continuity`` asks about the gap.)

The library's reader listener has no such race, and is not used for two reasons (``python -m bench.receiving``). A library thread takes the
interpreter's lock for each message, whereas a message that is there already is returned from within the call that requests it: 20,000
messages took 0.43 s of processor time with the listener and 0.22 s without. And the listener has no backpressure: it delivers whatever
arrives, 11,800 messages a second with a queue of 1,000, so the broker goes on sending to a reader that is behind.
"""

from __future__ import annotations

import asyncio
import math
import threading
from typing import Any, TypeAlias

from ....core.reasons import Reason
from ...change_log import LogError
from ..client import OK, Inbox, next_at_once
from ..ids import NOWHERE, MessageId

_ANSWER_SECONDS = 5.0
_BATCH = 64
_FIRST_LOOK_SECONDS = 0.05
_LONGEST_LOOK_SECONDS = 10.0
_ON_ITS_WAY_SECONDS = 1.0
SLICE_SECONDS = 0.005
"""How long one slice of delivering entries may take before other tasks get a turn of the event loop, when many entries come at once."""
_FEW = 16
"""A batch of fewer entries does not end a slice by itself."""
_IN_A_ROW = 8
"""This many batches in a row end a slice, however small they are: under load, this process's own entries come one by one."""

Received: TypeAlias = tuple[MessageId, Any]
"""Where a message stands, and the library's message."""


class Slices:
    """Decides after which batch other tasks get a turn of the event loop."""

    __slots__ = ("_in_a_row",)

    def __init__(self) -> None:
        self._in_a_row = 0

    def ends(self, entries: int) -> bool:
        """Whether the slice ends with a batch of so many entries, which was just delivered."""
        self._in_a_row += 1
        if entries < _FEW and self._in_a_row < _IN_A_ROW:
            return False
        self._in_a_row = 0
        return True


class Receiver:
    """Takes messages from one reader of the library, for one task.

    Attributes:
        overtaken: how many messages came after later ones and were put in order.
        left_behind: how many messages were found in the queue while the task waited for one.
    """

    def __init__(self, handle: Any) -> None:
        """``handle`` is pulsar-client's reader."""
        self.overtaken = 0
        self.left_behind = 0
        self._handle = handle
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._came = asyncio.Event()
        self._interrupted = False
        self._inbox: Inbox[tuple[Any, Any]] = Inbox(self._loop, self._came.set)
        """Results and messages that came after the request for them had returned."""
        self._at_once: tuple[Any, Any] | None = None
        """The result that came from within the request itself: the event loop need not be woken for it."""
        self._asked = False
        self._asking = False
        self._last = NOWHERE
        self._found: Received | None = None
        """The message that was found in the queue."""
        self._held_until = -math.inf
        """Until when that message is held back, in the event loop's time."""

    @property
    def has_some(self) -> bool:
        """Whether a message can be taken."""
        return bool(self._inbox.items) or (self._found is not None and self._held_until <= self._loop.time())

    def take(self) -> list[Received]:
        """Returns what has come, up to one batch and perhaps one message more, and requests the next message.

        Raises:
            LogError: the client has stopped reading (``LOG_ENDED``).
        """
        batch: list[Received] = []
        items = self._inbox.items
        ask, received = self._handle.read_next_async, self._received
        waited = False
        last = NOWHERE
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
            ident = message.message_id()
            place = MessageId(ident.ledger_id(), ident.entry_id(), ident.batch_index())
            if place > last:
                batch.append((place, message))
                last = place
            else:
                self._sort_in(batch, (place, message))
        if self._found is not None and (batch or self._held_until <= self._loop.time()):
            self.left_behind += not batch
            self._sort_in(batch, self._found)
            self._found = None
        if batch:
            self._last = batch[-1][0]
        return batch

    def interrupt(self) -> None:
        """Ends the ``wait`` that is under way."""
        self._interrupted = True
        self._came.set()

    async def wait(self, seconds: float = math.inf) -> bool:
        """Waits for a message; returns False if none came in time and none is held back, or if ``interrupt`` was called."""
        self._interrupted = False
        until = self._loop.time() + seconds
        look = _FIRST_LOOK_SECONDS
        while not self.has_some:
            now = self._loop.time()
            if self._interrupted or (now >= until and self._found is None):
                return False
            self._came.clear()  # the message that set it may have been taken already
            try:
                async with asyncio.timeout_at(min(now + look, until if self._found is None else self._held_until)):
                    await self._came.wait()
            except TimeoutError:
                self._look()
                look = min(4 * look, _LONGEST_LOOK_SECONDS)
        return True

    async def has_more(self) -> bool:
        """Whether the library says that there is more to read; no answer in time counts as yes."""
        answered = asyncio.Event()
        inbox: Inbox[tuple[Any, bool]] = Inbox(self._loop, answered.set)
        self._handle.has_message_available_async(lambda result, more: inbox.put((result, more)))
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await answered.wait()
        except TimeoutError:
            return True
        result, more = inbox.items.popleft()
        return result != OK or bool(more)

    def _look(self) -> None:
        """Looks for a message in the library's queue, while this task waits for one."""
        if self._found is None and self._asked and not self._inbox.items and (message := next_at_once(self._handle)) is not None:
            self._found = _at_its_place(message)
            self._held_until = -math.inf
            if not self._directly_follows(self._found[0]):
                self._held_until = self._loop.time() + _ON_ITS_WAY_SECONDS

    def _directly_follows(self, place: MessageId) -> bool:
        return place.ledger == self._last.ledger and place.entry == self._last.entry + 1

    def _sort_in(self, batch: list[Received], received: Received) -> None:
        """Inserts a message at its place in the batch, unless it is there already: a restored connection brings some messages twice."""
        place = received[0]
        at = len(batch)
        while at and place < batch[at - 1][0]:
            at -= 1
        if not at or batch[at - 1][0] != place:
            self.overtaken += at < len(batch)
            batch.insert(at, received)

    def _received(self, result: Any, message: Any) -> None:
        if self._asking and threading.get_ident() == self._thread:
            self._at_once = result, message
        else:
            self._inbox.put((result, message))


def _at_its_place(message: Any) -> Received:
    ident = message.message_id()
    return MessageId(ident.ledger_id(), ident.entry_id(), ident.batch_index()), message
