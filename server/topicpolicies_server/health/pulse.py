"""Whether an event loop turns: it notes the time once a second, and whoever asks in another thread looks how long that is ago."""

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
        """It beats from now on."""
        self._loop = asyncio.get_running_loop()
        self._beat_at = time.monotonic()
        self._timer = self._loop.call_later(BEAT_SECONDS, self._beat)

    @property
    def silent_seconds(self) -> float:
        """How long ago the loop turned last."""
        return max(0.0, time.monotonic() - self._beat_at)

    def stop(self) -> None:
        """It beats no more."""
        self._timer.cancel()

    def _beat(self) -> None:
        self._beat_at = time.monotonic()
        self._timer = self._loop.call_later(BEAT_SECONDS, self._beat)
