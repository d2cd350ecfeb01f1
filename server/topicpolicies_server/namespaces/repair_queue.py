"""The queue of all repairs of a server, which bounds their rate.

A surprise (a broker that falls far behind, another program that rewrites documents) must not become a storm of repairs. An operator who
wants to look first may pause them. No repair is lost meanwhile. Heads, and with them all answers and watches, are right all the while: it
is brokers that go on showing what is in the log.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from typing import Protocol

from ..core.names import PolicyKey
from .rate import Rate

_SLACK = 1_000
"""How many entries the queue may have of repairs that are not waited for any more, besides as many as there are others."""


class Owner(Protocol):
    """The repairs of one namespace."""

    def counts(self, key: PolicyKey | None, number: int) -> bool:
        """Returns whether an entry of the queue still counts."""

    def publish(self, key: PolicyKey | None, number: int) -> bool:
        """Publishes the repair of a key, if its entry still counts. Returns whether something was published."""


class RepairQueue:
    """The repairs of all namespaces of a server, by when they may be published, at a bounded rate."""

    def __init__(self, loop: asyncio.AbstractEventLoop, per_second: float, *, paused: bool = False) -> None:
        """Begins without repairs.

        Args:
            loop: the event loop, whose clock counts.
            per_second: the most repairs in a second, on average.
            paused: whether nothing is published until ``resume``.
        """
        self._loop = loop
        self._rate = Rate(per_second)
        self.paused = paused
        """Whether repairs are paused."""
        self._heap: list[tuple[float, int, Owner, PolicyKey | None]] = []
        """Entries by time; also of repairs that are not waited for any more. The number tells an entry from others of its key."""
        self._numbers = itertools.count(1)
        self._most = _SLACK
        """With more entries than this, it is worth looking for those that are not waited for any more."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        """When the timer runs. Not every loop's handles know: uvloop's for what is due at once do not."""

    @property
    def waiting(self) -> int:
        """How many repairs wait only because of the rate, or because repairs are paused. Safe to call from other threads."""
        now = self._loop.time()
        return sum(at <= now and owner.counts(key, number) for at, number, owner, key in list(self._heap))

    def add(self, seconds: float, owner: Owner, key: PolicyKey | None) -> int:
        """Has ``owner.publish`` called with a key after so many seconds, or later if the rate demands it. Returns the entry's number."""
        number = next(self._numbers)
        heapq.heappush(self._heap, (self._loop.time() + seconds, number, owner, key))
        if len(self._heap) > self._most:
            self._heap = [entry for entry in self._heap if entry[2].counts(entry[3], entry[1]) or entry[1] == number]
            heapq.heapify(self._heap)
            self._most = 2 * len(self._heap) + _SLACK
        self._set_timer()
        return number

    def pause(self) -> None:
        """Publishes nothing until ``resume``."""
        self.paused = True
        self._stop_timer()

    def resume(self) -> None:
        """Goes on after ``pause``."""
        self.paused = False
        self._set_timer()

    def close(self) -> None:
        """Forgets all repairs."""
        self._heap.clear()
        self._stop_timer()

    def _set_timer(self) -> None:
        if self.paused or not self._heap:
            return
        at = max(self._heap[0][0], self._rate.next_at)
        if self._timer is None or at < self._timer_at:
            self._stop_timer()
            self._timer_at = at
            self._timer = self._loop.call_at(at, self._publish)

    def _publish(self) -> None:
        self._stop_timer()
        while self._heap and not self.paused and max(self._heap[0][0], self._rate.next_at) <= (now := self._loop.time()):
            _, number, owner, key = heapq.heappop(self._heap)
            if owner.publish(key, number):
                self._rate.take(now)
        self._set_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
