"""When a namespace that could not be loaded is tried again.

Nobody asks for it: after a pause, each twice as long as the one before. Somebody asks: at once, but never sooner than ``ASKED_SECONDS``
after the last try has failed. So whoever asks learns how things are now; and however many ask for what does not exist, and however soon
they go away again, brokers are asked about it a few times a second.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

ASKED_SECONDS = 0.25
"""The least time between the end of a try and the beginning of the next."""
_FIRST = 1 / 100
"""The first pause that nobody shortens, as a part of the longest."""


class Pauses:
    """The pauses between tries. One task waits for them; anybody asks."""

    def __init__(self, longest_seconds: float, chance: random.Random) -> None:
        """Begins with the first pause.

        Args:
            longest_seconds: the longest pause that nobody shortens.
            chance: spreads the tries of many namespaces.
        """
        self._longest = longest_seconds
        self._chance = chance
        self._seconds = longest_seconds * _FIRST
        self._asked = asyncio.Event()

    def start_over(self) -> None:
        """A try has succeeded: the next pause is the first again."""
        self._seconds = self._longest * _FIRST

    def ask(self) -> None:
        """Ends the pause that is, but for the least of it."""
        self._asked.set()

    async def least(self) -> None:
        """The part of a pause that nobody shortens."""
        self._asked.clear()
        await asyncio.sleep(ASKED_SECONDS)

    async def rest(self) -> None:
        """What is left of the pause after ``least``, or nothing if somebody has asked meanwhile."""
        left = self._seconds * self._chance.uniform(0.5, 1.0) - ASKED_SECONDS
        self._seconds = min(self._seconds * 2, self._longest)
        if left > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._asked.wait()
