"""Histograms of durations. Counting one costs a search among a few bounds and two additions, and takes no lock.

One thread counts; other threads may read, and get the counts of a moment ago.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The default upper bounds of the buckets, in seconds. Durations above the last one are counted in one more bucket."""


class Histogram:
    """Counts durations in buckets."""

    __slots__ = ("bounds", "counts", "seconds")

    def __init__(self, bounds: Sequence[float] = BOUNDS) -> None:
        """Starts with empty buckets. ``bounds``: in seconds, ascending."""
        self.bounds = tuple(bounds)
        """The upper bounds of all buckets but the last one, which has none."""
        self.counts = [0] * (len(self.bounds) + 1)
        """The number of durations in each bucket."""
        self.seconds = 0.0
        """The sum of all durations."""

    def count(self, seconds: float) -> None:
        """Counts one duration."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.seconds += seconds

    def cumulated(self) -> list[tuple[str, float]]:
        """Each bucket's upper bound as text, with the number of durations up to it; the last bound, ``+Inf``, counts all of them."""
        counts, upto, rows = list(self.counts), 0, []
        for bound, count in zip((*self.bounds, None), counts, strict=True):
            upto += count
            rows.append(("+Inf" if bound is None else repr(bound), float(upto)))
        return rows
