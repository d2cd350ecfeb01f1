"""Time and chance, so that whoever waits can be tested without waiting."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from typing import Protocol


class Clock(Protocol):
    """What the synchronous client knows of time."""

    def now(self) -> float:
        """Seconds, from an arbitrary beginning; never goes back."""

    def random(self) -> float:
        """At least 0, less than 1."""

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Waits until so many seconds are over or ``stop`` is set, and tells whether it is set."""


class AsyncClock(Protocol):
    """What the asyncio client knows of time."""

    def now(self) -> float:
        """Seconds, from an arbitrary beginning; never goes back."""

    def random(self) -> float:
        """At least 0, less than 1."""

    async def sleep(self, seconds: float) -> None:
        """Waits."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        """See ``Clock``."""
        return time.monotonic()

    def random(self) -> float:
        """See ``Clock``."""
        return random.random()

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """See ``Clock``."""
        return stop.wait(seconds)

    async def sleep(self, seconds: float) -> None:
        """See ``AsyncClock``."""
        await asyncio.sleep(seconds)
