"""When the next attempt to load a namespace begins, after one has failed.

If no caller needs the namespace: after a pause, each twice as long as the one before. If one does: at once, but at least ``ASKED_SECONDS``
after the failure. So a caller learns how things are now; and however many callers want what does not exist, and however soon they leave
again, the brokers are asked about it only a few times a second.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

ASKED_SECONDS = 0.25
"""The least time between the end of an attempt and the beginning of the next."""
_FIRST = 1 / 100
"""The first pause, as a fraction of the longest, if no caller shortens it."""


class Pauses:
    """The pauses between attempts. One task waits for them; any caller may shorten them."""

    def __init__(self, longest_seconds: float, chance: random.Random) -> None:
        """Begins with the first pause.

        Args:
            longest_seconds: the longest pause, if no caller shortens it.
            chance: spreads the attempts of many namespaces.
        """
        self._longest = longest_seconds
        self._chance = chance
        self._seconds = longest_seconds * _FIRST
        self._asked = asyncio.Event()

    def start_over(self) -> None:
        """Notes that an attempt has succeeded: the next pause is the first again."""
        self._seconds = self._longest * _FIRST

    def ask(self) -> None:
        """Ends the current pause, but not before ``least`` is over."""
        self._asked.set()

    async def least(self) -> None:
        """Waits for the part of a pause that no caller can shorten."""
        self._asked.clear()
        await asyncio.sleep(ASKED_SECONDS)

    async def rest(self) -> None:
        """Waits for what is left of the pause after ``least``, or not at all if a caller has come meanwhile."""
        left = self._seconds * self._chance.uniform(0.5, 1.0) - ASKED_SECONDS
        self._seconds = min(self._seconds * 2, self._longest)
        if left > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._asked.wait()
