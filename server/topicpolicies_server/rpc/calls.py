"""The calls in progress, and how each ends when the server stops.

========  ============================================  ======================================  ===========================
state     the call                                      while the server stops                  when its time is over
========  ============================================  ======================================  ===========================
WORKING   makes its answer, or waits for something      goes on; streams end by themselves      is ended, and told so
          to tell
WRITING   writes, and waits for its peer to take that   goes on; ends if the peer takes         ends
                                                        nothing for ``UNREAD_SECONDS``
TOLD      has ended, and is told why                    ends if the peer does not take that     ends
========  ============================================  ======================================  ===========================

A call that ends by itself is no call in progress any more. Who does not read can't be told anything, so such a call just ends: its
connection is closed with the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import Callable

from ..core.errors import Kind, PolicyError, stopping
from ..core.reasons import Reason

UNREAD_SECONDS = 1.0
"""How long, while the server stops, a peer may leave unread what is written to it."""
LAST_SECONDS = 1.0
"""How long calls that were ended may take to say so."""
REFUSING_SECONDS = 2.0
"""How long, at most, calls that still come are told that the server stops, before gRPC takes no more of them."""
_QUIET_LOOKS = 5
"""When so many looks in a row have found no new call, all that had arrived have begun."""
_QUIET_SECONDS = 0.01
"""Between two such looks."""
_LOOK_SECONDS = 0.1
"""How often it is looked whether peers read."""


class State(enum.Enum):
    """Where a call is."""

    WORKING = enum.auto()
    WRITING = enum.auto()
    TOLD = enum.auto()


class Call:
    """One call in progress."""

    __slots__ = ("_loop", "_task", "since", "state")

    def __init__(self, task: asyncio.Task[None] | None, loop: asyncio.AbstractEventLoop) -> None:
        """``task``: in which it runs, and which nobody awaits but gRPC."""
        self.state = State.WORKING
        self.since = loop.time()
        """The loop's time at which its state began."""
        self._task = task
        self._loop = loop

    def goes_to(self, state: State) -> None:
        """Its state is another one from now on."""
        self.state, self.since = state, self._loop.time()

    def end(self) -> None:
        """Ends it where it stands."""
        if self._task is not None:
            self._task.cancel()

    def why_cancelled(self) -> PolicyError | None:
        """What it is told of a ``CancelledError``; None: its caller has gone, or does not read.

        One that nobody has asked this call's task for is of something that it awaited: a failure like every other.
        """
        assert self._task is not None, "a call has a task"
        if not self._task.cancelling():
            return PolicyError(Kind.INTERNAL, Reason.INTERNAL, "What the request waited for was given up by the sidecar.")
        return stopping() if self.state is State.TOLD and self._task.uncancel() == 0 else None


class Calls:
    """The calls in progress. It belongs to one event loop."""

    def __init__(self, most: int) -> None:
        """``most``: how many there may be."""
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._calls: dict[Call, None] = {}
        self._endless = 0
        """Those of them that do not end by themselves when the server stops."""
        self._ended = asyncio.Event()
        self._stops = False
        self._refused = 0
        """Calls that came since the server stops."""

    def __len__(self) -> int:
        return len(self._calls)

    def begin(self, *, endless: bool = False) -> Call:
        """A call begins, and is in progress in this task until its ``end``; ``endless``: when the server stops nobody waits for that.

        Raises:
            PolicyError: RESOURCE_EXHAUSTED, there are as many as there may be; UNAVAILABLE, the server stops.
        """
        if self._stops:
            self._refused += 1
            raise stopping()
        if len(self._calls) >= self._most:
            raise PolicyError(
                Kind.RESOURCE_EXHAUSTED,
                Reason.TOO_MANY_CALLS,
                f"{self._most:,} calls are in progress, which is the most: try again later, or raise max_concurrent_calls.",
            )
        call = Call(asyncio.current_task(), self._loop)
        self._calls[call] = None
        self._endless += endless
        return call

    def end(self, call: Call, *, endless: bool = False) -> None:
        """A call that was begun so has ended."""
        del self._calls[call]
        self._endless -= endless
        if len(self._calls) <= self._endless:
            self._ended.set()

    async def refuse(self) -> None:
        """Refuses new calls from now on; returns when those that had arrived are told so. gRPC would cancel them without a reason."""
        self._stops = True
        over, looks = self._loop.time() + REFUSING_SECONDS, 0
        while looks < _QUIET_LOOKS and self._loop.time() < over:
            refused = self._refused
            await asyncio.sleep(_QUIET_SECONDS)
            looks = looks + 1 if refused == self._refused else 0

    async def drained(self, seconds: float) -> None:
        """Returns when no call is in progress but endless ones, or so many seconds from now; those whose peers do not read are ended."""
        await self._wait(seconds, lambda: len(self._calls) > self._endless)

    async def ended(self) -> None:
        """Ends all that are in progress, and returns when they have been told so, or could not be."""
        for call in list(self._calls):
            if call.state is State.WORKING:
                call.goes_to(State.TOLD)
            call.end()
        await self._wait(LAST_SECONDS, lambda: bool(self._calls))

    async def _wait(self, seconds: float, left: Callable[[], bool]) -> None:
        """Returns when none is left, or so many seconds from now. Only the last call's end is waited for: there may be thousands."""
        over = self._loop.time() + seconds
        while left() and (now := self._loop.time()) < over:
            for call in list(self._calls):
                if call.state is not State.WORKING and now >= call.since + UNREAD_SECONDS:
                    call.end()
            self._ended.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(over - now, _LOOK_SECONDS)):
                    await self._ended.wait()
