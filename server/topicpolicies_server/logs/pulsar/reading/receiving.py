"""What pulsar-client's reader has received, taken in the order of the log, and none left behind.

The library has a gap between its queue and those who wait (pulsar-client-cpp, ``ConsumerImpl::executeNotifyCallback``, up to 4.2 at least):
the thread of a message that finds nobody waiting gives up the lock, and only then puts the message into the queue. Who begins to wait in
between (``receiveAsync``) waits beside a message. It stays where it is until somebody looks into the queue, and the next one, which finds
somebody waiting, overtakes it.

Hence two rules. After a message that was waited for, one more is taken before any is handed on: by then an overtaken one is the first in
the queue. And while nothing comes, the queue is looked into: soon after the wait began, and then ever more rarely. What is found there may
stand behind a message that is on its way to whoever waits, through a thread of the library; so unless it directly follows what was taken
last, it is held back until that one has come, or for a second. (Were it longer on its way, ``continuity`` would ask about the gap.)

The library's own reader listener has no such gap, and is not used for two reasons (``python -m bench.receiving``). A thread of the library
takes the interpreter's lock for each message, where a message that is there already is handed over from within the call that asks for it:
20,000 messages took 0.43 s of processor in place of 0.22. And nothing holds it back: it hands over what comes whether or not anybody takes
it, 11,800 messages in a second though the queue was of 1,000, so that the broker goes on sending to a reader that is behind.
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
"""How long one slice of what a reader hands over may take, before others have a turn of the event loop, where many entries come at once."""
_FEW = 16
"""Fewer entries than this may be handed over without a turn for others, but not"""
_IN_A_ROW = 8
"""times one after the other: under load, entries of ours come one by one."""

Received: TypeAlias = tuple[MessageId, Any]
"""Where a message stands, and the library's message."""


class Slices:
    """Knows when others are to have a turn."""

    __slots__ = ("_in_a_row",)

    def __init__(self) -> None:
        self._in_a_row = 0

    def ends(self, entries: int) -> bool:
        """So many entries were handed over at once: whether the slice ends with them."""
        self._in_a_row += 1
        if entries < _FEW and self._in_a_row < _IN_A_ROW:
            return False
        self._in_a_row = 0
        return True


class Receiver:
    """Takes messages from one reader of the library's, for one task.

    Attributes:
        overtaken: how many messages came after later ones, and were put in order.
        left_behind: how many were found in the queue beside which they were waited for.
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
        """Results and messages that were waited for."""
        self._at_once: tuple[Any, Any] | None = None
        """What came from within the call that asked for it: nobody has to be woken for that."""
        self._asked = False
        self._asking = False
        self._last = NOWHERE
        self._found: Received | None = None
        """What was found in the queue."""
        self._held_until = -math.inf
        """Until when it is held back."""

    @property
    def has_some(self) -> bool:
        """Whether something is there to be taken."""
        return bool(self._inbox.items) or (self._found is not None and self._held_until <= self._loop.time())

    def take(self) -> list[Received]:
        """What has come, up to one batch and perhaps one more; from here on it is waited for what comes next.

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
                # The answer comes from within the call if a message is there already, else later and from a thread of the library.
                ask(received)
                self._asking = False
                if self._at_once is None:
                    continue
                (result, message), self._at_once = self._at_once, None
                waited = False
            self._asked = False
            if result != OK:
                raise LogError(Reason.LOG_ENDED, f"Pulsar's client stopped reading the change log: {result.name}.")
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
        """Whoever waits now is to look up."""
        self._interrupted = True
        self._came.set()

    async def wait(self, seconds: float = math.inf) -> bool:
        """Waits until there is something to be taken; False if nothing has come in time and nothing is held back, or if interrupted."""
        self._interrupted = False
        until = self._loop.time() + seconds
        look = _FIRST_LOOK_SECONDS
        while not self.has_some:
            now = self._loop.time()
            if self._interrupted or (now >= until and self._found is None):
                return False
            self._came.clear()  # what woke the loop may have been taken before
            try:
                async with asyncio.timeout_at(min(now + look, until if self._found is None else self._held_until)):
                    await self._came.wait()
            except TimeoutError:
                self._look()
                look = min(4 * look, _LONGEST_LOOK_SECONDS)
        return True

    async def has_more(self) -> bool:
        """Whether the library says that there is more to be read; one that does not answer is taken to say so."""
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
        """Looks into the queue beside which somebody waits."""
        if self._found is None and self._asked and not self._inbox.items and (message := next_at_once(self._handle)) is not None:
            self._found = _at_its_place(message)
            self._held_until = -math.inf
            if not self._directly_follows(self._found[0]):
                self._held_until = self._loop.time() + _ON_ITS_WAY_SECONDS

    def _directly_follows(self, place: MessageId) -> bool:
        return place.ledger == self._last.ledger and place.entry == self._last.entry + 1

    def _sort_in(self, batch: list[Received], received: Received) -> None:
        """Puts a message behind those that go before it, unless it is there: a restored connection brings some a second time."""
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
