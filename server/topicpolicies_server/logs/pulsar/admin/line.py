"""Questions of which so many are asked at a time; the others wait in the order in which they came.

The HTTP library has a line of its own for its connections. But it looks through all that wait whenever one comes or goes: with a thousand
in it nothing else was done any more (docs/benchmarks.md, "Many namespaces").
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class NoPlaceError(Exception):
    """Others were asked before it all the time."""

    def __str__(self) -> str:
        return "so many others are asked before it"


class QuestionLine:
    """Those of one client."""

    def __init__(self, places: int) -> None:
        """``places``: how many are asked at a time."""
        self._places = asyncio.Semaphore(places)

    @asynccontextmanager
    async def place(self, seconds: float) -> AsyncIterator[None]:
        """A place, for as long as it is needed; one that is free is had at once.

        Args:
            seconds: how long to wait for it.

        Raises:
            NoPlaceError: there was none in time.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._places.acquire()
        except TimeoutError:
            raise NoPlaceError from None
        try:
            yield
        finally:
            self._places.release()
