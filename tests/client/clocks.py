"""Clocks that do not wait: waiting moves them."""

from __future__ import annotations

import asyncio
import threading


class FakeClock:
    """Time that passes only when somebody waits. Chance always falls in the middle."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.waits: list[float] = []
        """Every wait that took time, in seconds."""

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
