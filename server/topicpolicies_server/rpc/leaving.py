"""Streams that have to end because their callers may not go on. They are told why.

=========  ==============================  =========  ==================================================================================
state      event                           next       what is done
=========  ==============================  =========  ==================================================================================
HOLDS      it ends                         over       nothing
HOLDS      it has to leave                 LEAVING    a stream of changes reads no more (``Call.leave``); another one is ended at once
LEAVING    its results were told           over       it is told why
LEAVING    ``LEAVING_SECONDS`` are over    over       it is ended, and told so
any        its peer does not read          over       it ends after ``UNREAD_SECONDS``; it can't be told anything
=========  ==============================  =========  ==================================================================================
"""

from __future__ import annotations

import asyncio

from ..core.errors import PolicyError
from .call import Call, State
from .calls import UNREAD_SECONDS

LEAVING_SECONDS = 10.0
"""How long, at most, a stream of changes may take to tell what became of those that it had read."""
_AGAIN_SECONDS = 0.1
"""How often it is looked whether a peer reads."""
_STREAMS = frozenset({"UpdatePolicies", "WatchPolicies"})


def may_stay(call: Call) -> bool:
    """Whether a call may go on for as long as its caller likes."""
    return stays(call.method)


def stays(method: str) -> bool:
    """Whether calls of a method may: those of our service with one answer end by themselves."""
    return method in _STREAMS or "/" in method


class Leaving:
    """Has streams end. It belongs to one event loop."""

    def __init__(self) -> None:
        """Nobody leaves."""
        self._loop = asyncio.get_running_loop()
        self._due: dict[Call, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._due)

    def leave(self, call: Call, error: PolicyError) -> None:
        """Has a stream end with an error, unless it leaves already."""
        if call in self._due:
            return
        if call.leave is None:
            self._end(call, error)
        else:
            self._due[call] = self._loop.call_later(LEAVING_SECONDS, self._end, call, error)
            call.leave(error)

    def ended(self, call: Call) -> None:
        """A call has ended."""
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
