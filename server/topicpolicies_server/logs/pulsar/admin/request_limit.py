"""A limit for requests in flight; the others wait in order of arrival.

The HTTP library has a queue for its connections, too. But it scans all requests that wait whenever one comes or goes: with a thousand of
them the process did nothing else (docs/benchmarks.md, "Many namespaces").
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class NoPlaceError(Exception):
    """No place became free within the time allowed."""

    def __str__(self) -> str:
        return "too many other requests wait before it"


class RequestLimiter:
    """Limits how many requests one admin client has in flight; the rest wait in order of arrival."""

    def __init__(self, places: int) -> None:
        """``places``: how many requests may be in flight."""
        self._free = places
        """Free places; 0 while a request waits."""
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        """The waiting requests, in order. One that gives up leaves the queue from any place in it, at once."""

    @asynccontextmanager
    async def place(self, seconds: float) -> AsyncIterator[None]:
        """Occupies a place for one request; a free one is taken at once.

        Args:
            seconds: how long to wait for a place.

        Raises:
            NoPlaceError: no place became free in time.
        """
        if self._free:
            self._free -= 1
        else:
            await self._wait(seconds)
        try:
            yield
        finally:
            self._leave()

    async def _wait(self, seconds: float) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = None
        try:
            async with asyncio.timeout(seconds):
                await turn
        except BaseException as error:
            self._waiting.pop(turn, None)
            if turn.done() and not turn.cancelled():  # it has come just now
                self._leave()
            if isinstance(error, TimeoutError):
                raise NoPlaceError from None
            raise

    def _leave(self) -> None:
        while self._waiting:
            turn, _ = self._waiting.popitem(last=False)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
