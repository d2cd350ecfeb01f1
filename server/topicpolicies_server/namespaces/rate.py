"""A rate limit, with bursts, for something that all namespaces of a server do."""

from __future__ import annotations

BURST_SECONDS = 1.0
"""The burst after a quiet time, in seconds' worth of the rate."""


class Rate:
    """Says when the next of a series of actions may be done. Times are seconds of a monotonic clock."""

    def __init__(self, per_second: float) -> None:
        """``per_second``: the most actions in a second, on average."""
        self._interval = 1 / per_second
        self._tolerance = max(BURST_SECONDS - self._interval, 0.0)
        self._next = 0.0
        """When the next action would be done if they came evenly."""

    @property
    def next_at(self) -> float:
        """From when on the next action may be done."""
        return self._next - self._tolerance

    def take(self, now: float, times: int = 1) -> float:
        """Counts actions that are done now, or as soon as they may be. Returns in how many seconds that is."""
        wait = max(self.next_at - now, 0.0)
        self._next = max(self._next, now) + times * self._interval
        return wait

    def give_back(self, times: int) -> None:
        """Takes back the count of actions that were not done."""
        self._next -= times * self._interval
