"""Under load, requests are let in together.

Between two updates that come alone, gRPC and the kernel push the interpreter's code for an update out of the processor's caches: such an
update costs two to three times what it costs right after another update. So while many calls are under way, those that arrive within a few
milliseconds wait for each other and go through the same code one right after the other
(0.47 of an empty echo with 64 in flight in place of 0.42).

With few calls it is of no use: they would wait for each other, and then all for the same answer of the log. So it depends on how many are
inside:

========  ==================================================  =================================================================
state     when                                                a request that comes
========  ==================================================  =================================================================
CALM      fewer than ``MANY`` are inside, and none waits      goes straight in
BUSY      ``MANY`` are inside, or a request waits             waits for its group, which goes in together,
                                                              ``PATIENCE_SECONDS`` after its first request came
SKIPPING  ``MANY`` are inside, none waits, and lately         goes straight in
          ``CHANCES`` groups in a row were not worth it
========  ==================================================  =================================================================

SKIPPING is over after ``PAUSE_SECONDS``; then one group shows whether waiting has become worth it.
"""

from __future__ import annotations

import asyncio
import enum

MANY = 12
"""With this many requests inside there is load."""
PATIENCE_SECONDS = 0.003
"""How long the first request of a group waits for the others."""
WORTHWHILE = 6
"""A group of fewer requests than this was not worth the wait."""
CHANCES = 4
"""After this many groups in a row that were not worth it, requests go straight in."""
PAUSE_SECONDS = 0.1
"""For how long requests then go straight in."""
AT_ONCE = 64
"""The most requests that go in together, so that the event loop gets to other things."""


class State(enum.Enum):
    """Whether requests wait for each other."""

    CALM = enum.auto()
    BUSY = enum.auto()
    SKIPPING = enum.auto()


class Gathering:
    """Lets requests in, alone or in groups, in the order in which they come. Each that is inside has to ``leave``."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """``loop``: whose clock and timers are used."""
        self._loop = loop
        self._inside = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._skipping_until = 0.0
        self._chances = CHANCES
        self.groups = 0
        """How many groups were let in."""

    @property
    def state(self) -> State:
        """Whether a request that comes now waits."""
        if self._waiting:
            return State.BUSY
        if self._inside < MANY:
            return State.CALM
        return State.SKIPPING if self._loop.time() < self._skipping_until else State.BUSY

    def come(self) -> asyncio.Future[None] | None:
        """Lets a request in and returns None; or returns the future of its turn, for which it has to ``wait``."""
        if self.state is not State.BUSY:
            self._inside += 1
            return None
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            self._loop.call_later(PATIENCE_SECONDS, self._open)
        return turn

    async def wait(self, turn: asyncio.Future[None]) -> None:
        """Returns when the request is inside; if it is cancelled before, it is not inside."""
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._inside -= 1  # its turn had come already
            raise

    def leave(self) -> None:
        """Notes that a request that was inside has ended."""
        self._inside -= 1

    def _open(self) -> None:
        """Lets in the requests that wait."""
        group, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
        if self._waiting:
            self._loop.call_later(0, self._open)
        group = [turn for turn in group if not turn.done()]
        self._chances = CHANCES if len(group) >= WORTHWHILE else self._chances - 1
        if not self._chances:
            self._skipping_until, self._chances = self._loop.time() + PAUSE_SECONDS, 1
        self._inside += len(group)
        self.groups += 1
        for turn in group:
            turn.set_result(None)
