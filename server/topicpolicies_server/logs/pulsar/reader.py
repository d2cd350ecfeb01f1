"""Reads one partition of a change log without missing an event of it, and delivers its entries in batches, in log order.

**Two phases.** Of most of a log, only what compaction left over can be had. So it is first read compacted, up to the entries that still
stand in the ledgers as they were written: those after the last compaction, and the newest ones before its end (``PulsarLimits.recalled``).
From there on it is read uncompacted, for good; so what is compacted from now on takes nothing from what is read. A compaction that ends
during the first phase hides keys of which a newer event stands behind it. So after that phase, the broker is asked how far the log is
compacted by now: the initial replay lasts up to there, and the history of keys is known no further back (``complete_after``). A log that
was never compacted, or is read on from a known place, has no first phase.

**Gaps.** Entries of a ledger are numbered densely, so whatever is missing in the second phase leaves a gap, or is at the end of a ledger.
Before an entry after either is delivered, and before an end that does not come counts as reached, the broker is asked what stands in
between:

- nothing, or only markers of the brokers' own: there is nothing to miss
- a message: the reader is opened again before it. If a later one comes without it once more, or nothing for as long as an initial replay
  waits (``PulsarLimits.stuck_seconds``), the library can't decode it: it is delivered as unreadable
- the ledger was deleted, as ledgers are once they are compacted and another one was begun: so it was compacted, possibly with entries that
  were not read. The log is lost, and has to be opened again; unless it is compacted no further than it was read. (The horizon of a
  compaction that has just ended may be that of the one before.)

**The initial replay ends** with the entry that was the last one at the opening. That entry may never come: it may be a marker, or a
tombstone that was compacted. The same is true of a later **end**, up to which a caller has to read. So when nothing comes, the broker is
asked whether it has sent everything. A broker that has not, and sends nothing, gets a new reader: one that fails to read a compacted
ledger, because the next compaction has just deleted it, tries again after 15 s, then after up to 60 s (``readEntriesFailed`` of
``PersistentDispatcherSingleActiveConsumer``).

**A new ledger** may belong to another log, created in place of this one. So before any entry of it is delivered, and before an end that did
not come counts as reached, the broker is asked whether the log is still the same.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar

from ...core.policies.events import Placed, Position
from ...core.reasons import LogState, Reason
from ..change_log import LogError
from .brokers import Brokers
from .client import OK, Inbox, begin_closing, next_at_once
from .entries import Entries
from .ids import NOWHERE, MessageId, border_of
from .topics import Compaction, State

_log = logging.getLogger(__name__)

_BATCH = 32
"""How many messages are taken before other tasks get a turn of the event loop: whoever takes them folds them at once, for some two
milliseconds."""
_QUIET_SECONDS = 0.1
"""After how long without an entry the broker is asked during the initial replay; and how long a message may take between two threads."""
_OVERDUE_SECONDS = 0.7
"""The same later on, and between two requests."""
_LOOK_SECONDS = 10.0
"""How often to look for a message in the library's queue while nothing is expected."""
_STUCK_SECONDS = 3.0
"""After how long without an entry a reader is replaced, if the broker has something to send."""
_SETTLING_SECONDS = 0.5
"""A compaction's horizon is reported a moment after its ledger."""
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0
_REFUSED_SECONDS = 30.0
"""How long requests may be refused before reading gives up: a token may have expired, and its replacement may be on its way."""
_Deliver: TypeAlias = Callable[[Sequence[Placed]], None]
_T = TypeVar("_T")


Received: TypeAlias = tuple[MessageId, Any]
"""Where a message stands, and the library's message."""


class Receiver:
    """Takes messages from one reader of the library, with backpressure, and leaves none in its queue.

    Backpressure is the library's own: its queue is bounded, and when it is full the broker stops sending. (The library's reader listener
    has none, and takes twice the processor time.)

    A message that arrives just when a caller begins to wait may stay in the library's queue, and the next one overtakes it
    (pulsar-client-cpp, ``ConsumerImpl::executeNotifyCallback``, up to 4.2 at least). So after a message that was waited for, one more is
    taken before any is returned, and each wait ends with a look into the queue. Whatever is out of order all the same leaves a gap.
    """

    def __init__(self, handle: Any) -> None:
        """``handle`` is pulsar-client's reader."""
        self._handle = handle
        self._thread = threading.get_ident()
        self._came = asyncio.Event()
        self._inbox: Inbox[tuple[Any, Any, bool]] = Inbox(asyncio.get_running_loop(), self._came.set)
        """Results and messages, each with whether it was waited for."""
        self._asked = False
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
        waited = unordered = False
        while waited or len(batch) < _BATCH:
            if not items and not self._asked:
                self._asked = True
                self._handle.read_next_async(self._received)
            if not items:
                break
            result, message, waited = items.popleft()
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
        # If a message is there already, this is called within the request, else later and in a thread of the library.
        self._inbox.put((result, message, threading.get_ident() != self._thread))


