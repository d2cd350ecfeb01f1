"""One partition of a change log, read from its beginning on and handed over in batches.

A batch is what has come meanwhile, taken within a slice of time so that the event loop is never held; the rest of the time the library's
own queue fills up and the broker stops sending. Nothing else bounds what is in flight, and nothing else needs to.

**Where the beginning ends.** Reaching the entry that was the last at opening ends it. But that entry may never come, because compaction
removed it, and the library's ``has_message_available`` has been known to say yes for ever. So whenever nothing comes, the library is asked;
if it still says yes, the broker is asked whether it has sent everything; and if neither helps for a while, the log is lost rather than
taken for read.

**Where the log ends later** is asked for by whoever must know everything that was written by then (``end``). What stands there may never
come either: a marker, an entry that compaction was faster to remove, a ledger without entries. So if nothing comes while something should,
the broker is asked in the same way; and if it has sent everything, ``continuity`` says whether something was missed.

**A new ledger** may be that of another log, which was created in the place of this one. So before anything of it is handed over, the broker
is asked whether the log is still the same. So it is where an end counts as reached though it did not come: it may be gone with its log.

**A broker that sends nothing** though there is something to send is given another reader (``quiet``), which goes on where this one stands.
So is one that would now send much of what was just read as it was, because a compaction had erased it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ....core.policies.events import Placed, Position
from ....core.reading.unfolded import Sealed
from ....core.reasons import Reason
from ...change_log import LogError
from ..ids import NOWHERE, MessageId, border_of
from .continuity import Continuity, State
from .entries import Entries
from .patience import Patience
from .questions import Questions
from .receiving import SLICE_SECONDS, Received, Receiver, Slices

_log = logging.getLogger(__name__)

_QUIET_SECONDS = 0.1
_OVERDUE_SECONDS = 0.7
_WORTH_A_READER = 1_000
"""If so many entries were read beside the reader, it is faster to open it anew behind them than to have it given what is left of them."""


class Goal(NamedTuple):
    """Where a partition's beginning ends, and who can tell when the last entry does not come."""

    last: MessageId | None
    """The last entry at opening; None: there was none."""
    sent: Callable[[MessageId], Awaitable[bool]]
    """Asks the broker whether it has sent everything up to an entry; may raise ``LogError``."""
    patience_seconds: float
    """How long nothing may come before the reader gives up."""
    fresh_ledger: int | None = None
    """If nothing was ever written: the ledger that the first entry goes to."""


class _Delivery:
    """Who takes what is read."""

    __slots__ = ("decoded", "unopened")

    def __init__(self, decoded: Callable[[Sequence[Placed]], None], unopened: Callable[[Sequence[Placed | Sealed]], None] | None) -> None:
        self.decoded = decoded
        self.unopened = unopened
        """For as long as the beginning is read; None: the same as the other one."""

    def __call__(self, entries: Sequence[Any]) -> None:
        """Hands entries over."""
        (self.unopened or self.decoded)(entries)


