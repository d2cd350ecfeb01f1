"""Ends streams whose callers may not go on (their credentials have expired, or are not trusted any more), with a status that says why.

=========  ===============================  =========  =================================================================================
state      event                            next       what is done
=========  ===============================  =========  =================================================================================
HOLDS      the stream ends                  over       nothing
HOLDS      ``leave``                        LEAVING    an update stream stops reading (``Call.leave``); any other stream is ended at once
LEAVING    all results have been sent       over       the stream ends itself with the status
LEAVING    ``LEAVING_SECONDS`` are over     over       the stream is ended with the status
any        its peer does not read           over       the stream is ended after ``UNREAD_SECONDS``, without a status
=========  ===============================  =========  =================================================================================
"""

from __future__ import annotations

import asyncio

from ..core.errors import PolicyError
from .call import Call, State
from .calls import UNREAD_SECONDS

LEAVING_SECONDS = 10.0
"""The most seconds that an update stream may take to send the results of the changes that it had read."""
_AGAIN_SECONDS = 0.1
"""Seconds between two checks of whether a peer reads."""
_STREAMS = frozenset({"UpdatePolicies", "WatchPolicies"})


def may_stay(call: Call) -> bool:
    """Returns whether a call may stay open for as long as its caller likes."""
    return stays(call.method)


def stays(method: str) -> bool:
    """Returns whether calls of a method may stay open: streams of our service, and all methods of other services."""
    return method in _STREAMS or "/" in method


class Leaving:
    """Ends streams in the way of the module's table. It belongs to one event loop."""

    def __init__(self) -> None:
        """Begins without streams."""
        self._loop = asyncio.get_running_loop()
        self._due: dict[Call, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._due)

    def leave(self, call: Call, error: PolicyError) -> None:
        """Has a stream end with an error, unless it is LEAVING already."""
        if call in self._due:
            return
        if call.leave is None:
            self._end(call, error)
        else:
            self._due[call] = self._loop.call_later(LEAVING_SECONDS, self._end, call, error)
            call.leave(error)

    def ended(self, call: Call) -> None:
        """Forgets a call that has ended."""
        if (due := self._due.pop(call, None)) is not None:
            due.cancel()

    def _end(self, call: Call, error: PolicyError) -> None:
        if call.state is State.WORKING:
            self._due.pop(call, None)
            call.expire(error)
        elif call.state is State.WRITING and self._loop.time() < call.since + UNREAD_SECONDS:
            self._due[call] = self._loop.call_later(_AGAIN_SECONDS, self._end, call, error)
        else:
            self._due.pop(call, None)
            call.end()
