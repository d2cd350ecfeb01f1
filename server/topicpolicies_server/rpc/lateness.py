"""Calls whose callers' deadlines are near: each is told why it has no answer, a moment before gRPC would end it without a reason.

=========  ==============================  =========  ====================================================
state      event                           next       what is done
=========  ==============================  =========  ====================================================
IN LINE    it ends                         over       nothing
IN LINE    it is ``_YOUNG_SECONDS`` old    TIMED      nothing; over, if it has no deadline
TIMED      it ends                         over       nothing
TIMED      its deadline is near            over       it is hurried
=========  ==============================  =========  ====================================================

Most calls end while they stand in line, and cost nothing but their place in it.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from .failures import Failures

_YOUNG_SECONDS = 0.05
"""Before a call is so old nobody looks at its deadline."""
_PART = 0.1
"""How long before its deadline a call is hurried, as a part of its time: the answer has to come to its caller."""
_LEAST_SECONDS, _MOST_SECONDS = 0.02, 0.5
"""The same in seconds, at least and at most."""


class Timed(Protocol):
    """A call."""

    began: float

    def time_left(self) -> float | None:
        """Seconds until its caller's deadline; None: it has none."""


_Call = TypeVar("_Call", bound=Timed)


class Lateness(Generic[_Call]):
    """The deadlines of the calls of one server."""

    def __init__(self, loop: asyncio.AbstractEventLoop, goes_on: Callable[[_Call], bool]) -> None:
        """No calls.

        Args:
            loop: whose clock counts.
            goes_on: whether a call has not ended.
        """
        self._loop = loop
        self._goes_on = goes_on
        self.hurry: Callable[[_Call], None] = _nothing
        """What is done with a call that has no time left."""
        self._line: deque[_Call] = deque()
        self._timed: list[tuple[float, int, _Call]] = []
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._failures = Failures()

    def add(self, call: _Call) -> None:
        """A call has begun."""
        self._line.append(call)
        if self._timer is None:
            self._timer = self._loop.call_later(_YOUNG_SECONDS, self._look)

    def _look(self) -> None:
        now, line, timed = self._loop.time(), self._line, self._timed
        while line and line[0].began <= now - _YOUNG_SECONDS:
            call = line.popleft()
            if self._goes_on(call) and (left := call.time_left()) is not None:
                early = min(max(_PART * (now - call.began + left), _LEAST_SECONDS), _MOST_SECONDS)
                heapq.heappush(timed, (now + left - early, next(self._numbers), call))
        while timed and (timed[0][0] <= now or not self._goes_on(timed[0][2])):
            call = heapq.heappop(timed)[2]
            if self._goes_on(call):
                try:
                    self.hurry(call)
                except Exception as error:  # noqa: BLE001 (told; the others have deadlines, too)
                    self._failures.tell("Hurrying a call", error)
        self._timer = self._loop.call_later(_YOUNG_SECONDS, self._look) if line or timed else None


def _nothing(_: object) -> None:
    """It ends with its deadline."""
