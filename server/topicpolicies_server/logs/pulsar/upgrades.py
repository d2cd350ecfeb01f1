"""The facts about the cluster, requested again while logs are open, because brokers are upgraded in the meantime.

A log writes its brokers' dialect, and puts a key into the partition where that dialect looks for it. Both are fixed when the log is opened.
So when the facts change, the log is lost, and its owner opens it again.

================  =============================================================================================
event             when the next request is due
================  =============================================================================================
an answer         after ``every_seconds``
no answer         after ``soonest_seconds``; the facts that were known stay valid
an event refused  at once, but no sooner than ``soonest_seconds`` after the last request
other facts       after ``every_seconds``, whatever is refused: while brokers are upgraded one after the other, their
                  answers alternate, and logs are not opened again more often than that
================  =============================================================================================
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from ..change_log import LogError
from .admin.facts import PulsarFacts


class Upgrades:
    """The newest facts about the cluster, kept up to date (``health_checks.Checked``)."""

    def __init__(
        self,
        learn: Callable[[], Awaitable[PulsarFacts]],
        changed: Callable[[PulsarFacts], None],
        *,
        every_seconds: float,
        soonest_seconds: float,
    ) -> None:
        """Requests nothing yet.

        Args:
            learn: requests the facts; raises ``LogError``.
            changed: called with new facts that open logs were not opened for.
            every_seconds: how long an answer is used.
            soonest_seconds: the least time between two requests.
        """
        self._learn = learn
        self._changed = changed
        self._every = every_seconds
        self._soonest = min(soonest_seconds, every_seconds)
        self._asking = asyncio.Lock()
        self._facts: PulsarFacts | None = None
        self._expires = 0.0
        """When the next request is due, if no event is refused."""
        self._earliest = 0.0
        """When the next request is due, if an event was refused."""
        self._invalidated = False

    async def facts(self) -> PulsarFacts:
        """Returns the facts, and requests them first if they are too old.

        Raises:
            LogError: the cluster gave no answer.
        """
        async with self._asking:
            if self._facts is None or time.monotonic() >= self._expires:
                return await self._ask()
            return self._facts

    def are_right_for(self, facts: PulsarFacts) -> bool:
        """Whether a log that was opened for some facts fits the newest ones."""
        return self._facts is None or same_for_logs(facts, self._facts)

    def invalidate(self) -> None:
        """Notes that an event was refused because of the facts."""
        self._invalidated = True

    def check_connection(self) -> None:
        """Does nothing: there is no connection."""

    def close_idle(self) -> None:
        """Does nothing: there is nothing to close."""

    due_only_by_time = False
    """False, so that this one check, which serves all logs, does not wait its turn among theirs."""
    exists = True

    def due(self, now: float) -> bool:
        """Whether it is time for a request."""
        return self._facts is not None and now >= (self._earliest if self._invalidated else self._expires)

    async def check(self) -> None:
        """Requests the facts, if that is due."""
        async with self._asking:
            if self.due(time.monotonic()):
                try:
                    await self._ask()
                except LogError:
                    return  # callers that open logs get the error

    async def _ask(self) -> PulsarFacts:
        before = self._facts
        self._expires = self._earliest = time.monotonic() + self._soonest
        facts = await self._learn()
        now = time.monotonic()
        self._facts, self._invalidated = facts, False
        self._expires, self._earliest = now + self._every, now + self._soonest
        if before is not None and not same_for_logs(before, facts):
            self._earliest = self._expires
            self._changed(facts)
        return facts


def same_for_logs(some: PulsarFacts, others: PulsarFacts) -> bool:
    """Whether a log that was opened for some facts fits others. The default number of partitions matters only to new logs."""
    return some._replace(default_partitions=0) == others._replace(default_partitions=0)
