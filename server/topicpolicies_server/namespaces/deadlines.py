"""The deadlines of a namespace's requests: all have the same time, so they expire in the order of arrival; one timer serves all."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from ..core.chains.sequencer import Request

_LOG = logging.getLogger(__name__)
_GRAIN = 0.1
"""How late a deadline may be noticed, as a fraction of the time that a request has."""


class Deadlines:
    """The requests that have no answer yet, the oldest first."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, expire: Callable[[Request], None]) -> None:
        """Begins without requests.

        Args:
            loop: the event loop, whose clock counts.
            seconds: the time that each request has.
            expire: called with a request whose time is over.
        """
        self._loop = loop
        self._seconds = seconds
        self._expire = expire
        self._open: deque[tuple[float, Sequence[Request]]] = deque()
        """Requests that came together, and when their time is over."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, requests: Sequence[Request]) -> None:
        """Adds requests that wait for their answers. The oldest are dropped if they are answered, with all that they keep in memory."""
        self._let_go()
        self._open.append((self._loop.time() + self._seconds, requests))
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds * _GRAIN, self._look)

    def close(self) -> list[Request]:
        """Ends all deadlines. Returns the requests that wait, the oldest first, and some that have been answered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting = [request for _, requests in self._open for request in requests]
        self._open.clear()
        return waiting

    def _let_go(self) -> None:
        """Drops the oldest requests that are answered."""
        waiting = self._open
        while waiting and waiting[0][1][-1].answered and all(request.answered for request in waiting[0][1]):
            waiting.popleft()

    def _look(self) -> None:
        self._timer = None
        now = self._loop.time()
        waiting = self._open
        while waiting and (waiting[0][0] <= now or all(request.answered for request in waiting[0][1])):
            for request in waiting.popleft()[1]:
                if not request.answered:
                    try:
                        self._expire(request)
                    except Exception:  # noqa: BLE001 (the others' time goes on)
                        _LOG.exception("a request whose time was over could not be answered")
        if waiting:
            self._timer = self._loop.call_later(self._seconds * _GRAIN, self._look)
