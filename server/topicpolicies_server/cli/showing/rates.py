"""How often things change: decayed rates of named things, of which a bounded number is kept.

Each change weighs 1 as it comes, and e times less after each ``MEAN_SECONDS``. The rate is the weight by the time over which it was
gathered: while less than ``MEAN_SECONDS`` have been looked at that is their mean, after that mostly the last ``MEAN_SECONDS`` count. Nobody
is asked for the time here: it is given, in seconds, and does not go back.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

MEAN_SECONDS = 30.0
"""After so long without a change a rate is e times smaller."""
MOST_NAMES = 10_000
_SHARE = 10
"""Where there are too many, one in so many goes."""


class Last(NamedTuple):
    """The last change of something."""

    time: datetime
    """By its writer's word, or when it came; in UTC."""
    actor: str = ""
    """Who asked for it; empty if nobody said."""
    reason: str = ""
    """Why; empty if nobody said."""


class Row(NamedTuple):
    """How often something changes."""

    name: str
    rate: float
    """Changes in a second."""
    changes: int
    """Since it is kept."""
    last: Last


@dataclass(slots=True)
class _Count:
    weight: float
    at: float
    """As of when that is its weight."""
    changes: int
    last: Last


class Rates:
    """The rates of named things."""

    def __init__(self, most: int = MOST_NAMES) -> None:
        """Nothing has changed.

        Args:
            most: how many names are kept; for others those that change most slowly are let go.
        """
        self._most = most
        self._counts: dict[str, _Count] = {}
        self.let_go = 0
        """How many names were let go."""

    def __len__(self) -> int:
        return len(self._counts)

    def count(self, name: str, now: float, last: Last) -> None:
        """Something has changed."""
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
        """Those that change most often, the fastest first.

        Args:
            now: the time.
            since: since when changes were counted.
            most: how many.
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
