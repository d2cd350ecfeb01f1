"""As of when a namespace's view is known to be complete: watchers are sent that time, and reckon staleness from it.

If no other process can write the log, the view is complete whenever the log is open. Another log is asked where it ends, from time to time
as long as the namespace is watched, also by the process that leads it, which may have a successor and not know it yet; once the view has
come to there, it is complete as of the time of the question. A log that gives no answer is not confirmed, whatever its connection looks
like. A question that fails in any other way is logged and repeated (``RestartedTask``).

All namespaces share a rate of questions (``max_confirmations_per_second``): the more are watched, the more rarely each log is asked.
They wait for it in turn; a namespace that is not watched any more when its turn comes is passed over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from ..core.errors import PolicyError
from ..core.policies.events import Position
from ..logs.change_log import NamespaceLog
from ..tasks import RestartedTask
from .rate import Turns

_LOG = logging.getLogger(__name__)


class Freshness:
    """Finds out as of when the view of one namespace is complete."""

    def __init__(self, now: Callable[[], int], seconds: float, turns: Turns, sole_writer: bool, wanted: Callable[[], bool]) -> None:
        """Asks nothing before a log serves.

        Args:
            now: milliseconds since 1970.
            seconds: the least time between two questions, and how long one may take.
            turns: bounds the rate of the questions of all namespaces.
            sole_writer: whether no other process can write the log, now or once it leads.
            wanted: whether the namespace is watched.
        """
        self._now = now
        self._seconds = seconds
        self._turns = turns
        self._sole_writer = sole_writer
        self._wanted = wanted
        self._log: NamespaceLog | None = None
        self._here: Sequence[Position] = ()
        self._ahead: list[tuple[int, list[Position]]] = []
        """Ends of the log that the view has not come to, and when each was requested: the oldest and the newest."""
        self._confirmed = 0
        self._asking: RestartedTask | None = None

    @property
    def confirmed_ms(self) -> int:
        """As of when the view is known to be complete, in milliseconds since 1970; 0: never."""
        if self._log is not None and self._sole_writer:
            self._confirmed = max(self._confirmed, self._now())
        return self._confirmed

    def serve(self, log: NamespaceLog, here: Sequence[Position], as_of: int) -> None:
        """Begins with a log that serves, and was read to where it ended at ``as_of``; the view has come to ``here``."""
        self.stop()
        self._log, self._here = log, here
        self._confirmed = max(self._confirmed, as_of)
        self.watched()

    def watched(self) -> None:
        """Begins to ask, if the namespace is watched and a log serves."""
        if self._asking is None and self._log is not None and self._wanted():
            log = self._log
            self._asking = RestartedTask(
                "requesting the ends of watched change logs", lambda: self._ask_on(log), longest_seconds=self._seconds
            )
            self._asking.start()

    def stop(self) -> None:
        """Ends asking: no log serves."""
        if self._asking is not None:
            self._asking.cancel()
        self._log = self._asking = None
        self._ahead = []

    def moved(self, here: Sequence[Position]) -> None:
        """Notes how far the view has come."""
        self._here = here
        if self._ahead and (reached := [asked_at for asked_at, ends in self._ahead if _come_to(here, ends)]):
            self._confirmed = max(self._confirmed, *reached)
            self._ahead = [(asked_at, ends) for asked_at, ends in self._ahead if asked_at > self._confirmed]

    async def _ask_on(self, log: NamespaceLog) -> None:
        while self._wanted():
            if not self._sole_writer:
                if not await self._turns.come(log.partitions, self._wanted):
                    continue
                await self._ask(log)
            await asyncio.sleep(self._seconds)
        self._asking = None

    async def _ask(self, log: NamespaceLog) -> None:
        asked_at = self._now()
        try:
            async with asyncio.timeout(self._seconds):
                ends = [await log.end(partition) for partition in range(log.partitions)]
        except (TimeoutError, PolicyError) as error:
            _LOG.debug("the end of a change log can't be requested: %s", error)
        else:
            # The oldest stays: a view that is always behind comes to it, and might never come to one that moves. But one that is not before
            # the new end goes: the log may have found out that there is nothing left to be read before it.
            older = [ahead for ahead in self._ahead if not _come_to(ahead[1], ends)]
            self._ahead = [*older[:1], (asked_at, ends)]
            self.moved(self._here)


def _come_to(here: Sequence[Position], ends: Sequence[Position]) -> bool:
    """Whether a view that stands ``here`` has come to all ends, by partition."""
    return all(mine >= end for mine, end in zip(here, ends, strict=True))
