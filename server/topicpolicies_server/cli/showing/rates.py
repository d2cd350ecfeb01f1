"""How often named things change: exponentially decayed rates of a bounded number of names.

Each change weighs 1 when it is counted, and e times less after each ``MEAN_SECONDS``. The rate is the sum of the weights, divided by the
time observed, each second of which decays in the same way: at first the mean over the time observed, later mostly that of the last
``MEAN_SECONDS``. The caller passes the time, in seconds, which must not go back.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

MEAN_SECONDS = 30.0
"""After this time without a change a rate is e times smaller."""
MOST_NAMES = 10_000
_SHARE = 10
"""When room is needed, one in this many names is dropped."""


class Last(NamedTuple):
    """The last change of a name."""

    time: datetime
    """When the change was published, by its writer's clock, or else when it arrived; in UTC."""
    actor: str = ""
    """Who requested the change; empty: unknown."""
    reason: str = ""
    """Why the change was requested; empty: unknown."""


class Row(NamedTuple):
    """How often a name changes."""

    name: str
    rate: float
    """Changes per second."""
    changes: int
    """How many changes were counted since the name was added."""
    last: Last


@dataclass(slots=True)
class _Count:
    weight: float
    at: float
    """The time at which ``weight`` was computed."""
    changes: int
    last: Last


class Rates:
    """Counts the changes of named things, and computes their rates."""

    def __init__(self, most: int = MOST_NAMES) -> None:
        """Begins without names.

        Args:
            most: how many names are kept; for others those that change most slowly are dropped.
        """
        self._most = most
        self._counts: dict[str, _Count] = {}
        self.let_go = 0
        """How many names were dropped."""

    def __len__(self) -> int:
        return len(self._counts)

    def count(self, name: str, now: float, last: Last) -> None:
        """Counts a change of a name."""
        count = self._counts.get(name)
        if count is not None:
            count.weight, count.at = _decayed(count, now) + 1, now
            count.changes += 1
            count.last = last
            return
        if len(self._counts) >= self._most:
            self._make_room(now)
        self._counts[name] = _Count(1.0, now, 1, last)

    def rows(self, now: float, since: float, most: int) -> list[Row]:
        """Returns the names that change most often, the fastest first.

        Args:
            now: the time.
            since: since when changes were counted.
            most: how many names to return.
        """
        over = MEAN_SECONDS * -math.expm1(-(now - since) / MEAN_SECONDS)
        if over <= 0:
            return []
        rows = (Row(name, _decayed(count, now) / over, count.changes, count.last) for name, count in self._counts.items())
        return heapq.nsmallest(most, rows, key=lambda row: (-row.rate, row.name))

    def _make_room(self, now: float) -> None:
        slowest = heapq.nsmallest(self._most // _SHARE or 1, self._counts, key=lambda name: _decayed(self._counts[name], now))
        for name in slowest:
            del self._counts[name]
        self.let_go += len(slowest)


def _decayed(count: _Count, now: float) -> float:
    return count.weight * math.exp((count.at - now) / MEAN_SECONDS)