class PartitionReader:
    """Reads one partition.

    Attributes:
        handle: pulsar-client's reader. Whoever made it closes it.
        continuity: whether something was missed.
        entries: what was read.
    """

    def __init__(
        self,
        handle: Any,
        entries: Entries,
        goal: Goal,
        continuity: Continuity,
        questions: Questions,
        recalled: Sequence[Received] = (),
        reopen: Callable[[MessageId], Awaitable[Any]] | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            handle: pulsar-client's reader.
            entries: decodes what is read.
            goal: where the beginning ends.
            continuity: knows what was compacted away at the opening.
            questions: asks what that has to know.
            recalled: entries up to where the log is compacted, without a hole, to be handed over among the compacted ones.
            reopen: gives another handle in place of this one, which begins at an entry; it may raise ``LogError``. None: there is none.
        """
        self.handle = handle
        self.entries = entries
        self.continuity = continuity
        self._goal = goal
        self._questions = questions
        self._receiver = Receiver(handle)
        self._recalled = deque(recalled)
        self._reopen = reopen
        self._patience = Patience(time.monotonic(), goal.patience_seconds)
        self._caught_up = False
        self._slices = Slices()
        self._beside = 0
        """How many entries were read beside the reader and ahead of it."""
        self._given = NOWHERE
        """The furthest place of what came."""
        self._expected = NOWHERE
        """The furthest end of the partition that was told of."""
        self._ledger = goal.fresh_ledger if goal.last is None else goal.last.ledger
        """The last one that is known to be this log's; None: there is none."""

    @property
    def connected(self) -> bool:
        """Whether there is a connection to the broker now. The library restores lost ones by itself."""
        return bool(self.handle.is_connected())

    async def run(
        self,
        deliver: Callable[[Sequence[Placed]], None],
        caught_up: Callable[[], None],
        unopened: Callable[[Sequence[Placed | Sealed]], None] | None = None,
    ) -> None:
        """Reads until it is cancelled.

        Args:
            deliver: takes events, in order; it must not raise.
            caught_up: called once.
            unopened: takes what comes before that, decoded or not; None: ``deliver`` does, decoded.

        Raises:
            LogError: reading can't go on.
        """
        await self._run(_Delivery(deliver, unopened), caught_up)

    async def _run(self, deliver: _Delivery, caught_up: Callable[[], None]) -> None:
        goal = self._goal
        self._patience.ended(time.monotonic())
        while True:
            batch = self._receiver.take()
            if batch:
                await self._hand_over(self._in_order(batch), deliver)
                if batch[-1][0] > self._given:
                    self._given = batch[-1][0]
                    self._patience.ended(time.monotonic())
                if self._given >= self.entries.last:
                    self._beside = 0
                elif self._beside >= _WORTH_A_READER:
                    await self._turn_to_another()
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
                raise LogError(
                    Reason.LOG_STUCK, f"Nothing came for {goal.patience_seconds:g} s, though the change log goes on to {goal.last}."
                )

    def end(self, last: MessageId) -> Position:
        """The end of the partition, of which the broker has just said that this is its last entry: one that is read, or will be."""
        if last > self.continuity.whole or not self._caught_up:
            self._expect(last)
            return border_of(last)
        last = min(last, self.entries.last)  # what stands between is known, and is nothing to be read
        return "" if last == NOWHERE else border_of(last)

    def _expect(self, last: MessageId) -> None:
        """The partition goes on up to there, or it is made sure of what stood there."""
        if self._caught_up and not self._is_behind:
            self._patience.ended(time.monotonic())
            self._receiver.interrupt()
        self._expected = max(self._expected, last)

    @property
    def _is_behind(self) -> bool:
        return self._expected > self.continuity.whole

    async def _ask_what_is_missing(self, deliver: _Delivery) -> None:
        """Nothing comes, though the partition was said to go on: makes sure of what stands there, once it can't be on its way any more."""
        expected = self._expected
        try:
            sent = self.connected and await self._goal.sent(expected)
        except LogError as error:
            _log.info("The broker can't say where reading stands: %s", error.message)
            sent = False
        if not sent:
            await self._open_anew()
            return
        if await self._receiver.wait(_QUIET_SECONDS) or not self.handle.is_connected():
            return
        await self._ended(expected, deliver)

    async def keep_up(self) -> None:
        """Learns of compactions (``continuity``); called from time to time. One may have overtaken the reader, and left nothing to come.

        Raises:
            LogError: there is no answer.
        """
        if self._caught_up and (horizon := await self._questions.keep_up(self.continuity)) > self.continuity.whole:
            self._expect(horizon)

    async def _begin(self, target: MessageId, deliver: _Delivery) -> bool:
        """Whether the beginning is over, and no compaction has moved its end; from then on, what was compacted away is missed."""
        end = max(self.entries.last, target)
        if end is not NOWHERE:
            await self._ended(end, deliver)
        elif self._goal.fresh_ledger is not None:
            self.continuity.fresh(self._goal.fresh_ledger)
        self._caught_up = self.continuity.begun
        if self._caught_up:
            deliver.unopened = None
        return self._caught_up

    async def _ended(self, end: MessageId, deliver: _Delivery) -> None:
        """Nothing more comes up to an entry: makes sure of what stands there, and that nothing is because it is another log's place."""
        self.continuity.ended(end)
        await self._make_sure(deliver)
        if self.entries.last < end:
            await self._questions.still_the_same()

    async def _is_at_end(self) -> bool:
        """Whether nothing more is to come, asked while nothing comes."""
        if await self._receiver.has_more():
            if not self._patience.broker_is_due(time.monotonic()):
                return False
            try:
                sent = self._goal.last is None or await self._goal.sent(self._goal.last)
            except LogError as error:
                _log.info("The broker can't say where reading stands: %s", error.message)
                sent = False
            self._patience.broker_answered(time.monotonic())
            if not sent:
                await self._open_anew()
                return False
            _log.warning(
                "pulsar-client says that there is more to read, the broker that it sent all; nothing comes, so the broker is right."
            )
        # What was on its way between two threads when the question was answered has come by now.
        return not await self._receiver.wait(_QUIET_SECONDS)

    async def _open_anew(self) -> None:
        """Gives the broker, which has something to send, another reader to send it to, if it is time to."""
        if self.connected and not self._receiver.has_some and self._patience.reader_is_due(time.monotonic()):
            await self._turn_to_another()
            self._patience.reader_opened(time.monotonic())

    async def _turn_to_another(self) -> None:
        """Goes on with another reader, which begins behind what was read last; or with this one, if there is no other."""
        self._beside = 0
        if self._reopen is None:
            return
        try:
            self.handle = await self._reopen(self.entries.last)
            self._receiver = Receiver(self.handle)
        except LogError as error:
            _log.info("A reader can't be opened anew: %s", error.message)

    def _in_order(self, batch: Sequence[Received]) -> Sequence[Received]:
        """What was received, and before it what was recalled that goes before it."""
        recalled = self._recalled
        if not recalled:
            return batch
        merged: list[Received] = []
        for received in batch:
            while recalled and recalled[0][0] <= received[0]:
                merged.append(recalled.popleft())
            merged.append(received)
        return merged

    async def _hand_over(self, batch: Iterable[Received], deliver: _Delivery, *, sure: bool = False) -> None:
        """Hands messages over, and before each what is missing there; ``sure``: nothing is.

        Raises:
            LogError: something was missed, or the log is another one by now.
        """
        placed: list[Any] = []
        continuity, entries = self.continuity, self.entries
        goes_on, delivered, ready, clock = continuity.goes_on, continuity.delivered, entries.ready, time.perf_counter
        entry_of = entries.entry if deliver.unopened is None else entries.sealed
        until = clock() + SLICE_SECONDS
        for place, message in batch:
            if self._ledger is None or place[0] > self._ledger:
                if placed:
                    deliver(placed)
                    placed = []
                await self._questions.still_the_same()
                self._ledger = place[0]
            if not sure and not goes_on(place):
                if placed:
                    deliver(placed)
                    placed = []
                continuity.come_to(place)
                await self._make_sure(deliver)
            if not ready(message):
                await entries.prepare(message)
            entry = entry_of(place, message)
            if entry is not None:
                delivered(place, readable=message is not None)
                placed.append(entry)
            if clock() > until:
                if placed:
                    deliver(placed)
                    placed = []
                await asyncio.sleep(0)
                until = clock() + SLICE_SECONDS
        if placed:
            deliver(placed)
        if self._slices.ends(len(placed)):
            await asyncio.sleep(0)

    async def _make_sure(self, deliver: _Delivery) -> None:
        """Finds out whether something was missed, and hands over what was not handed over where it stands.

        Raises:
            LogError: something was missed, and can't be had.
        """
        continuity = self.continuity
        while continuity.state is not State.WHOLE:
            missing = await self._questions.ask(continuity)
            if missing:
                await self._hand_over(missing, deliver, sure=True)
                self._beside += len(missing)
                continuity.recalled(some=True)
        unreadable, continuity.unreadable = continuity.unreadable, ()
        await self._hand_over([(place, None) for place in unreadable], deliver, sure=True)
