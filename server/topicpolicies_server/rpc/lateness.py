"""Ends calls whose deadlines are near with the reason why they have no answer, a moment before gRPC would end them without one.

=========  =======================================  =========  ====================================================
state      event                                    next       what is done
=========  =======================================  =========  ====================================================
IN LINE    the call ends                            over       nothing
IN LINE    the call is ``_YOUNG_SECONDS`` old       TIMED      its deadline is read; over, if it has none
TIMED      the call ends                            over       nothing
TIMED      the deadline is near                     over       ``hurry`` is called, which ends the call
=========  =======================================  =========  ====================================================

Most calls end while they are IN LINE, and cost nothing but an entry in a queue.
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
"""The age at which the deadline of a call is looked at."""
_PART = 0.1
"""How long before its deadline a call is hurried, as a fraction of the caller's timeout: the status still has to reach the caller."""
_LEAST_SECONDS, _MOST_SECONDS = 0.02, 0.5
"""The least and the most seconds before its deadline at which a call is hurried, whatever the fraction."""


class Timed(Protocol):
    """What is needed of a call (``call.Call``)."""

    began: float

    def time_left(self) -> float | None:
        """Returns the seconds until the caller's deadline; None: the call has none."""


_Call = TypeVar("_Call", bound=Timed)


class Lateness(Generic[_Call]):
    """Watches the deadlines of a server's calls with one answer. It belongs to one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, goes_on: Callable[[_Call], bool]) -> None:
        """Begins without calls.

        Args:
            loop: its clock and its timers are used.
            goes_on: returns whether a call has not ended.
        """
        self._loop = loop
        self._goes_on = goes_on
        self.hurry: Callable[[_Call], None] = _nothing
        """Called with a call whose deadline is near; it is to end the call."""
        self._line: deque[_Call] = deque()
        self._timed: list[tuple[float, int, _Call]] = []
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._failures = Failures()

    def add(self, call: _Call) -> None:
        """Adds a call that has begun."""
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
                    self._failures.log("Hurrying a call", error)
        self._timer = self._loop.call_later(_YOUNG_SECONDS, self._look) if line or timed else None


def _nothing(_: object) -> None:
    """Stands in for ``hurry`` until that is set: the call ends with its deadline."""
