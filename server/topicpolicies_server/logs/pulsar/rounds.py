"""What has to be looked at from time to time in every open log, in one task for all of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Protocol

_log = logging.getLogger(__name__)

_AT_ONCE = 4
_GLANCE_SECONDS = 0.08


class LookedAfter(Protocol):
    """A log that is looked after."""

    def glance(self) -> None:
        """Takes a quick look, at most a tenth of a second after the last one."""

    def rest(self) -> None:
        """Closes what was not used for a while."""

    def due(self, now: float) -> bool:
        """Whether it is time to look after the log; ``now`` is monotonic, in seconds."""

    async def look_after(self) -> None:
        """Does so, in bounded time."""


class Rounds:
    """Goes round the open logs."""

    def __init__(self, logs: Callable[[], Iterable[LookedAfter]], *, every_seconds: float) -> None:
        """Does nothing before ``start``."""
        self._logs = logs
        self._every = every_seconds
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._visits: dict[LookedAfter, asyncio.Task[None]] = {}
        self._troubled: set[LookedAfter] = set()
        """Logs that failed when they were looked at last: each is told once."""
        self._unvisitable: set[LookedAfter] = set()
        """Logs that failed when they were looked after last: as above."""
        self._walk: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins; a second call does nothing."""
        if self._walk is None:
            self._walk = asyncio.get_running_loop().create_task(self._go_round())

    async def stop(self) -> None:
        """Ends."""
        tasks = [*self._visits.values(), *([self._walk] if self._walk is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _go_round(self) -> None:
        next_round = time.monotonic() + self._every
        while True:
            await asyncio.sleep(min(_GLANCE_SECONDS, self._every))
            logs = list(self._logs())
            now = time.monotonic()
            whole = now >= next_round
            if whole:
                next_round = now + self._every
                self._troubled.intersection_update(logs)
                self._unvisitable.intersection_update(logs)
            for log in logs:
                self._look(log, now, whole)

    def _look(self, log: LookedAfter, now: float, whole: bool) -> None:
        try:
            log.glance()
            if whole:
                log.rest()
                if log not in self._visits and log.due(now):
                    self._visits[log] = asyncio.get_running_loop().create_task(self._visit(log))
        except Exception:  # noqa: BLE001 (one log's trouble must not end the rounds of the others)
            if log not in self._troubled:
                self._troubled.add(log)
                _log.exception("Looking at a change log failed")
        else:
            if whole:
                self._troubled.discard(log)

    async def _visit(self, log: LookedAfter) -> None:
        try:
            async with self._at_once:
                await log.look_after()
        except Exception:  # noqa: BLE001 (one log's trouble must not end the rounds of the others)
            if log not in self._unvisitable:
                self._unvisitable.add(log)
                _log.exception("Looking after a change log failed")
        else:
            self._unvisitable.discard(log)
        finally:
            del self._visits[log]
