"""Waits for the requests of calls with one request, and gives up those that do not arrive.

A call comes as soon as its metadata has. Until its request has arrived as a whole it is no call in progress; but it has one of the places
that gRPC has for calls, and the part of its request that has come is in memory.

=========  ====================================================  =========  ==============================================================
state      event                                                 next       what is done
=========  ====================================================  =========  ==============================================================
(comes)    ``read``                                              WAITING    if too many wait, the one that came first is given up;
                                                                            of a stranger, if too many of strangers wait
WAITING    the request has arrived                               over       ``read`` returns it
WAITING    the caller has gone                                   over       gRPC cancels the call
WAITING    it has waited for ``LAST`` looks; or for ``SOON``     over       ``read`` raises what the call is refused with
           looks, and it is of a stranger, or more than a few
           calls wait; or it is given up for one that comes
WAITING    ``end_all``, as the server stops                      over       the same
=========  ====================================================  =========  ==============================================================

A look counts only if requests are certain to be handed over when they arrive: it was on time, or the request of a call that came since the
look before has arrived. So a process that is busy, or was stopped, gives up no call whose request waits for this process.

A *stranger* is a caller without credentials where others need them: it may only check the health, which takes a few bytes.

No more calls wait than may be in progress, so that half of gRPC's places stay free of them, however soon their callers call again.
"""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from ..core.errors import PolicyError, Violation, invalid, too_much
from ..core.reasons import ViolationReason

LOOK_SECONDS = 0.5
"""Seconds between two looks."""
SOON, LAST = 4, 120
"""After how many looks a call is given up: if too many wait, and in any case."""
FEW = 32
"""How many calls at most may wait for longer than ``SOON`` looks: a request may have megabytes, and come slowly."""
STRANGERS = 8
"""How many calls of strangers may wait at most."""
_ON_TIME_SECONDS = 0.1
_GONE_SECONDS = 0.1
"""How long a call that ends without a request waits to hear that its caller has gone: gRPC reports that separately, and then cancels it."""


class Arriving:
    """The calls of one server whose requests have not arrived. It belongs to one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        """Begins without calls.

        Args:
            loop: its clock and its timers are used.
            most: how many calls may be in progress; gRPC has twice as many places.
        """
        self._loop = loop
        self._most = most
        self._few = min(FEW, most // 2)
        self._waiting: dict[asyncio.Task[Any], int] = {}
        """The WAITING calls by their tasks, and how many looks had counted when each came; the oldest first."""
        self._strangers: dict[asyncio.Task[Any], None] = {}
        """Those of the WAITING calls that are of strangers; the oldest first."""
        self._given_up: dict[asyncio.Task[Any], PolicyError] = {}
        """The tasks that were cancelled, and have not noticed, and what each call is refused with."""
        self._looks = 0
        self._prompt = False
        """Whether a call that came since the last look has its request."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    async def read(self, context: Any, *, stranger: bool = False) -> bytes:
        """Returns the request of the present task's call.

        Args:
            context: gRPC's context of the call (``grpc.aio.ServicerContext``).
            stranger: whether the call is of a stranger.

        Raises:
            PolicyError: RESOURCE_EXHAUSTED, the request did not arrive; INVALID_ARGUMENT, there is none; what ``end_all`` was given.
            asyncio.CancelledError: the caller has gone.
        """
        task = asyncio.current_task()
        assert task is not None, "gRPC serves each call in a task"
        if stranger:
            if len(self._strangers) >= STRANGERS:
                self._give_up(next(iter(self._strangers)), _not_arrived(self._most))
            self._strangers[task] = None
        if len(self._waiting) >= self._most:
            self._give_up(next(iter(self._waiting)), _not_arrived(self._most))
        self._waiting[task] = looks = self._looks
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK_SECONDS, self._look)
        try:
            raw: Any = await context.read()
            if raw is grpc.aio.EOF:
                await asyncio.sleep(_GONE_SECONDS)
        except asyncio.CancelledError:
            if (error := self._given_up.get(task)) is None or task.uncancel():
                raise
            raise error from None
        finally:
            self._waiting.pop(task, None)
            if self._strangers:
                self._strangers.pop(task, None)
            if self._given_up:
                self._given_up.pop(task, None)
        if looks == self._looks:
            self._prompt = True
        if raw is grpc.aio.EOF:
            raise invalid(Violation("", ViolationReason.MALFORMED_MESSAGE, "The call has no request."))
        found: bytes = raw
        return found

    def end_all(self, error: PolicyError) -> None:
        """Gives up all calls that wait. ``error``: what they are refused with."""
        for task in list(self._waiting):
            self._give_up(task, error)

    def _look(self) -> None:
        assert self._timer is not None, "it was set"
        late = self._loop.time() - self._timer.when()
        if self._prompt or late < _ON_TIME_SECONDS:
            self._looks += 1
        self._prompt = False
        for task in list(self._strangers):
            if self._looks >= self._waiting[task] + SOON:
                self._give_up(task, _not_arrived(self._most))
        beyond = len(self._waiting) - self._few
        for task, since in list(self._waiting.items()):
            if self._looks < since + (SOON if beyond > 0 else LAST):
                break  # those behind it came later
            self._give_up(task, _not_arrived(self._most))
            beyond -= 1
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look) if self._waiting else None

    def _give_up(self, task: asyncio.Task[Any], error: PolicyError) -> None:
        del self._waiting[task]
        self._strangers.pop(task, None)
        self._given_up[task] = error
        task.cancel()


def _not_arrived(most: int) -> PolicyError:
    problem = "The request of this call did not arrive: send it with the call, which has one of the places of max_concurrent_calls."
    return too_much("max_concurrent_calls", most, problem)
