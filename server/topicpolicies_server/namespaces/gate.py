"""The gate that every repair of a server passes: it bounds how many are published a second, and can be shut.

No repair is lost at the gate. Repairs wait, the oldest first, and one that is not needed any more leaves without using up the rate. The
bound keeps a surprise (a broker that falls far behind, another program that rewrites documents) from becoming a storm; shutting the gate is
for an operator who wants to look first. Heads, and with them all answers and watches, are right all the while: it is the brokers that go on
showing what is in the log.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Protocol

from ..core.names import PolicyKey
from .rate import Rate


class Visitor(Protocol):
    """A part that has repairs to publish."""

    def proceed(self, key: PolicyKey) -> bool:
        """Publishes the repair of a key, whose turn it is. Returns whether something was published."""


class Gate:
    """Lets repairs of all namespaces through, at a bounded rate."""

    def __init__(self, loop: asyncio.AbstractEventLoop, per_second: float, *, paused: bool = False) -> None:
        """Begins without repairs.

        Args:
            loop: the event loop, whose clock counts.
            per_second: the most repairs in a second, on average.
            paused: whether the gate is shut at first.
        """
        self._loop = loop
        self._rate = Rate(per_second)
        self._paused = paused
        self._waiting: OrderedDict[tuple[Visitor, PolicyKey], None] = OrderedDict()  # a dict is slow to find its first entry
        self._timer: asyncio.TimerHandle | None = None

    @property
    def paused(self) -> bool:
        """Whether the gate is shut."""
        return self._paused

    @property
    def waiting(self) -> int:
        """How many repairs wait at the gate."""
        return len(self._waiting)

    def pause(self) -> None:
        """Shuts the gate. What has passed is not called back."""
        self._paused = True
        self._stop_timer()

    def resume(self) -> None:
        """Opens the gate again."""
        self._paused = False
        self._admit()

    def enter(self, visitor: Visitor, key: PolicyKey) -> None:
        """Adds a repair that is ready; its visitor's ``proceed`` is called when it may pass, perhaps before this returns."""
        self._waiting[visitor, key] = None
        self._admit()

    def leave(self, visitor: Visitor, key: PolicyKey) -> None:
        """Removes a repair that is not needed any more."""
        self._waiting.pop((visitor, key), None)

    def close(self) -> None:
        """Forgets the repairs that wait: nothing passes any more."""
        self._waiting.clear()
        self._stop_timer()

    def _admit(self) -> None:
        while self._waiting and not self._paused and self._timer is None:
            now = self._loop.time()
            early = self._rate.early(now)
            if early > 1e-9:
                self._timer = self._loop.call_later(early, self._on_time)
                return
            (visitor, key), _ = self._waiting.popitem(last=False)
            if visitor.proceed(key):
                self._rate.take(now)

    def _on_time(self) -> None:
        self._timer = None
        self._admit()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
