"""What is done from time to time for the open logs: each is checked, and the facts about the cluster are requested again.

Looks at connections are made in the task of the rounds itself. A check that asks brokers is a task of its own, at most one per log. The log
that has been due longest is first, and at most ``_PER_SECOND`` checks are begun in a second, for each is a few requests; how many of those
are in flight, ``admin`` bounds. A check that fails is logged if the log was well before.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from weakref import WeakSet

from ...tasks import RestartedTask, TaskSet, asked_to_end
from .facts import CurrentFacts
from .namespace_log import PulsarNamespaceLog

_log = logging.getLogger(__name__)

_PER_SECOND = 30
"""Checks begun per second, for all logs together."""
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
        self._checking: set[PulsarNamespaceLog] = set()
        self._troubled: WeakSet[PulsarNamespaceLog] = WeakSet()
        """Logs of which a look or a check has failed since the last check that did not."""
        self._rounds = RestartedTask("Checking change logs", self._run)
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
        allowed = 0.0
        while True:
            often = max(_CONNECTION_CHECK_SECONDS, min(len(logs) / _CONNECTIONS_PER_SECOND, _RAREST_CHECK_SECONDS))
            await asyncio.sleep(min(often, self._every))
            logs = list(self._logs())
            now = time.monotonic()
            whole = now >= next_round
            due = [(at, number) for number, log in enumerate(logs) if (at := self._look(log, whole=whole)) <= now]
            if not whole:
                continue
            next_round = now + self._every
            if logs and self._facts.due:
                self._checks.begin(self._facts.renew(), "the facts about the cluster")
            most = _PER_SECOND * self._every
            allowed = min(allowed + most, max(most, 1.0))
            for _, number in sorted(due)[: int(allowed)]:
                allowed -= 1
                log = logs[number]
                self._checking.add(log)
                check = self._checks.begin(self._check(log), "a check")
                check.add_done_callback(partial(self._ended, log))

    def _look(self, log: PulsarNamespaceLog, *, whole: bool) -> float:
        """Looks at a log; returns when it is to be checked, if ``whole``, in monotonic seconds."""
        try:
            log.check_connection()
            if whole:
                log.close_idle()
                if log not in self._checking:
                    return log.reader.due_at()
        except Exception as error:  # noqa: BLE001 (one log's trouble must not end the rounds of the others)
            self._note_failure(log, error)
        return float("inf")

    def _ended(self, log: PulsarNamespaceLog, check: object) -> None:
        del check
        self._checking.discard(log)

    async def _check(self, log: PulsarNamespaceLog) -> None:
        try:
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
