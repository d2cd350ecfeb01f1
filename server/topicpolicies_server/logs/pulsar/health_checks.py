"""What is done from time to time for the open logs: each is checked, and the facts about the cluster are requested again.

Looks at connections are made in the task of the rounds itself. A check that asks brokers is a task of its own, at most one per log. All
logs share ``_AT_ONCE`` places for checks; one that takes longer than ``_PLACE_SECONDS`` goes on without its place. A check that fails is
logged if the log was well before.

Checks that are due only because time has passed are begun in turn, the log that was checked longest ago first, and at most ``_PER_SECOND``
of them: each is a few requests, and those for about a thousand logs would be a hundred a second. Logs that do not exist have turns of their
own, ``_LOOKS_PER_SECOND``: brokers answer those requests from what they have in memory, and each of these logs is due ten times as often.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from weakref import WeakSet

from ...fair_limit import FairLimiter
from ...tasks import RestartedTask, TaskSet, asked_to_end
from .admin.facts import CurrentFacts
from .namespace_log import PulsarNamespaceLog

_log = logging.getLogger(__name__)

_AT_ONCE = 4
_PER_SECOND = 10
"""Checks begun per second only because time has passed, for all logs together that exist."""
_LOOKS_PER_SECOND = 60
"""Such checks per second for all logs together that do not exist."""
_PLACE_SECONDS = 1.0
"""How long a check may occupy a place."""
_MOST_SLOW = 100_000
"""How many checks may go on without a place."""
_CONNECTION_CHECK_SECONDS = 0.08
_CONNECTIONS_PER_SECOND = 2_500
"""Looks at connections per second, for all logs together: with more than 200 logs, each is looked at more rarely."""
_RAREST_CHECK_SECONDS = 1.0


class HealthChecks:
    """Checks the open logs in rounds."""

    def __init__(self, logs: Callable[[], Iterable[PulsarNamespaceLog]], facts: CurrentFacts, *, every_seconds: float) -> None:
        """Does nothing before ``start``."""
        self._logs = logs
        self._facts = facts
        self._every = every_seconds
        self._places = FairLimiter(_AT_ONCE, _MOST_SLOW, _PLACE_SECONDS)
        self._checking: set[PulsarNamespaceLog] = set()
        self._troubled: WeakSet[PulsarNamespaceLog] = WeakSet()
        """Logs of which a look or a check has failed since the last check that did not."""
        self._allowed = {True: 0.0, False: 0.0}
        """How many checks of logs that exist, and of logs that do not, may be begun now only because time has passed."""
        self._rounds = RestartedTask("Checking change logs", self._run, longest_seconds=every_seconds)
        self._checks = TaskSet("Checking what change logs need")

    def start(self) -> None:
        """Starts the rounds; a second call does nothing."""
        self._rounds.start()

    async def stop(self) -> None:
        """Stops the rounds and the checks."""
        await self._rounds.stop()
        await self._checks.close()

    async def _run(self) -> None:
        next_round = time.monotonic() + self._every
        logs: list[PulsarNamespaceLog] = []
        while True:
            often = max(_CONNECTION_CHECK_SECONDS, min(len(logs) / _CONNECTIONS_PER_SECOND, _RAREST_CHECK_SECONDS))
            await asyncio.sleep(min(often, self._every))
            logs = list(self._logs())
            now = time.monotonic()
            whole = now >= next_round
            waiting = [log for log in logs if self._look(log, now, whole)]
            if whole:
                next_round = now + self._every
                if logs and self._facts.due:
                    self._checks.begin(self._facts.renew(), "the facts about the cluster")
                self._take_turns(waiting, exist=True, most=_PER_SECOND * self._every)
                self._take_turns(waiting, exist=False, most=_LOOKS_PER_SECOND * self._every)

    def _look(self, log: PulsarNamespaceLog, now: float, whole: bool) -> bool:
        """Looks at a log, and begins a check that can't wait; returns whether a check is due that can wait."""
        try:
            log.check_connection()
            if whole:
                log.close_idle()
                if log not in self._checking and log.reader.due(now):
                    if log.reader.due_only_by_time:
                        return True
                    self._begin(log)
        except Exception as error:  # noqa: BLE001 (one log's trouble must not end the rounds of the others)
            self._note_failure(log, error)
        return False

    def _take_turns(self, waiting: Iterable[PulsarNamespaceLog], *, exist: bool, most: float) -> None:
        """Begins checks of the logs whose turn it is; ``most``: how many more are allowed since the last round."""
        allowed = min(self._allowed[exist] + most, max(most, 1.0))
        in_turn = sorted((log for log in waiting if log.reader.exists == exist), key=lambda log: log.reader.checked)[: int(allowed)]
        self._allowed[exist] = allowed - len(in_turn)
        for log in in_turn:
            self._begin(log)

    def _begin(self, log: PulsarNamespaceLog) -> None:
        self._checking.add(log)
        self._checks.begin(self._check(log), "a check").add_done_callback(lambda _: self._checking.discard(log))

    async def _check(self, log: PulsarNamespaceLog) -> None:
        try:
            async with self._places.place(log):
                await log.check()
        except (Exception, asyncio.CancelledError) as error:  # one log's trouble must not end the checks of the others
            if asked_to_end(error):
                raise
            self._note_failure(log, error)
        else:
            self._troubled.discard(log)

    def _note_failure(self, log: PulsarNamespaceLog, error: BaseException) -> None:
        if log not in self._troubled:
            self._troubled.add(log)
            _log.error("Checking the change log of %s failed", log.namespace, exc_info=error)
