"""Streams whose callers' credentials expire. They end (``leaving``): what was allowed then need not be allowed now.

The time is the system's, which can be set: it is looked at again each ``LOOK_SECONDS``. Other calls are asked at the door only.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

from ..access import Way
from ..access.refusals import expired
from .call import Call
from .calls import Only
from .leaving import Leaving, may_stay

LOOK_SECONDS = 30.0
"""How often, at least, it is looked what time it is."""


class Expiring:
    """Ends streams. It is a door, the one behind that which finds out who calls, and an observer."""

    only = Only.STREAMS

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        """``wall``: tells the time, in seconds since 1970."""
        self._wall = wall
        self._loop = asyncio.get_running_loop()
        self._due: dict[Call, asyncio.TimerHandle] = {}
        self._leaving = Leaving()

    def __len__(self) -> int:
        return len(self._due) + len(self._leaving)

    def __call__(self, call: Call) -> None:
        """The door: whoever has credentials that expire gets no further with a stream than until then."""
        if call.caller.expires_at != math.inf and may_stay(call):
            self._look(call, call.caller.expires_at)

    def ended(self, call: Call) -> None:
        """A call has ended."""
        if (due := self._due.pop(call, None)) is not None:
            due.cancel()
        self._leaving.ended(call)

    def _look(self, call: Call, expires_at: float) -> None:
        left = expires_at - self._wall()
        if left > 0:
            self._due[call] = self._loop.call_later(min(left, LOOK_SECONDS), self._look, call, expires_at)
        else:
            self._due.pop(call, None)
            self._leaving.leave(call, expired("client certificate" if call.caller.way is Way.CERTIFICATE else "token"))
