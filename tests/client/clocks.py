"""A clock for tests: a wait returns at once and advances the clock."""

from __future__ import annotations

import asyncio
import threading


class FakeClock:
    """A clock that only waits advance. Its random numbers are all 0.5."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.waits: list[float] = []
        """The waits of more than 0 seconds, in order."""

    def now(self) -> float:
        return self.time

    def random(self) -> float:
        return 0.5

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        self._pass(seconds)
        return stop.is_set()

    async def sleep(self, seconds: float) -> None:
        self._pass(seconds)
        await asyncio.sleep(0)

    def _pass(self, seconds: float) -> None:
        if seconds > 0:
            self.waits.append(seconds)
            self.time += seconds
