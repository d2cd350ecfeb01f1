"""A limit for requests in flight; the others wait in order of arrival.

The HTTP library has a queue for its connections, too. But it scans all requests that wait whenever one comes or goes: with a thousand of
them the process did nothing else (docs/benchmarks.md, "Many namespaces").
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class NoPlaceError(Exception):
    """No place became free within the time allowed."""

    def __str__(self) -> str:
        return "so many others are asked before it"


class RequestLimiter:
    """Limits how many requests one admin client has in flight; the rest wait in order of arrival."""

    def __init__(self, places: int) -> None:
        """``places``: how many requests may be in flight."""
        self._places = asyncio.Semaphore(places)

    @asynccontextmanager
    async def place(self, seconds: float) -> AsyncIterator[None]:
        """Occupies a place for one request; a free one is taken at once.

        Args:
            seconds: how long to wait for a place.

        Raises:
            NoPlaceError: no place became free in time.
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
