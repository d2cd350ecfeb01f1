"""Whether an event loop turns: the loop notes the time once a second, and any thread can see how long ago that was."""

from __future__ import annotations

import asyncio
import time

BEAT_SECONDS = 1.0
"""How often the time is noted."""
STUCK_SECONDS = 30.0
"""A loop that has not turned for so long is stuck."""


class Pulse:
    """The pulse of one event loop."""

    def __init__(self) -> None:
        """Begins to note the time."""
        self._loop = asyncio.get_running_loop()
        self._beat_at = time.monotonic()
        self._timer = self._loop.call_later(BEAT_SECONDS, self._beat)

    @property
    def silent_seconds(self) -> float:
        """How many seconds ago the loop noted the time last. Other threads may ask."""
        return max(0.0, time.monotonic() - self._beat_at)

    def stop(self) -> None:
        """Ends noting the time."""
        self._timer.cancel()

    def _beat(self) -> None:
        self._beat_at = time.monotonic()
        self._timer = self._loop.call_later(BEAT_SECONDS, self._beat)
