"""So many a second, on average, of what all namespaces of a server do together."""

from __future__ import annotations

BURST_SECONDS = 1.0
"""So many seconds' worth may be done at once after a quiet time."""


class Rate:
    """When the next may be done."""

    def __init__(self, per_second: float) -> None:
        """``per_second``: the most in a second, on average."""
        self._interval = 1 / per_second
        self._tolerance = max(BURST_SECONDS - self._interval, 0.0)
        self._next = 0.0
        """When the next would be done if they came evenly."""

    def early(self, now: float) -> float:
        """How many seconds it is too early for the next; 0 or less: it is not. ``now`` is monotonic seconds."""
        return self._next - self._tolerance - now

    def take(self, now: float) -> float:
        """The next is done, or will be as soon as it may: in how many seconds that is."""
        early = self.early(now)
        self._next = max(self._next, now) + self._interval
        return max(early, 0.0)
