"""Under load, requests are let in together.

Between two updates that come alone, gRPC and the kernel push the interpreter's code for an update out of the processor's caches: one costs
two to three times what it costs in a row of its own kind. So while many calls are under way, those that arrive within a few
milliseconds wait for each other and go through the same code one right after the other. That takes about 40 % off what an update costs the
server at 64 calls in flight, and so shortens the time to its answer (``docs/benchmarks.md``).

It is of no use to a few: a request that finds nobody inside goes straight in, and when groups turn out small all requests go straight
in for a while; then one group shows whether that has changed.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

PATIENCE_SECONDS = 0.003
"""How long the first of a group waits for the others."""
WORTHWHILE = 6
"""A group of fewer than this was not worth the wait."""
CHANCES = 4
"""So many groups in a row must not have been worth it before it is given up."""
PAUSE_SECONDS = 0.1
"""How long requests go straight in then."""
AT_ONCE = 64
"""No more than this go in together, so that the loop gets to other things."""


class Gathering:
    """Lets requests in, alone or in groups, in the order in which they come. ``async with`` it around what a request does."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """``loop``: whose clock and timers are used."""
        self._loop = loop
        self._inside = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._straight_until = 0.0
        self._chances = 1
        self.groups = 0
        """Groups that were let in."""

    async def __aenter__(self) -> None:
        if not self._waiting and (not self._inside or self._loop.time() < self._straight_until):
            self._inside += 1
            return
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            self._loop.call_later(PATIENCE_SECONDS, self._open)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._inside -= 1  # it had its turn already
            raise

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._inside -= 1

    def _open(self) -> None:
        """Lets those in who wait."""
        group, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
        if self._waiting:
            self._loop.call_later(0, self._open)
        group = [turn for turn in group if not turn.done()]
        self._chances = CHANCES if len(group) >= WORTHWHILE else self._chances - 1
        if not self._chances:
            self._straight_until, self._chances = self._loop.time() + PAUSE_SECONDS, 1
        self._inside += len(group)
        self.groups += 1
        for turn in group:
            turn.set_result(None)
