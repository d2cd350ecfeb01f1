"""A rate limit, with bursts, for something that all namespaces of a server do."""

from __future__ import annotations

BURST_SECONDS = 1.0
"""The burst after a quiet time, in seconds' worth of the rate."""


class Rate:
    """Says when the next of a series of actions may be done."""

    def __init__(self, per_second: float) -> None:
        """``per_second``: the most actions in a second, on average."""
        self._interval = 1 / per_second
        self._tolerance = max(BURST_SECONDS - self._interval, 0.0)
        self._next = 0.0
        """When the next action would be done if they came evenly."""

    def early(self, now: float) -> float:
        """Returns by how many seconds it is too early for the next action; 0 or less: it is not. ``now`` is monotonic seconds."""
        return self._next - self._tolerance - now

    def take(self, now: float) -> float:
        """Counts an action that is done now or as soon as it may be. Returns in how many seconds that is."""
        early = self.early(now)
        self._next = max(self._next, now) + self._interval
        return max(early, 0.0)
