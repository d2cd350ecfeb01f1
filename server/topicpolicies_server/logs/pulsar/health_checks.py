"""Periodic checks of every open log, made by one task for all of them.

Looks at connections are made in that task itself. A check that asks brokers is a task of its own, at most one per log:

==========  ==============  ==========  ==================================================================
state       event           next        action
==========  ==============  ==========  ==================================================================
NONE        it is due       WAITING     start a task
WAITING     place is free   CHECKING    begin the check; all logs share ``_AT_ONCE`` places
CHECKING    it takes long   SLOW        free the place for another log; the check goes on
CHECKING,   returns         NONE        the log is well
SLOW
CHECKING,   raises, or      NONE        the log is troubled: logged if it was well before
SLOW        takes too long
any         stop            NONE        cancel the task and await it
==========  ==============  ==========  ==================================================================

Checks that are due only because time has passed are begun in turn, the longest waiting first, and at most ``_PER_SECOND`` of them: each is
a few requests, and those for about a thousand logs would be a hundred a second. Checks that are due because something happened do not wait
for a turn. A check that a caller needs at once (``look_after``) waits for no place.
Logs that do not exist have turns of their own, ``_LOOKS_PER_SECOND``: brokers answer those requests from what they have in memory, and each
of these logs is due ten times as often. So neither kind of log waits for the other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, nullcontext
from typing import Protocol

from ...tasks import RestartedTask, TaskSet, asked_to_end

_log = logging.getLogger(__name__)

_AT_ONCE = 4
_PER_SECOND = 10
"""Checks begun per second only because time has passed, for all logs together that exist."""
_LOOKS_PER_SECOND = 60
"""Such checks per second for all logs together that do not exist."""
_PLACE_SECONDS = 1.0
"""How long a check may occupy a place."""
_LONGEST_SECONDS = 60.0
"""How long a check may take."""
_CONNECTION_CHECK_SECONDS = 0.08
_CONNECTIONS_PER_SECOND = 2_500
"""Looks at connections per second, for all logs together: with more than 200 logs, each is looked at more rarely."""
_RAREST_CHECK_SECONDS = 1.0


class Checked(Protocol):
    """What is checked: an open log, or the facts about the cluster (``upgrades``)."""

    def check_connection(self) -> None:
        """Takes a quick look, about a tenth of a second after the last one, or up to a second if very many logs are open."""

    def close_idle(self) -> None:
        """Closes what was not used for a while."""

    def due(self, now: float) -> bool:
        """Whether it is time for a check; ``now`` is monotonic, in seconds."""

    @property
    def due_only_by_time(self) -> bool:
        """Whether the check was due only because time has passed, at the last call of ``due``."""

    @property
    def exists(self) -> bool:
        """Whether the log exists, as far as is known."""

    async def check(self) -> None:
        """Makes the check, in bounded time."""


class CheckOrder:
    """Gives turns to checks that are due only because time has passed, at a limited rate."""

    def __init__(self) -> None:
        """Nothing had a turn yet."""
        self._turns: dict[Checked, int] = {}
        """The number of the turn in which each log's last check was begun."""
        self._turn = 0
        self._allowed = 0.0
        """How many checks may be begun now."""

    def next(self, waiting: list[Checked], most: float) -> list[Checked]:
        """Returns the logs whose turn it is, of those that wait; ``most``: how many more checks are allowed since the last call."""
        self._allowed = min(self._allowed + most, max(most, 1.0))
        waiting.sort(key=lambda log: self._turns.get(log, 0))
        chosen = waiting[: int(self._allowed)]
        for log in chosen:
            self._allowed -= 1
            self._turn += 1
            self._turns[log] = self._turn
        return chosen

    def keep(self, logs: Iterable[Checked]) -> None:
        """Forgets all logs but these."""
        self._turns = {log: self._turns[log] for log in logs if log in self._turns}


class HealthChecks:
    """Checks the open logs in rounds."""

    def __init__(self, logs: Callable[[], Iterable[Checked]], *, every_seconds: float) -> None:
        """Does nothing before ``start``."""
        self._logs = logs
        self._every = every_seconds
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._checking: dict[Checked, asyncio.Task[None]] = {}
        self._troubled: set[Checked] = set()
        """Logs whose last look failed: each is logged once."""
        self._failed: set[Checked] = set()
        """Logs whose last check failed: each is logged once."""
        self._turns, self._looks = CheckOrder(), CheckOrder()
        """Turns of the logs that exist, and of those that do not."""
        self._rounds = RestartedTask("Checking change logs", self._run, longest_seconds=every_seconds)
        self._checks = TaskSet("Checking what change logs need")

    def start(self) -> None:
        """Starts the rounds; a second call does nothing."""
        self._rounds.start()

    async def stop(self) -> None:
        """Stops the rounds and the checks."""
        await self._rounds.stop()
        await self._checks.close()

    async def look_after(self, log: Checked) -> None:
        """Begins a check at once, unless one is under way, and returns when it has ended. If the caller is cancelled, the check goes on."""
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
        """Looks at a log, and begins a check that can't wait; returns whether a check is due that can wait."""
        waits = False
        try:
            log.check_connection()
            if whole:
                log.close_idle()
                if log not in self._checking and log.due(now):
                    waits = log.due_only_by_time
                    if not waits:
                        self._begin(log)
        except Exception:  # noqa: BLE001 (one log's trouble must not end the rounds of the others)
            if log not in self._troubled:
                self._troubled.add(log)
                _log.exception("Checking a change log failed")
        else:
            if whole:
                self._troubled.discard(log)
        return waits

    def _take_turns(self, waiting: list[Checked]) -> None:
        there = self._turns.next([log for log in waiting if log.exists], _PER_SECOND * self._every)
        for log in there + self._looks.next([log for log in waiting if not log.exists], _LOOKS_PER_SECOND * self._every):
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
                _log.exception("Checking what a change log needs failed")
        else:
            self._failed.discard(log)

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """Occupies one of the places, for ``_PLACE_SECONDS`` at most."""
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
