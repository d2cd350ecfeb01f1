"""What has to be looked at from time to time in every open log, in one task for all of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Protocol

_log = logging.getLogger(__name__)

_AT_ONCE = 4
_CONNECTION_CHECK_SECONDS = 0.08


class Checked(Protocol):
    """A log that is looked after."""

    def check_connection(self) -> None:
        """Takes a quick look, at most a tenth of a second after the last one."""

    def close_idle(self) -> None:
        """Closes what was not used for a while."""

    def due(self, now: float) -> bool:
        """Whether it is time to look after the log; ``now`` is monotonic, in seconds."""

    async def check(self) -> None:
        """Does so, in bounded time."""


class HealthChecks:
    """Goes round the open logs."""

    def __init__(self, logs: Callable[[], Iterable[Checked]], *, every_seconds: float) -> None:
        """Does nothing before ``start``."""
        self._logs = logs
        self._every = every_seconds
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._checks: dict[Checked, asyncio.Task[None]] = {}
        self._troubled: set[Checked] = set()
        """Logs that failed when they were looked at last: each is told once."""
        self._failed: set[Checked] = set()
        """Logs that failed when they were looked after last: as above."""
        self._loop_task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins; a second call does nothing."""
        if self._loop_task is None:
            self._loop_task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Ends."""
        tasks = [*self._checks.values(), *([self._loop_task] if self._loop_task is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        next_round = time.monotonic() + self._every
        while True:
            await asyncio.sleep(min(_CONNECTION_CHECK_SECONDS, self._every))
            logs = list(self._logs())
            now = time.monotonic()
            whole = now >= next_round
            if whole:
                next_round = now + self._every
                self._troubled.intersection_update(logs)
                self._failed.intersection_update(logs)
            for log in logs:
                self._look(log, now, whole)

    def _look(self, log: Checked, now: float, whole: bool) -> None:
        try:
            log.check_connection()
            if whole:
                log.close_idle()
                if log not in self._checks and log.due(now):
                    self._checks[log] = asyncio.get_running_loop().create_task(self._check(log))
        except Exception:  # noqa: BLE001 (one log's trouble must not end the rounds of the others)
            if log not in self._troubled:
                self._troubled.add(log)
                _log.exception("Looking at a change log failed")
        else:
            if whole:
                self._troubled.discard(log)

    async def _check(self, log: Checked) -> None:
        try:
            async with self._at_once:
                await log.check()
        except Exception:  # noqa: BLE001 (one log's trouble must not end the rounds of the others)
            if log not in self._failed:
                self._failed.add(log)
                _log.exception("Looking after a change log failed")
        else:
            self._failed.discard(log)
        finally:
            del self._checks[log]
