"""What has to be looked at from time to time in every open log, in one task for all of them.

A log that is looked after by asking brokers has a check under way, at most one at a time:

==========  ==============  ==========  ==================================================================
state       event           next        what is done
==========  ==============  ==========  ==================================================================
NONE        it is due       WAITING     a task begins
WAITING     a place         CHECKING    the check begins; ``_AT_ONCE`` places are for all logs
CHECKING    it takes long   SLOW        the place is free for another log, and the check goes on
CHECKING,   returns         NONE        the log is well
SLOW
CHECKING,   raises, or      NONE        the log is troubled: told when it was well before
SLOW        takes too long
any         stop            NONE        the task is cancelled and awaited
==========  ==============  ==========  ==================================================================

Checks that are due because of nothing but time are begun in turn, the longest waiting first, and at most ``_PER_SECOND`` of them: each is a
few questions, and those about a thousand logs would be a hundred a second. Those that are due because something happened do not wait.
Whoever has to know at once (``look_after``) waits for no place.
Logs that do not exist are looked for in turns of their own, ``_LOOKS_PER_SECOND``: brokers answer that out of what they have at hand, and
each of them is due ten times as often. So neither kind waits for the other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, nullcontext
from typing import Protocol

from ...tasks import Kept, Owned, asked_to_end

_log = logging.getLogger(__name__)

_AT_ONCE = 4
_PER_SECOND = 10
"""Checks that are begun for nothing but time, of all logs together that exist."""
_LOOKS_PER_SECOND = 60
"""The same of those that do not."""
_PLACE_SECONDS = 1.0
"""How long a check may keep its place from others."""
_LONGEST_SECONDS = 60.0
"""How long a check may take."""
_CONNECTION_CHECK_SECONDS = 0.08
_CONNECTIONS_PER_SECOND = 2_500
"""Looks at connections, of all logs together: of more than 200 logs each is looked at more rarely."""
_RAREST_CHECK_SECONDS = 1.0


class Checked(Protocol):
    """A log that is looked after."""

    def check_connection(self) -> None:
        """Takes a quick look: a tenth of a second after the last one, or a second where there are very many logs."""

    def close_idle(self) -> None:
        """Closes what was not used for a while."""

    def due(self, now: float) -> bool:
        """Whether it is time to look after the log; ``now`` is monotonic, in seconds."""

    @property
    def by_clock(self) -> bool:
        """Whether nothing but time has made it so, when ``due`` was asked last."""

    @property
    def is_there(self) -> bool:
        """Whether it exists, as far as is known."""

    async def check(self) -> None:
        """Does so, in bounded time."""


class CheckOrder:
    """Checks that are due for nothing but time, so many a second."""

    def __init__(self) -> None:
        """Nobody had a turn."""
        self._turns: dict[Checked, int] = {}
        """When the last check of each was begun: they are counted."""
        self._turn = 0
        self._allowed = 0.0
        """How many may be begun now."""

    def next(self, waiting: list[Checked], most: float) -> list[Checked]:
        """Whose turn it is of those that wait; ``most``: so many more may be begun since this was asked last."""
        self._allowed = min(self._allowed + most, max(most, 1.0))
        waiting.sort(key=lambda log: self._turns.get(log, 0))
        chosen = waiting[: int(self._allowed)]
        for log in chosen:
            self._allowed -= 1
            self._turn += 1
            self._turns[log] = self._turn
        return chosen

    def keep(self, logs: Iterable[Checked]) -> None:
        """There are no others any more."""
        self._turns = {log: self._turns[log] for log in logs if log in self._turns}


class HealthChecks:
    """Goes round the open logs."""

    def __init__(self, logs: Callable[[], Iterable[Checked]], *, every_seconds: float) -> None:
        """Does nothing before ``start``."""
        self._logs = logs
        self._every = every_seconds
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._checking: dict[Checked, asyncio.Task[None]] = {}
        self._troubled: set[Checked] = set()
        """Logs that failed when they were looked at last: each is told once."""
        self._failed: set[Checked] = set()
        """Logs that failed when they were looked after last: as above."""
        self._turns, self._looks = CheckOrder(), CheckOrder()
        """Of logs that exist, and of those that do not."""
        self._rounds = Kept("Looking at change logs", self._run, longest_seconds=every_seconds)
        self._checks = Owned("Looking after change logs")

    def start(self) -> None:
        """Begins; a second call does nothing."""
        self._rounds.start()

    async def stop(self) -> None:
        """Ends."""
        await self._rounds.stop()
        await self._checks.close()

    async def look_after(self, log: Checked) -> None:
        """Begins a check at once, unless one is under way, and returns when it has ended. Whoever waits no longer does not end it."""
        await asyncio.wait({self._checking.get(log) or self._begin(log, in_a_place=False)})

    async def _run(self) -> None:
        next_round = time.monotonic() + self._every
        logs: list[Checked] = []
        while True:
            often = max(_CONNECTION_CHECK_SECONDS, min(len(logs) / _CONNECTIONS_PER_SECOND, _RAREST_CHECK_SECONDS))
            await asyncio.sleep(min(often, self._every))
            logs = list(self._logs())
            now = time.monotonic()
            whole = now >= next_round
            if whole:
                next_round = now + self._every
                self._troubled.intersection_update(logs)
                self._failed.intersection_update(logs)
            waiting = [log for log in logs if self._look(log, now, whole)]
            if whole:
                self._take_turns(waiting)
                self._turns.keep(logs)
                self._looks.keep(logs)

    def _look(self, log: Checked, now: float, whole: bool) -> bool:
        """Looks at a log, and begins a check if that can't wait; whether it is due, and can."""
        waits = False
        try:
            log.check_connection()
            if whole:
                log.close_idle()
                if log not in self._checking and log.due(now):
                    waits = log.by_clock
                    if not waits:
                        self._begin(log)
        except Exception:  # noqa: BLE001 (one log's trouble must not end the rounds of the others)
            if log not in self._troubled:
                self._troubled.add(log)
                _log.exception("Looking at a change log failed")
        else:
            if whole:
                self._troubled.discard(log)
        return waits

    def _take_turns(self, waiting: list[Checked]) -> None:
        there = self._turns.next([log for log in waiting if log.is_there], _PER_SECOND * self._every)
        for log in there + self._looks.next([log for log in waiting if not log.is_there], _LOOKS_PER_SECOND * self._every):
            self._begin(log)

    def _begin(self, log: Checked, *, in_a_place: bool = True) -> asyncio.Task[None]:
        task = self._checking[log] = self._checks.begin(self._check(log, in_a_place=in_a_place), "a check")
        task.add_done_callback(lambda _: self._checking.pop(log))
        return task

    async def _check(self, log: Checked, *, in_a_place: bool) -> None:
        try:
            async with self._place() if in_a_place else nullcontext(), asyncio.timeout(_LONGEST_SECONDS):
                await log.check()
        except (Exception, asyncio.CancelledError) as error:  # one log's trouble must not end the checks of the others
            if asked_to_end(error):
                raise
            if log not in self._failed:
                self._failed.add(log)
                _log.exception("Looking after a change log failed")
        else:
            self._failed.discard(log)

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """One of the places, for ``_PLACE_SECONDS`` at most."""
        await self._places.acquire()
        taken = True

        def give_back() -> None:
            nonlocal taken
            if taken:
                taken = False
                self._places.release()

        timer = asyncio.get_running_loop().call_later(_PLACE_SECONDS, give_back)
        try:
            yield
        finally:
            timer.cancel()
            give_back()
