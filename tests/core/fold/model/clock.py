"""Simulated time: actions run in the order of their times; those of one time run in the order in which they were added."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Clock:
    """Milliseconds since 1970, starting well after W."""

    def __init__(self, now: int = 1_000_000) -> None:
        self.now = now
        self._order = itertools.count()
        self._actions: list[tuple[int, int, Callable[[], None]]] = []

    def after(self, delay: int, action: Callable[[], None]) -> None:
        """Runs an action some milliseconds from now."""
        heapq.heappush(self._actions, (self.now + max(delay, 0), next(self._order), action))

    def run(self, until: int | None = None) -> None:
        """Runs all actions up to a time; without one, until there are none."""
        while self._actions and (until is None or self._actions[0][0] <= until):
            self.now, _, action = heapq.heappop(self._actions)
            action()
        if until is not None:
            self.now = max(self.now, until)
