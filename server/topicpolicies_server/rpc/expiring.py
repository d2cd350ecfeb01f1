"""Ends streams whose callers' credentials have expired (``leaving``), for what they allowed then need not be allowed now.

Expiry is by the system's clock, which can be set, so each stream's is checked at least every ``LOOK_SECONDS``. Other calls, which end by
themselves, need valid credentials only when they begin.
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
"""The longest time, in seconds, between two looks at the system's clock for one stream."""


class Expiring:
    """A door and an observer that ends streams. As a door it must stand behind the one that identifies callers (``identifying``)."""

    only = Only.STREAMS

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        """``wall``: returns the time in seconds since 1970."""
        self._wall = wall
        self._loop = asyncio.get_running_loop()
        self._due: dict[Call, asyncio.TimerHandle] = {}
        self._leaving = Leaving()

    def __len__(self) -> int:
        return len(self._due) + len(self._leaving)

    def __call__(self, call: Call) -> None:
        """Watches the credentials of a call that may stay open, if they expire. It refuses no call."""
        if call.caller.expires_at != math.inf and may_stay(call):
            self._look(call, call.caller.expires_at)

    def ended(self, call: Call) -> None:
        """Forgets a call that has ended."""
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
