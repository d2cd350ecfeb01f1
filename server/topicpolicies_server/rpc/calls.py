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
from collections.abc import Iterator

from ..core.errors import Kind, PolicyError
from ..core.reasons import Reason

UNREAD_SECONDS = 1.0
"""How long, while the server stops, a peer may leave unread what is written to it."""
LAST_SECONDS = 1.0
"""How long calls that were ended may take to say so."""


def stopping() -> PolicyError:
    """What a call is told that is ended because the server stops: nothing was done."""
    return PolicyError(Kind.UNAVAILABLE, Reason.SHUTTING_DOWN, "The server is stopping: try another, or this one later.")


class State(enum.Enum):
    """Where a call is."""

    WORKING = enum.auto()
    WRITING = enum.auto()
    TOLD = enum.auto()


class Call:
    """One call in progress."""

    def __init__(self, task: asyncio.Task[None] | None, loop: asyncio.AbstractEventLoop, *, endless: bool) -> None:
        """``task``: in which it runs, and which nobody awaits but gRPC; ``endless``: it does not end by itself when the server stops."""
        self.endless = endless
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

    def tell_end(self) -> bool:
        """It was cancelled: whether it was ended here, and can be told why."""
        return self.state is State.TOLD and self._task is not None and self._task.uncancel() == 0


class Calls:
    """The calls in progress. It belongs to one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: dict[Call, None] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._calls)

    @contextlib.contextmanager
    def call(self, *, endless: bool = False) -> Iterator[Call]:
        """A call, which is in progress in this task meanwhile; ``endless``: when the server stops nobody waits for its end."""
        call = Call(asyncio.current_task(), self._loop, endless=endless)
        self._calls[call] = None
        try:
            yield call
        finally:
            del self._calls[call]
            self._changed.set()

    async def drained(self, seconds: float) -> None:
        """Returns when no call is in progress but endless ones, or so many seconds from now; those whose peers do not read are ended."""
        over = self._loop.time() + seconds
        while (calls := [call for call in self._calls if not call.endless or call.state is not State.WORKING]) and (
            now := self._loop.time()
        ) < over:
            unread = [call for call in calls if call.state is not State.WORKING]
            for call in unread:
                if now >= call.since + UNREAD_SECONDS:
                    call.end()
            await self._wait(min([over, *(call.since + UNREAD_SECONDS for call in unread)]) - now)

    async def ended(self) -> None:
        """Ends all that are in progress, and returns when they have been told so, or could not be."""
        for call in list(self._calls):
            if call.state is State.WORKING:
                call.goes_to(State.TOLD)
            call.end()
        await self.drained(LAST_SECONDS)

    async def _wait(self, seconds: float) -> None:
        """Until a call ends, or for so long; at least for a moment, for what was ended to end."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.01)):
                await self._changed.wait()
