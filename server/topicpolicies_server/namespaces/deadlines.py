"""The deadlines of a namespace's requests: all have the same time, so they end in the order in which they began; one timer serves all."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from ..core.chains.sequencer import Request

_LOG = logging.getLogger(__name__)
_GRAIN = 0.1
"""How late a deadline may be noticed, as a part of the time that a request has."""


class Deadlines:
    """What has not been answered yet, the oldest first."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, expire: Callable[[Request], None]) -> None:
        """Begins without requests.

        Args:
            loop: whose clock counts.
            seconds: the time that each request has.
            expire: told of a request whose time is over.
        """
        self._loop = loop
        self._seconds = seconds
        self._expire = expire
        self._open: deque[tuple[float, Request]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, request: Request) -> None:
        """A request begins to wait for its answer."""
        self._open.append((self._loop.time() + self._seconds, request))
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds * _GRAIN, self._look)

    def close(self) -> list[Request]:
        """Nothing expires any more. Returns the requests that wait, the oldest first, and some that have been answered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting = [request for _, request in self._open]
        self._open.clear()
        return waiting

    def _look(self) -> None:
        self._timer = None
        now = self._loop.time()
        waiting = self._open
        while waiting and (waiting[0][1].answered or waiting[0][0] <= now):
            _, request = waiting.popleft()
            if not request.answered:
                try:
                    self._expire(request)
                except Exception:  # noqa: BLE001 (the others' time goes on)
                    _LOG.exception("a request whose time is over could not be answered")
        if waiting:
            self._timer = self._loop.call_later(self._seconds * _GRAIN, self._look)
