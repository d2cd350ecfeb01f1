"""As of when a namespace is known to be told of completely: for watchers, who count staleness from there.

A log that nobody else writes is complete whenever it is open. Of another one it is asked where it ends, from time to time as long as
somebody watches; once the view has come to there, it is complete as of the asking. A log that gives no answer is not confirmed, whatever
its connection looks like. A question that fails in any other way is told, and asked again (``tasks.Kept``).

All namespaces together ask so many times in a second (``max_confirmations_per_second``): where more are watched, each is asked more rarely.
One that nobody watches any more when its turn comes is not asked, and takes nobody's turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from ..core.errors import PolicyError
from ..core.policies.events import Position
from ..logs.change_log import NamespaceLog
from ..tasks import Kept
from .rate import Turns

_LOG = logging.getLogger(__name__)


class Freshness:
    """The questions of one namespace."""

    def __init__(
        self, now: Callable[[], int], seconds: float, turns: Turns, shared: Callable[[], bool], wanted: Callable[[], bool]
    ) -> None:
        """Asks nothing before a log serves.

        Args:
            now: milliseconds since 1970.
            seconds: the least time between two questions, and how long one may take.
            turns: of the questions of all namespaces.
            shared: whether others may write the log.
            wanted: whether anybody watches.
        """
        self._now = now
        self._seconds = seconds
        self._turns = turns
        self._shared = shared
        self._wanted = wanted
        self._log: NamespaceLog | None = None
        self._here: Sequence[Position] = ()
        self._told: list[tuple[int, list[Position]]] = []
        """When it was asked where the log ends, and where it did, if the view has not come to there: the first such time, and the last."""
        self._confirmed = 0
        self._asking: Kept | None = None

    @property
    def confirmed_ms(self) -> int:
        """As of when, in milliseconds since 1970; 0: never."""
        if self._log is not None and not self._shared():
            self._confirmed = max(self._confirmed, self._now())
        return self._confirmed

    def serve(self, log: NamespaceLog, here: Sequence[Position], as_of: int) -> None:
        """A log serves, which was read to where it ended at a time; the view has come to ``here``."""
        self.stop()
        self._log, self._here = log, here
        self._confirmed = max(self._confirmed, as_of)
        self.watched()

    def watched(self) -> None:
        """Somebody watches."""
        if self._asking is None and self._log is not None and self._wanted():
            log = self._log
            self._asking = Kept("asking how fresh a change log is", lambda: self._ask_on(log), longest_seconds=self._seconds)
            self._asking.start()

    def stop(self) -> None:
        """No log serves: nothing is confirmed."""
        if self._asking is not None:
            self._asking.cancel()
        self._log = self._asking = None
        self._told = []

    def moved(self, here: Sequence[Position]) -> None:
        """The view has come further."""
        self._here = here
        if reached := [asked_at for asked_at, end in self._told if _reaches(here, end)]:
            self._confirmed = max(self._confirmed, *reached)
            self._told = [told for told in self._told if told[0] > self._confirmed]

    async def _ask_on(self, log: NamespaceLog) -> None:
        while self._wanted():
            if self._shared():
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
            _LOG.debug("where a change log ends can't be asked: %s", error)
        else:
            earlier = [told for told in self._told if not _reaches(told[1], ends)]  # others may wait for what does not come
            self._told = [*earlier[:1], (asked_at, ends)]
            self.moved(self._here)


def _reaches(here: Sequence[Position], end: Sequence[Position]) -> bool:
    return all(mine >= its for mine, its in zip(here, end, strict=True))
