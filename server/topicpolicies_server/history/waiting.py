"""The queue of what is to be written into a history, and of the callers that wait until it is written.

Events wait in their order, bounded in bytes. However long nothing can be written, little else grows: for each namespace only the last time
until which its log was followed is kept, and each waiting caller gets an answer, one way or the other, and is forgotten.

Two threads use the queue without a lock: the event loop's adds, the writer's removes, and each step is a single operation of a collection.
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
"""An item that is to be written."""


BATCH_BYTES = 1 << 20
"""The most bytes of one commit, by estimate: the file and its write-ahead log exceed their bound by what one commit writes."""
_GRAIN_SECONDS = 1.0


class Round(NamedTuple):
    """What the queue held when the writer began a round."""

    asking: Sequence[asyncio.Future[Unwritten]]
    """The callers that waited by then: everything that was noted before they called is among the items."""
    items: int
    """How many items waited."""


class Waiting:
    """The items and callers that wait."""

    def __init__(self, most_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Creates an empty queue. ``most_bytes``: the bound on waiting events, by estimate; ``clock``: returns seconds."""
        self.most_bytes = most_bytes
        self._clock = clock
        self._items: deque[Item] = deque()
        self._followed: dict[str, Followed] = {}
        self._asking: set[asyncio.Future[Unwritten]] = set()
        self._added = 0
        """Bytes that were ever noted; only the event loop's thread writes this."""
        self._taken = 0
        """Bytes that were ever written; only the writer's thread writes this."""
        self._noted = self._done = 0
        """Events that were ever noted, and ever written; written by the same threads."""
        self._moments: deque[tuple[int, float]] = deque()
        """Moments at which events were noted, about one per ``_GRAIN_SECONDS``, each with the number of events noted before; the first is
        that of the event that has waited longest."""
        self._unwritten: dict[str, int] = {}
        """What ``unwritten`` found in the first ``_looked_at`` items; only the writer's thread uses both."""
        self._looked_at = 0

    # --- on the loop's thread -----------------------------------------------------------------------------------

    def note(self, noted: Sequence[Noted]) -> int:
        """Adds events, as many of the first as there is room for. Returns how many were added."""
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
        """The size of the waiting events, by estimate; any thread may read it."""
        return max(0, self._added - self._taken)

    def seconds(self) -> float:
        """Returns for how many seconds the first event has waited, at most one too many; 0: none waits. Any thread may call this."""
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
        """Adds a rare item, however much waits."""
        if isinstance(what, Followed):
            self._followed[what.namespace] = what
            return
        if isinstance(what, SetBack):
            known = self._followed.pop(what.stream.namespace, None)
            if known is not None:
                self._followed[known.namespace] = known._replace(until=min(known.until, what.now))
        self._items.append(what)

    def ask(self, done: asyncio.Future[Unwritten]) -> None:
        """Adds a future that is completed when everything noted so far is written, or when that has failed."""
        self._asking.add(done)
        done.add_done_callback(self._asking.discard)

    # --- on the writer's thread -----------------------------------------------------------------------------------

    @property
    def empty(self) -> bool:
        """Whether no item and no caller waits."""
        return not (self._items or self._followed or self._asking)

    def begin_round(self) -> Round:
        """Begins a round of the writer. The times until which logs were followed are put last: they hold once the events are written."""
        asking = self.asking()
        for name in list(self._followed):
            followed = self._followed.pop(name, None)
            if followed is not None:
                self._items.append(followed)
        return Round(asking, len(self._items))

    def asking(self) -> list[asyncio.Future[Unwritten]]:
        """Returns the futures of callers that have no answer yet."""
        return list(self._asking)

    def first(self, most: int) -> list[Item]:
        """Returns up to ``most`` items, those that have waited longest, and not many more than ``BATCH_BYTES`` of events."""
        found: list[Item] = []
        size = 0
        while len(found) < min(most, len(self._items)) and size < BATCH_BYTES:
            item = self._items[len(found)]
            size += weight(item) if isinstance(item, Noted) else 0
            found.append(item)
        return found

    def written(self, count: int) -> None:
        """Removes the first ``count`` items, which have been written."""
        items = [self._items.popleft() for _ in range(count)]
        sizes = [weight(item) for item in items if isinstance(item, Noted)]
        self._done += len(sizes)
        moments = self._moments
        while len(moments) > 1 and moments[1][0] <= self._done:
            moments.popleft()
        self._taken += sum(sizes)
        self._unwritten, self._looked_at = {}, 0

    def unwritten(self) -> Unwritten:
        """Returns the time of the earliest waiting event, by namespace. Costs only as much as came since the last call."""
        for index in range(self._looked_at, len(self._items)):
            item = self._items[index]
            if isinstance(item, Noted):
                name = item.stream.namespace
                self._unwritten[name] = min(item.at, self._unwritten.get(name, item.at))
            self._looked_at = index + 1
        return dict(self._unwritten)
