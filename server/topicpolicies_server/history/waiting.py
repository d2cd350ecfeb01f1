"""What waits to be written into a history, and who waits for that.

Events wait in their order, and are bounded in bytes. However long nothing can be written, nothing else grows: until when a log was followed
is kept once for each namespace, and whoever asks is told, one way or the other, and forgotten.

Two threads use it: the loop's adds, the writer's takes away. Each step of either is a single operation of a collection.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from .entries import Followed, Gap, Noted, SetBack, weight

Unwritten: TypeAlias = Mapping[str, int]
"""By namespace: the time (ms) of the earliest event that could not be written."""
Item: TypeAlias = Noted | Gap | Followed | SetBack
"""What is written."""


_GRAIN_SECONDS = 1.0


class Round(NamedTuple):
    """What there was when the writer began a round."""

    asking: Sequence[asyncio.Future[Unwritten]]
    """Who asked until then: whatever was noted before is among the items."""
    items: int
    """How many waited."""


class Waiting:
    """What waits."""

    def __init__(self, most_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        """``most_bytes``: events that may wait, by estimate; ``clock``: seconds."""
        self.most_bytes = most_bytes
        self._clock = clock
        self._items: deque[Item] = deque()
        self._followed: dict[str, Followed] = {}
        self._asking: set[asyncio.Future[Unwritten]] = set()
        self._added = 0
        """Bytes that were ever noted; only the loop's thread writes it."""
        self._taken = 0
        """Bytes that were ever written; only the writer's thread writes it."""
        self._noted = self._done = 0
        """The same in events."""
        self._moments: deque[tuple[int, float]] = deque()
        """Before how many events were noted at which moments, about one in ``_GRAIN_SECONDS``: from the one that has waited longest."""
        self._unwritten: dict[str, int] = {}
        """Of the items that were looked at since something was written; the writer's thread has this, and their number."""
        self._looked_at = 0

    # --- on the loop's thread -----------------------------------------------------------------------------------

    def note(self, noted: Sequence[Noted]) -> int:
        """Adds events, as many of the first as there is room for. Returns how many."""
        room = self.most_bytes - (self._added - self._taken)
        sizes = list(map(weight, noted))
        if sum(sizes) > room:
            count = sum(1 for upto in accumulate(sizes) if upto <= room)
            noted, sizes = noted[:count], sizes[:count]
        now = self._clock()
        if noted and not (self._moments and now - self._moments[-1][1] < _GRAIN_SECONDS):
            self._moments.append((self._noted, now))
        self._added += sum(sizes)
        self._noted += len(noted)
        self._items.extend(noted)
        return len(noted)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def bytes(self) -> int:
        """What waits, by estimate; any thread may ask."""
        return max(0, self._added - self._taken)

    def seconds(self) -> float:
        """For how long the event has waited that came first, at most a second more; 0: none waits. Any thread may ask."""
        done = self._done
        if self._noted <= done:
            return 0.0
        now = since = self._clock()
        for before, moment in list(self._moments):
            if before > done:
                break
            since = moment
        return now - since

    def tell(self, what: Gap | Followed | SetBack) -> None:
        """Adds what is said rarely, however much waits."""
        if isinstance(what, Followed):
            self._followed[what.namespace] = what
            return
        if isinstance(what, SetBack):
            known = self._followed.pop(what.stream.namespace, None)
            if known is not None:
                self._followed[known.namespace] = known._replace(until=min(known.until, what.now))
        self._items.append(what)

    def ask(self, done: asyncio.Future[Unwritten]) -> None:
        """Somebody wants to know when all that was noted is written, or that it can't be."""
        self._asking.add(done)
        done.add_done_callback(self._asking.discard)

    # --- on the writer's thread -----------------------------------------------------------------------------------

    @property
    def empty(self) -> bool:
        """Whether nothing waits, and nobody."""
        return not (self._items or self._followed or self._asking)

    def begin_round(self) -> Round:
        """What there is. Until when logs were followed comes behind the items, because it is true once they are written."""
        asking = self.asking()
        for name in list(self._followed):
            followed = self._followed.pop(name, None)
            if followed is not None:
                self._items.append(followed)
        return Round(asking, len(self._items))

    def asking(self) -> list[asyncio.Future[Unwritten]]:
        """Who has asked and was not told yet."""
        return list(self._asking)

    def first(self, most: int) -> list[Item]:
        """The items that have waited longest."""
        return [self._items[index] for index in range(min(most, len(self._items)))]

    def written(self, count: int) -> None:
        """So many of the first items wait no more."""
        items = [self._items.popleft() for _ in range(count)]
        sizes = [weight(item) for item in items if isinstance(item, Noted)]
        self._done += len(sizes)
        moments = self._moments
        while len(moments) > 1 and moments[1][0] <= self._done:
            moments.popleft()
        self._taken += sum(sizes)
        self._unwritten, self._looked_at = {}, 0

    def unwritten(self) -> Unwritten:
        """What waits, by namespace. Costs as much as came since it was asked last."""
        for index in range(self._looked_at, len(self._items)):
            item = self._items[index]
            if isinstance(item, Noted):
                name = item.stream.namespace
                self._unwritten[name] = min(item.at, self._unwritten.get(name, item.at))
            self._looked_at = index + 1
        return dict(self._unwritten)