class PartitionReader:
    """Reads one partition.

    Attributes:
        handle: pulsar-client's reader; None: none was opened yet. The owner of this object closes it.
        entries: decodes the messages, and knows the last entry.
        complete_after: the position after which nothing was compacted away before it was read; None: it is not known. It moves once, if the
            log is compacted during the first phase, before anything after the old position is delivered.
        complete_upto: the place up to which nothing was missed, apart from what was compacted.
        ledger: the newest ledger that is known to belong to this log; -1: none is known.
    """

    def __init__(self, brokers: Brokers, topic: str, entries: Entries, replaced: Callable[[], Awaitable[LogError | None]]) -> None:
        """Connects to nothing yet.

        ``topic``: its full name; ``replaced`` returns what is wrong if the log was deleted or replaced by another one.
        """
        self.handle: Any = None
        self.entries = entries
        self.complete_after: Position | None = None
        self.complete_upto = NOWHERE
        self.ledger = -1
        self._brokers = brokers
        self._loop = asyncio.get_running_loop()
        self._topic = topic
        self._replaced = replaced
        self._deliver: _Deliver
        self._receiver: Receiver
        self._name = ""
        self._opening: State
        self._first_phase = False
        self._floor = NOWHERE
        """The first entry of the second phase, after a first one: the reader begins one earlier."""
        self._end = NOWHERE
        """The furthest end of the partition that was reported."""
        self.caught_up = False
        """Whether the initial replay has ended: all was read that the partition had at the opening."""
        self._covered = -1
        """The newest compacted ledger of which it is known that it covers nothing that was not read."""
        self._skipped: MessageId | None = None
        self._missed_at = 0.0
        self._newest_received = NOWHERE
        self._heard = self._opened = 0.0
        """When an entry came that had not come before, or began to be expected; and when the reader was opened. Monotonic seconds."""
        self._asked = False

    @property
    def connected(self) -> bool:
        """Whether the reader has its connection to the broker now. The library restores lost connections by itself."""
        return bool(self.handle.is_connected())

    async def connect(self, *, resumed: State | None = None, emptied: bool = False) -> None:
        """Connects a reader, which creates the topic if it does not exist.

        ``resumed``: the state of the topic, if reading goes on after the last of ``entries``; None: it begins at the beginning.
        ``emptied``: whether the partition lost events other than by compaction.

        Raises:
            LogError: the reader could not be created, or there is no answer.
        """
        state = resumed or await self._state()
        if state.last == NOWHERE:
            await self._open(NOWHERE)
            state = await self._state()
        compaction, self._opening, self._end = state.compaction, state, state.last
        if state.last.entry >= 0:
            self.ledger = state.last.ledger
        if compaction.horizon is not None:
            self.complete_after = "" if compaction.ledger == -1 and not emptied else border_of(compaction.horizon)
        self._first_phase = resumed is None and compaction.ledger != -1
        if self._first_phase:
            await self._open(NOWHERE, compacted=True)
        else:
            self.complete_upto = self.entries.last if resumed is not None else _before(state.first)
            await self._open(state.first if resumed is None else self.entries.last)

    async def run(self, deliver: _Deliver, caught_up: Callable[[], None]) -> None:
        """Reads until it is cancelled. ``deliver`` must not raise. ``caught_up`` is called once, when the initial replay has ended.

        Raises:
            LogError: reading can't go on.
        """
        self._deliver = deliver
        self._heard = self._loop.time()
        if self._first_phase:
            await self._read_compacted()
        while True:
            batch = self._take()
            if batch:
                await self._hand_over(batch)
                continue
            behind = self.complete_upto < self._end
            if not behind and not self.caught_up:
                self.caught_up = True
                caught_up()
            pause = _LOOK_SECONDS
            if behind:
                pause = _OVERDUE_SECONDS if self.caught_up or self._asked else _QUIET_SECONDS
            if not await self._receiver.wait(pause) and behind and await self._has_sent(end := self._end):
                await self._reach(end)

    def end(self, last: MessageId) -> Position:
        """Returns how far a caller must read, given the broker's newest last entry: a position that this reader has reached or will."""
        if last > self.complete_upto or not self.caught_up:
            self._expect(last)
            return border_of(last)
        last = min(last, self.entries.last)  # after that entry there is nothing to read, as is known already
        return "" if last == NOWHERE else border_of(last)

    async def keep_up(self) -> None:
        """Asks how far the log goes, called from time to time: the newest entries may have been compacted without a trace.

        Raises:
            LogError: the broker gave no answer.
        """
        if not self.caught_up:
            return
        state = await self._state()
        if state.last <= self.complete_upto:
            self._covered = state.compaction.ledger
        else:
            self._expect(state.last)

    async def _read_compacted(self) -> None:
        """Delivers what compaction left over before the entries that are read uncompacted, and opens the reader of those."""
        first = self._opening.first
        while True:
            batch = self._take()
            older = [received for received in batch if received[0] < first]
            await self._hand_over(older, sure=True)
            if len(older) < len(batch):
                break
            if batch or await self._receiver.wait(_OVERDUE_SECONDS if self._asked else _QUIET_SECONDS):
                continue
            if await self._has_sent(self._opening.last) and await self._has_come():
                break
        compaction = await self._settled(self._opening.compaction)
        if compaction.horizon is not None and self.complete_after is not None:
            self.complete_after = max(self.complete_after, border_of(compaction.horizon))
            self._end = max(self._end, compaction.horizon)
        self.complete_upto, self._floor, self._first_phase = _before(first), first, False
        await _answer(self._open_again)

    async def _has_sent(self, last: MessageId) -> bool:
        """Whether the broker has sent everything up to ``last``, and all of it was taken; called while nothing comes."""
        self._asked = True
        try:
            sent = self.connected and await self._brokers.topics.sent_up_to(self._topic, self._name, last)
            if not sent and self.connected and not self._receiver.has_some:
                quiet = self._loop.time() - max(self._heard, self._opened)
                if quiet > _STUCK_SECONDS:  # it has something to send
                    await self._open_again()
        except LogError as error:
            _log.info("A change log waits for what its broker has not sent: %s", error.message)
            sent = False
        if sent:
            # A message that was on its way between two threads when the answer was given has come after this wait.
            return not await self._receiver.wait(_QUIET_SECONDS) and self.connected
        most = self._brokers.limits.stuck_seconds
        if not self.caught_up and not self._receiver.has_some and self._loop.time() - self._heard > most:
            raise LogError(
                LogState.STUCK, f"Nothing arrived for {most:g} s, although the change log continues to {last.ledger}:{last.entry}."
            )
        return False

    async def _has_come(self) -> bool:
        """Whether everything has come that the broker had sent: its answer to a new reader comes after that, over the same connection."""

        async def open_one() -> None:
            begin_closing((await self._create_reader(self._opening.first))[0])

        await _answer(open_one)
        return not await self._receiver.wait(_QUIET_SECONDS)

    async def _reach(self, end: MessageId) -> None:
        """Finds out what stands up to ``end``, of which nothing more comes, and that the log was not replaced meanwhile."""
        if await self._clear_up(MessageId(end.ledger, end.entry + 1), patience_seconds=self._brokers.limits.stuck_seconds):
            if self.entries.last < end:
                await self._make_sure_of_log()
            self.complete_upto = max(self.complete_upto, end)

    def _expect(self, last: MessageId) -> None:
        """Notes that the partition goes on up to ``last``: either that entry comes, or it is found out what stood there."""
        if self.caught_up and self.complete_upto >= self._end:
            self._heard = self._loop.time()
            self._receiver.interrupt()
        self._end = max(self._end, last)

    def _take(self) -> list[Received]:
        batch = self._receiver.take()
        if batch and batch[-1][0] > self._newest_received:
            self._newest_received = batch[-1][0]
            self._heard, self._asked = self._loop.time(), False
        return batch

    async def _hand_over(self, batch: Iterable[Received], *, sure: bool = False) -> None:
        """Delivers messages; of those after a gap, only once it is known that nothing was missed there. ``sure``: nothing is missing."""
        placed: list[Placed] = []
        entries, ready = self.entries, self.entries.ready
        for place, message in batch:
            if place < self._floor:
                continue
            goes_on = sure or self._follows(place)
            if (place[0] > self.ledger or not goes_on) and placed:
                self._deliver(placed)
                placed = []
            if place[0] > self.ledger:
                await self._make_sure_of_log()
                self.ledger = place[0]
            if not goes_on and not await self._clear_up(place):
                return  # the rest of the batch comes again
            if not ready(message):
                await _answer(partial(entries.prepare, message))
            entry = entries.entry(place, message)
            if entry is not None:
                if not sure:
                    self.complete_upto = max(self.complete_upto, place)
                placed.append(entry)
        if placed:
            self._deliver(placed)
        await asyncio.sleep(0)

    def _follows(self, place: MessageId) -> bool:
        upto = self.complete_upto
        return place <= upto or (place[0] == upto[0] and place[1] <= upto[1] + 1)

    async def _clear_up(self, before: MessageId, *, patience_seconds: float = 0.0) -> bool:
        """Finds out what was missed before an entry; returns False if a message is still expected.

        ``patience_seconds``: how long a message may be on its way to the second reader; 0: a later one has come.
        """
        while True:
            gap = await _answer(partial(self._brokers.topics.gap, self._topic, self.complete_upto, before))
            if gap.trimmed and gap.compacted_ledger != self._covered:
                compaction = await self._settled()
                if compaction.horizon is None or compaction.horizon > self.complete_upto:
                    what = f"The change log was compacted before it was read up to {before.ledger}:{before.entry}; it must be opened again."
                    raise LogError(Reason.LOG_UNAVAILABLE, what)
                self._covered = compaction.ledger
                continue
            if gap.message is None:
                return True
            if gap.message != self._skipped:
                self._skipped, self._missed_at = gap.message, self._loop.time()
                await _answer(self._open_again)
                return False
            if self._loop.time() - self._missed_at < patience_seconds:
                return False
            entry = self.entries.entry(gap.message, None)
            self.complete_upto = gap.message
            if entry is not None:
                self._deliver([entry])

    async def _settled(self, before: Compaction | None = None) -> Compaction:
        """Returns how far the log is compacted, once two answers in a row agree; ``before``: the answer before the first one."""
        compaction = (await _answer(self._state)).compaction
        while compaction != before:
            await asyncio.sleep(_SETTLING_SECONDS)
            before, compaction = compaction, (await _answer(self._state)).compaction
        return compaction

    async def _make_sure_of_log(self) -> None:
        if (error := await _answer(self._replaced)) is not None:
            raise error

    async def _state(self) -> State:
        return await self._brokers.topics.state(self._topic, self._brokers.limits.recalled)

    async def _create_reader(self, first: MessageId, *, compacted: bool = False) -> tuple[Any, str]:
        """Returns a reader that begins at an entry, or after it if that entry is gone, and its name."""
        name, queue_size = f"topicpolicies-{uuid.uuid4().hex}", self._brokers.limits.received
        handle = await self._brokers.client.create_reader(self._topic, name, queue_size=queue_size, first=first, compacted=compacted)
        return handle, name

    async def _open(self, first: MessageId, *, compacted: bool = False) -> None:
        handle, name = await self._create_reader(first, compacted=compacted)
        begin_closing(self.handle)
        self.handle, self._name, self._receiver = handle, name, Receiver(handle)
        self._opened = self._loop.time()

    async def _open_again(self) -> None:
        upto = self.complete_upto
        if self._first_phase:
            await self._open(self.entries.last, compacted=True)
        else:
            await self._open(upto if upto == NOWHERE else MessageId(upto.ledger, upto.entry))


def _before(place: MessageId) -> MessageId:
    return place if place == NOWHERE else MessageId(place.ledger, place.entry - 1)


async def _answer(ask: Callable[[], Awaitable[_T]]) -> _T:
    """Returns the broker's answer, without which reading can't go on; repeats the request until there is one.

    Raises:
        LogError: the request was refused for ``_REFUSED_SECONDS`` without a break.
    """
    pause = _FIRST_PAUSE
    refused_until = math.inf
    while True:
        try:
            return await ask()
        except LogError as error:
            now = asyncio.get_running_loop().time()
            refused_until = min(refused_until, now + _REFUSED_SECONDS) if error.state is LogState.ADMIN_REFUSED else math.inf
            if now >= refused_until:
                raise LogError(LogState.ACCESS_DENIED, error.message) from error
            _log.warning("Reading a change log waits for its broker: %s", error.message)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _placed(message: Any) -> Received:
    ident = message.message_id()
    return MessageId(ident.ledger_id(), ident.entry_id(), ident.batch_index()), message
