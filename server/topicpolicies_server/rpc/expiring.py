"""Streams whose callers' credentials expire. They end: what was allowed then need not be allowed now.

=========  ==============================  =========  ==================================================================================
state      event                           next       what is done
=========  ==============================  =========  ==================================================================================
HOLDS      it ends                         over       nothing
HOLDS      its credentials have expired    LEAVING    a stream of changes reads no more (``Call.leave``); another one is ended at once
LEAVING    its results were told           over       it is told CREDENTIALS_EXPIRED
LEAVING    ``LEAVING_SECONDS`` are over    over       it is ended, and told so
any        its peer does not read          over       it ends after ``UNREAD_SECONDS``; it can't be told anything
=========  ==============================  =========  ==================================================================================

The time is the system's, which can be set: it is looked at again each ``LOOK_SECONDS``. Other calls are asked at the door only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ..access.refusals import expired
from .call import Call, State
from .calls import UNREAD_SECONDS

LEAVING_SECONDS = 10.0
"""How long, at most, a stream of changes may take to tell what became of those that it had read."""
LOOK_SECONDS = 30.0
"""How often, at least, it is looked what time it is."""
_AGAIN_SECONDS = 0.1
"""How often it is looked whether a peer reads."""
_STREAMS = frozenset({"UpdatePolicies", "WatchPolicies"})


class Expiring:
    """Ends streams. It is a door, the one behind that which finds out who calls, and an observer."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        """``wall``: tells the time, in seconds since 1970."""
        self._wall = wall
        self._loop = asyncio.get_running_loop()
        self._due: dict[Call, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._due)

    def __call__(self, call: Call) -> None:
        """The door: whoever has credentials that expire gets no further with a stream than until then."""
        if call.caller.expires_at is not None and (call.method in _STREAMS or "/" in call.method):
            self._look(call, call.caller.expires_at)

    def began(self, call: Call) -> None:
        """Nothing is known of it yet."""

    def ended(self, call: Call) -> None:
        """A call has ended."""
        if (due := self._due.pop(call, None)) is not None:
            due.cancel()

    def _look(self, call: Call, expires_at: float) -> None:
        left = expires_at - self._wall()
        if left > 0:
            self._due[call] = self._loop.call_later(min(left, LOOK_SECONDS), self._look, call, expires_at)
        elif call.leave is None:
            self._end(call)
        else:
            self._due[call] = self._loop.call_later(LEAVING_SECONDS, self._end, call)
            call.leave(expired())

    def _end(self, call: Call) -> None:
        if call.state is State.WORKING:
            self._due.pop(call, None)
            call.expire(expired())
        elif call.state is State.WRITING and self._loop.time() < call.since + UNREAD_SECONDS:
            self._due[call] = self._loop.call_later(_AGAIN_SECONDS, self._end, call)
        else:
            self._due.pop(call, None)
            call.end()
