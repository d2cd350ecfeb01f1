"""A rate limit, with bursts, for something that all namespaces of a server do."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

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


class Turns:
    """Grants turns in the order of arrival, at a limited rate. A caller that does not need its turn any more uses up none of the rate."""

    def __init__(self, per_second: float) -> None:
        """``per_second``: the most actions in a second, on average."""
        self._rate = Rate(per_second)
        self._waiting: OrderedDict[asyncio.Future[bool], tuple[int, Callable[[], bool]]] = OrderedDict()
        """By the future of a turn, in order: how many actions it is for, and whether it is still needed."""
        self._timer: asyncio.TimerHandle | None = None

    async def come(self, times: int, wanted: Callable[[], bool]) -> bool:
        """Waits for the caller's turn.

        Args:
            times: how many actions the turn is for.
            wanted: returns whether the turn is still needed.

        Returns:
            Whether the turn was still needed, and so counts.
        """
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = times, wanted
        self._admit()
        try:
            return await turn
        finally:
            self._waiting.pop(turn, None)

    def _admit(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting and self._timer is None:
            turn, (times, wanted) = next(iter(self._waiting.items()))
            now, asked = loop.time(), not turn.done() and wanted()
            if asked and (early := self._rate.early(now)) > 1e-9:
                self._timer = loop.call_later(early, self._on_time)
                return
            del self._waiting[turn]
            if not turn.done():
                turn.set_result(asked)
            for _ in range(times if asked else 0):
                self._rate.take(now)

    def _on_time(self) -> None:
        self._timer = None
        self._admit()
