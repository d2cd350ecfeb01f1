"""Histograms of durations: counting one costs a search among a few bounds and two additions, and nothing is locked.

One thread counts; others may read, and get what was counted a moment ago.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds: the upper bounds of the buckets. What takes longer than the last one is in a bucket of its own."""


class Histogram:
    """How long something took, each time."""

    __slots__ = ("bounds", "counts", "seconds")

    def __init__(self, bounds: Sequence[float] = BOUNDS) -> None:
        """Nothing is counted yet.

        Args:
            bounds: upper bounds of the buckets, in seconds, ascending.
        """
        self.bounds = tuple(bounds)
        """Of all buckets but the last one."""
        self.counts = [0] * (len(self.bounds) + 1)
        """How many are in each bucket."""
        self.seconds = 0.0
        """All of them together."""

    def count(self, seconds: float) -> None:
        """It took so long once more."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.seconds += seconds

    def cumulated(self) -> list[tuple[str, float]]:
        """Each bucket's upper bound in words, and how many took no longer; the last one is all of them (``+Inf``)."""
        counts, upto, rows = list(self.counts), 0, []
        for bound, count in zip((*self.bounds, None), counts, strict=True):
            upto += count
            rows.append(("+Inf" if bound is None else repr(bound), float(upto)))
        return rows
