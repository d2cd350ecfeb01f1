"""Ends streams whose callers may not go on (their credentials have expired, or are not trusted any more), with a status that says why.

A stream is ended at once, unless it writes: then its peer has ``UNREAD_SECONDS`` to take that. One that does not read gets no status.
"""

from __future__ import annotations

import asyncio

from ..core.errors import PolicyError
from .call import Call, State
from .calls import UNREAD_SECONDS

_AGAIN_SECONDS = 0.1
"""Seconds between two checks of whether a peer reads."""
_STREAMS = frozenset({"WatchPolicies", "WatchHistory"})


def may_stay(call: Call) -> bool:
    """Returns whether a call may stay open for as long as its caller likes."""
    return stays(call.method)


def stays(method: str) -> bool:
    """Returns whether calls of a method may stay open: streams of our services, and all methods of other services."""
    return method in _STREAMS or "/" in method


class Leaving:
    """Ends streams. It belongs to one event loop."""

    def __init__(self) -> None:
        """Begins without streams."""
        self._loop = asyncio.get_running_loop()
        self._due: dict[Call, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._due)

    def leave(self, call: Call, error: PolicyError) -> None:
        """Ends a stream with an error, unless that is under way."""
        if call not in self._due:
            self._end(call, error)

    def ended(self, call: Call) -> None:
        """Forgets a call that has ended."""
        if (due := self._due.pop(call, None)) is not None:
            due.cancel()

    def _end(self, call: Call, error: PolicyError) -> None:
        self._due.pop(call, None)
        if call.state is State.WORKING:
            call.expire(error)
        elif call.state is State.WRITING and self._loop.time() < call.since + UNREAD_SECONDS:
            self._due[call] = self._loop.call_later(_AGAIN_SECONDS, self._end, call, error)
        else:
            call.end()
