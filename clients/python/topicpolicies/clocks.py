"""The clients' sources of time and random numbers, so that tests need not wait."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from typing import Protocol


class Clock(Protocol):
    """The time and random numbers of the synchronous client."""

    def now(self) -> float:
        """Returns the seconds since an arbitrary beginning; monotonic."""

    def random(self) -> float:
        """Returns a number that is at least 0 and less than 1."""

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Waits for ``seconds``, or until ``stop`` is set. Returns whether ``stop`` is set."""


class AsyncClock(Protocol):
    """The time and random numbers of the asyncio client."""

    def now(self) -> float:
        """Returns the seconds since an arbitrary beginning; monotonic."""

    def random(self) -> float:
        """Returns a number that is at least 0 and less than 1."""

    async def sleep(self, seconds: float) -> None:
        """Waits for ``seconds``."""


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
