"""One partition of a log in ledgers, as one process reads it: entries pass through the Pulsar log's own continuity check.

Entries are taken from the broker only when they are due, so a compaction may erase them first. The requests about a gap are those of the
Pulsar log; their answers take time, or do not arrive.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

from topicpolicies_server.core.policies.events import Placed, Position
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar.admin.topics import Compaction
from topicpolicies_server.logs.pulsar.ids import NOWHERE, MessageId, border_of, message_id_of, place_of, position_of
from topicpolicies_server.logs.pulsar.reading.continuity import Continuity, State
from topicpolicies_server.logs.pulsar.reading.continuity_requests import ContinuityRequests

from .faults import Faults
from .ledgers import Ledgers

T = TypeVar("T")

_OVERDUE_SECONDS = 0.7
"""How long nothing may arrive although the partition has more entries."""
_REFUSED_SECONDS = 0.2
"""After how long a request fails without an answer."""
AT_ONCE = 4
"""How many entries are taken at once, and how many entries of a gap are read at once."""

Received: TypeAlias = tuple[MessageId, Placed | None]
"""A place and its entry; None: the entry is not handed over."""


class Asking:
    """Requests to a broker about one partition, which take time or fail."""

    def __init__(self, namespace: str, ledgers: Ledgers, faults: Faults, counts: Counter[str], kept_back: set[MessageId]) -> None:
        """``kept_back``: the messages that were not handed over to this process; further ones are added."""
        self._kept_back = kept_back
        self.counts = counts
        self.ledgers = ledgers
        self.faults = faults
        self._namespace = namespace

    async def compaction(self) -> Compaction:
        """Returns how far the partition is compacted.

        Raises:
            LogError: there is no answer.
        """
        return await self._asked("compactions", lambda: self.ledgers.told)

    async def skipped(self, after: MessageId, before: MessageId) -> MessageId | None:
        """Returns the first message between two places.

        Raises:
            LogError: there is no answer.
        """
        return await self._asked("messages", lambda: self.ledgers.message(after, before))

    async def recall(self, after: MessageId, before: MessageId) -> Sequence[Received] | None:
        """Returns the first entries between two places, as they were written; None if they are not available."""
        try:
            found = await self._asked("entries", lambda: self.ledgers.between(after, before, AT_ONCE))
        except LogError:
            found = None
        self.counts["reading: stretches that can't be had"] += found is None
        self.counts["reading: entries read as they were"] += len(found or ())
        return found

    def handed_over(self, placed: Placed, beginning: MessageId) -> bool:
        """Returns whether an entry is handed over. One that was kept back is handed over when the log is opened again.

        The last entry always is, and so are those up to the opening's horizon (``beginning``): their loss can't be noticed.
        """
        place = message_id_of(placed.position)
        hidden = beginning < place != self.ledgers.last and place not in self._kept_back
        if not hidden or self.faults.handed_over(self._namespace, placed):
            return True
        self._kept_back.add(place)
        self.counts["reading: entries not handed over"] += 1
        return False

    async def _asked(self, what: str, answer: Callable[[], T]) -> T:
        self.counts[f"reading: questions for {what}"] += 1
        delay = self.faults.question_delay(self._namespace)
        if delay is None:
            self.counts["reading: questions without an answer"] += 1
            await asyncio.sleep(_REFUSED_SECONDS)
            raise LogError(LogState.UNREACHABLE, "There is no answer.")
        await asyncio.sleep(delay)
        found = answer()
        await asyncio.sleep(delay)  # the answer may be outdated by then
        return found


class LedgerReader:
    """Reads one partition.

    Attributes:
        continuity: decides whether an entry was missed.
    """

    def __init__(
        self,
        partition: int,
        asking: Asking,
        opening: Compaction,
        take: Callable[[Position], Sequence[Placed]],
        on_the_way: Callable[[], bool],
        not_handed_over: set[MessageId],
        stood: Position = "",
    ) -> None:
        """Reads nothing yet.

        Args:
            partition: the number of the partition.
            asking: sends requests.
            opening: how far the partition was compacted before anything was read, as the broker said.
            take: returns the broker's next entries after a position.
            on_the_way: returns whether existing entries are still in transit.
            not_handed_over: the messages that were not handed over when this process had the log open before.
            stood: the position up to which everything was read before; "" is the beginning.
        """
        self.continuity = Continuity(opening, not_handed_over, place_of(stood))
        self._partition = partition
        self._asking = asking
        self._counts = asking.counts
        self._requests = ContinuityRequests(asking.compaction, asking.skipped, asking.recall)
        self._take = take
        self._on_the_way = on_the_way
        self._beginning = opening.horizon or NOWHERE
        self._goal = asking.ledgers.last
        self._fresh = asking.ledgers.fresh
        horizon = opening.horizon if opening.ledger != -1 and not stood else None
        self._recalled = deque((place, placed) for place, placed in asking.ledgers.upto(horizon)) if horizon else deque()
        self._come = asyncio.Event()
        self._upto: Position = ""
        """The position up to which existing entries are due."""
        self._newest_received: Position = stood
        """The position up to which entries were taken."""
        self._begun = False
        """Whether everything that existed at the opening is due."""
        self._caught_up = False
        self._last = place_of(stood)
        self._reported_end = NOWHERE
        """The furthest end that was reported."""

    def come(self, items: Sequence[Placed | None]) -> None:
        """Called when entries are due and may be taken; None: everything that existed at the opening is due."""
        for item in items:
            if item is None:
                self._begun = True
            else:
                self._upto = max(self._upto, item.position)
        self._come.set()

    def end(self) -> Position:
        """Returns the end of the partition: the place of an entry that was read or will be read."""
        last = self._asking.ledgers.last or NOWHERE
        if last > self.continuity.complete_upto or not self._caught_up:
            self._reported_end = max(self._reported_end, last)
            self._come.set()
            return border_of(last)
        last = min(last, self._last)
        return "" if last == NOWHERE else border_of(last)

    async def run(self, deliver: Callable[[Sequence[Placed]], None], caught_up: Callable[[], None]) -> None:
        """Reads until it is cancelled.

        Raises:
            LogError: an entry was missed.
        """
        while True:
            self._come.clear()
            taken = [placed for placed in self._take(self._newest_received) if placed.position <= self._upto]
            if taken:
                self._newest_received = taken[-1].position
                await self._hand_over(self._in_order([each for each in taken if self._asking.handed_over(each, self._beginning)]), deliver)
                continue
            target = max(self._goal or NOWHERE, self.continuity.moved_to)
            if self._begun and not self._caught_up and (self._last >= target or not self._on_the_way()):
                recalled, self._recalled = self._recalled, deque()
                await self._hand_over(recalled, deliver)
                await self._begin(target, deliver)
                if self.continuity.begun:
                    self._caught_up = True
                    caught_up()
                continue
            behind = self._caught_up and self._reported_end > self.continuity.complete_upto
            try:
                async with asyncio.timeout(_OVERDUE_SECONDS if behind else None):
                    await self._come.wait()
            except TimeoutError:
                if not self._on_the_way():
                    self._counts["reading: ends behind which something was missing"] += 1
                    self.continuity.ended(self._reported_end)
                    await self._make_sure(deliver)

    async def keep_up(self) -> None:
        """Requests how far the partition is compacted.

        Raises:
            LogError: there is no answer.
        """
        if self._caught_up and (horizon := await self._requests.keep_up(self.continuity)) > self.continuity.complete_upto:
            self._reported_end = max(self._reported_end, horizon)
            self._come.set()

    async def _begin(self, target: MessageId, deliver: Callable[[Sequence[Placed]], None]) -> None:
        end = max(self._last, target)
        if end is not NOWHERE:
            self.continuity.ended(end)
            await self._make_sure(deliver)
        elif self._fresh is not None:
            self.continuity.fresh(self._fresh)

    def _in_order(self, taken: Sequence[Placed]) -> Sequence[Received]:
        """Merges entries that were taken with recalled ones that precede them."""
        merged: list[Received] = []
        for placed in taken:
            place = message_id_of(placed.position)
            while self._recalled and self._recalled[0][0] <= place:
                merged.append(self._recalled.popleft())
            merged.append((place, placed))
        return merged

    async def _hand_over(self, batch: Iterable[Received], deliver: Callable[[Sequence[Placed]], None], *, sure: bool = False) -> None:
        for place, placed in batch:
            if not sure and not self.continuity.goes_on(place):
                self._counts["reading: gaps"] += 1
                self.continuity.come_to(place)
                await self._make_sure(deliver)
            if place > self._last:
                self._last = place
                self.continuity.delivered(place, readable=placed is not None)
                problem = "the client library does not hand it over"
                deliver([placed or Placed(self._partition, position_of(place), None, 0, "", problem)])

    async def _make_sure(self, deliver: Callable[[Sequence[Placed]], None]) -> None:
        continuity = self.continuity
        while continuity.state is not State.WHOLE:
            self._counts[f"reading: {continuity.state.name}"] += 1
            missing = await self._requests.advance(continuity)
            if missing:
                await self._hand_over(missing, deliver, sure=True)
                continuity.recalled(some=True)
        unreadable, continuity.unreadable = continuity.unreadable, ()
        self._counts["reading: entries that stayed away"] += len(unreadable)
        await self._hand_over([(place, None) for place in unreadable], deliver, sure=True)
