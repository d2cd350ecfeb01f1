"""Reads one partition of a change log from its beginning, and delivers its entries in batches.

A batch is what the library has received meanwhile, taken in short slices so that the event loop is never held up. Backpressure is the
library's own: its queue is bounded, and when it is full the broker stops sending.

**The initial replay ends** with the entry that was the last one at the opening. That entry may never come, because compaction removed it,
and the library's ``has_message_available`` has been seen to answer yes for ever. So when nothing comes, the library is asked; if it answers
yes, the broker is asked whether it has sent everything; if that does not help in time, the log is lost: a partial replay is never taken for
a whole one.

**A later end** is requested by callers that must know everything written by then (``end``). What stands there may never come either: a
marker, an entry that compaction removed first, a ledger without entries. When nothing comes up to that end, the broker is asked in the same
way, and once it has sent everything, ``continuity`` finds out whether something was missed.

**A new ledger** may belong to another log, created in place of this one. So before any entry of it is delivered, and before an end that did
not come counts as reached, the broker is asked whether the log is still the same.

**A broker that sends nothing** although it has entries to send gets a new reader (``patience``), which goes on where the old one stood. So
does one that would send much of what was just read from the ledgers because compaction had erased it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from ....core.policies.events import Placed, Position
from ....core.reasons import LogState
from ...change_log import LogError
from ..ids import NOWHERE, MessageId, border_of
from .continuity import Continuity, State
from .continuity_requests import ContinuityRequests
from .entries import Entries
from .patience import Patience
from .receiving import SLICE_SECONDS, Received, Receiver, Slices

_log = logging.getLogger(__name__)

_QUIET_SECONDS = 0.1
_OVERDUE_SECONDS = 0.7
_AT_A_TIME = 32
"""How many entries are delivered at once: whoever takes them folds them at once, for some two milliseconds, and that is part of a slice."""
_WORTH_A_READER = 1_000
"""After so many entries from the ledgers, opening a new reader after them is faster than receiving what is left of them."""


class Goal(NamedTuple):
    """Where the initial replay of a partition ends, and how to find out if the last entry does not come."""

    last: MessageId | None
    """The last entry at the opening; None: there was none."""
    sent: Callable[[MessageId], Awaitable[bool]]
    """Asks the broker whether it has sent everything up to an entry; may raise ``LogError``."""
    patience_seconds: float
    """After how many seconds without an entry the replay gives up."""
    fresh_ledger: int | None = None
    """If nothing was ever written: the ledger of the first entry."""


_Deliver: TypeAlias = Callable[[Sequence[Placed]], None]
"""Takes entries of one partition, in order."""


class PartitionReader:
    """Reads one partition.

    Attributes:
        handle: pulsar-client's reader. The owner of this object closes it.
        continuity: finds out whether something was missed.
        entries: decodes the messages, and knows the last entry.
    """

    def __init__(
        self,
        handle: Any,
        entries: Entries,
        goal: Goal,
        continuity: Continuity,
        requests: ContinuityRequests,
        recalled: Sequence[Received] = (),
        reopen: Callable[[MessageId], Awaitable[Any]] | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            handle: pulsar-client's reader.
            entries: decodes the messages.
            goal: where the initial replay ends.
            continuity: knows how far the partition was compacted at the opening.
            requests: sends the requests that ``continuity`` needs.
            recalled: entries from the ledgers, up to the compaction horizon and without a hole, to be delivered among the compacted ones.
            reopen: returns a reader that begins at an entry, in place of this one; may raise ``LogError``. None: there is no other reader.
        """
        self.handle = handle
        self.entries = entries
        self.continuity = continuity
        self._goal = goal
        self._requests = requests
        self._receiver = Receiver(handle)
        self._recalled = deque(recalled)
        self._reopen = reopen
        self._patience = Patience(time.monotonic(), goal.patience_seconds)
        self._caught_up = False
        self._slices = Slices()
        self._recalled_ahead = 0
        """How many entries were read from the ledgers, ahead of the reader."""
        self._newest_received = NOWHERE
        """The furthest place of a message that the reader has returned."""
        self._reported_end = NOWHERE
        """The furthest end of the partition that was reported."""
        self._ledger = goal.fresh_ledger if goal.last is None else goal.last.ledger
        """The newest ledger that is known to belong to this log; None: no ledger is."""

    @property
    def connected(self) -> bool:
        """Whether the reader has its connection to the broker now. The library restores lost connections by itself."""
        return bool(self.handle.is_connected())

    async def run(self, deliver: _Deliver, caught_up: Callable[[], None]) -> None:
        """Reads until it is cancelled.

        Args:
            deliver: takes entries, in order; it must not raise.
            caught_up: called once, when the initial replay has ended.

        Raises:
            LogError: reading can't go on.
        """
        goal = self._goal
        self._patience.ended(time.monotonic())
        while True:
            batch = self._receiver.take()
            if batch:
                await self._hand_over(self._in_order(batch), deliver)
                if batch[-1][0] > self._newest_received:
                    self._newest_received = batch[-1][0]
                    self._patience.ended(time.monotonic())
                if self._newest_received >= self.entries.last:
                    self._recalled_ahead = 0
                elif self._recalled_ahead >= _WORTH_A_READER:
                    await self._replace_reader()
                continue
            if self._caught_up:
                behind = self._is_behind
                if not await self._receiver.wait(_OVERDUE_SECONDS if behind else math.inf) and behind:
                    await self._ask_what_is_missing(deliver)
                continue
            target = max(goal.last or NOWHERE, self.continuity.moved_to)
            if self.entries.last >= target or (not await self._receiver.wait(_QUIET_SECONDS) and await self._is_at_end()):
                recalled, self._recalled = self._recalled, deque()
                await self._hand_over(recalled, deliver)
                if await self._begin(target, deliver):
                    caught_up()
            elif self._patience.too_long(time.monotonic()) and not self._receiver.has_some:
                until = "" if goal.last is None else f" to {goal.last.ledger}:{goal.last.entry}"
                raise LogError(
                    LogState.STUCK, f"Nothing arrived for {goal.patience_seconds:g} s, although the change log continues{until}."
                )

    def end(self, last: MessageId) -> Position:
        """Returns how far a caller must read, given the broker's newest last entry: a position that this reader has reached or will."""
        if last > self.continuity.complete_upto or not self._caught_up:
            self._expect(last)
            return border_of(last)
        last = min(last, self.entries.last)  # after that entry there is nothing to read, as is known already
        return "" if last == NOWHERE else border_of(last)

    def _expect(self, last: MessageId) -> None:
        """Notes that the partition goes on up to ``last``: either that entry comes, or it is found out what stood there."""
        if self._caught_up and not self._is_behind:
            self._patience.ended(time.monotonic())
            self._receiver.interrupt()
        self._reported_end = max(self._reported_end, last)

    @property
    def _is_behind(self) -> bool:
        return self._reported_end > self.continuity.complete_upto

    async def _ask_what_is_missing(self, deliver: _Deliver) -> None:
        """Finds out what stands up to the reported end, of which nothing comes, once the broker has nothing more to send."""
        expected = self._reported_end
        try:
            sent = self.connected and await self._goal.sent(expected)
        except LogError as error:
            _log.info("The broker can't report the position of a reader: %s", error.message)
            sent = False
        if not sent:
            await self._replace_stuck_reader()
            return
        if await self._receiver.wait(_QUIET_SECONDS) or not self.handle.is_connected():
            return
        await self._ended(expected, deliver)

    async def keep_up(self) -> None:
        """Asks whether the topic was compacted meanwhile; called from time to time. A compaction may have left nothing to come.

        Raises:
            LogError: the broker gave no answer.
        """
        if self._caught_up and (horizon := await self._requests.keep_up(self.continuity)) > self.continuity.complete_upto:
            self._expect(horizon)

    async def _begin(self, target: MessageId, deliver: _Deliver) -> bool:
        """Ends the initial replay, unless a compaction has moved its end on; whether it ended. What is compacted away later is missed."""
        end = max(self.entries.last, target)
        if end is not NOWHERE:
            await self._ended(end, deliver)
        elif self._goal.fresh_ledger is not None:
            self.continuity.fresh(self._goal.fresh_ledger)
        self._caught_up = self.continuity.begun
        return self._caught_up

    async def _ended(self, end: MessageId, deliver: _Deliver) -> None:
        """Finds out what stands up to ``end``, of which nothing more comes, and that the log was not replaced meanwhile."""
        self.continuity.ended(end)
        await self._make_sure(deliver)
        if self.entries.last < end:
            await self._requests.still_the_same()

    async def _is_at_end(self) -> bool:
        """Whether the initial replay has nothing more to receive; called while nothing comes."""
        if await self._receiver.has_more():
            if not self._patience.broker_is_due(time.monotonic()):
                return False
            try:
                sent = self._goal.last is None or await self._goal.sent(self._goal.last)
            except LogError as error:
                _log.info("The broker can't report the position of a reader: %s", error.message)
                sent = False
            self._patience.broker_answered(time.monotonic())
            if not sent:
                await self._replace_stuck_reader()
                return False
            _log.warning(
                "pulsar-client reports more to read, and the broker that it sent everything; nothing arrives, so the broker is right."
            )
        # A message that was on its way between two threads when the answer was given has come after this wait.
        return not await self._receiver.wait(_QUIET_SECONDS)

    async def _replace_stuck_reader(self) -> None:
        """Opens a new reader, because the broker has something to send and does not, if it is time for that (``patience``)."""
        if self.connected and not self._receiver.has_some and self._patience.reader_is_due(time.monotonic()):
            await self._replace_reader()
            self._patience.reader_opened(time.monotonic())

    async def _replace_reader(self) -> None:
        """Replaces the reader by one that begins after the last entry; keeps the old one if there can be no other."""
        self._recalled_ahead = 0
        if self._reopen is None:
            return
        try:
            self.handle = await self._reopen(self.entries.last)
            self._receiver = Receiver(self.handle)
        except LogError as error:
            _log.info("A reader can't be opened again: %s", error.message)

    def _in_order(self, batch: Sequence[Received]) -> Sequence[Received]:
        """Merges a received batch with the recalled entries that precede it."""
        recalled = self._recalled
        if not recalled:
            return batch
        merged: list[Received] = []
        for received in batch:
            while recalled and recalled[0][0] <= received[0]:
                merged.append(recalled.popleft())
            merged.append(received)
        return merged

    async def _hand_over(self, batch: Iterable[Received], deliver: _Deliver, *, sure: bool = False) -> None:
        """Delivers messages, and before each of them what was missing there; ``sure``: nothing is missing.

        Raises:
            LogError: something was missed, or the log was replaced.
        """
        placed: list[Placed] = []
        came = 0
        continuity, entries = self.continuity, self.entries
        goes_on, delivered, ready, clock = continuity.goes_on, continuity.delivered, entries.ready, time.perf_counter
        until = clock() + SLICE_SECONDS
        for place, message in batch:
            if self._ledger is None or place[0] > self._ledger:
                if placed:
                    deliver(placed)
                    placed = []
                await self._requests.still_the_same()
                self._ledger = place[0]
            if not sure and not goes_on(place):
                if placed:
                    deliver(placed)
                    placed = []
                continuity.come_to(place)
                await self._make_sure(deliver)
            if not ready(message):
                await entries.prepare(message)
            entry = entries.entry(place, message)
            if entry is not None:
                delivered(place, readable=message is not None)
                placed.append(entry)
                came += 1
            if len(placed) >= _AT_A_TIME:
                deliver(placed)
                placed = []
            if clock() > until:
                if placed:
                    deliver(placed)
                    placed = []
                await asyncio.sleep(0)
                until = clock() + SLICE_SECONDS
        if placed:
            deliver(placed)
        if self._slices.ends(came):
            await asyncio.sleep(0)

    async def _make_sure(self, deliver: _Deliver) -> None:
        """Finds out whether something was missed, and delivers entries that were not handed over and still stand in the ledgers.

        Raises:
            LogError: something was missed and can't be had.
        """
        continuity = self.continuity
        while continuity.state is not State.WHOLE:
            missing = await self._requests.advance(continuity)
            if missing:
                await self._hand_over(missing, deliver, sure=True)
                self._recalled_ahead += len(missing)
                continuity.recalled(some=True)
        unreadable, continuity.unreadable = continuity.unreadable, ()
        await self._hand_over([(place, None) for place in unreadable], deliver, sure=True)
