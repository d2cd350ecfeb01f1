"""What the cluster says of itself, asked again while logs are open, because brokers are upgraded under them.

A log writes in its brokers' dialect, and puts a key into the partition where that dialect looks for it. Both are taken when it is opened,
so when the brokers say something else the log is lost, and whoever follows it opens it anew.

================  =============================================================================================
what happens      when the next question is asked
================  =============================================================================================
an answer         after ``every_seconds``
no answer         after ``soonest_seconds``; what was known holds
a refusal         at once, but ``soonest_seconds`` after the last question at the earliest
another answer    after ``every_seconds``, whatever is refused: while brokers are upgraded one after the other,
                  they take turns in what they say, and logs are not opened anew more often than that
================  =============================================================================================
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from ..change_log import LogError
from .admin.facts import PulsarFacts


class Upgrades:
    """What is known of the cluster now (``health_checks.Checked``)."""

    def __init__(
        self,
        learn: Callable[[], Awaitable[PulsarFacts]],
        changed: Callable[[PulsarFacts], None],
        *,
        every_seconds: float,
        soonest_seconds: float,
    ) -> None:
        """Asks nothing yet.

        Args:
            learn: asks the cluster; raises ``LogError``.
            changed: told of what logs that are open were not opened for.
            every_seconds: how long an answer is believed.
            soonest_seconds: the least time between two questions.
        """
        self._learn = learn
        self._changed = changed
        self._every = every_seconds
        self._soonest = min(soonest_seconds, every_seconds)
        self._asking = asyncio.Lock()
        self._facts: PulsarFacts | None = None
        self._expires = 0.0
        """When the next question is due, if nothing is refused."""
        self._earliest = 0.0
        """When it may be asked, if something is."""
        self._doubted = False

    async def facts(self) -> PulsarFacts:
        """What is known, asked for if that is too old.

        Raises:
            LogError: the cluster does not answer.
        """
        async with self._asking:
            if self._facts is None or time.monotonic() >= self._expires:
                return await self._ask()
            return self._facts

    def are_right_for(self, facts: PulsarFacts) -> bool:
        """Whether a log that was opened for some facts is right for what is known now."""
        return self._facts is None or same_for_logs(facts, self._facts)

    def doubt(self) -> None:
        """Says that something was refused for what is known."""
        self._doubted = True

    def check_connection(self) -> None:
        """Nothing: there is no connection."""

    def close_idle(self) -> None:
        """Nothing: there is nothing to close."""

    by_clock = False
    """There is one for all logs, and it does not wait for them."""
    is_there = True

    def due(self, now: float) -> bool:
        """Whether it is time to ask."""
        return self._facts is not None and now >= (self._earliest if self._doubted else self._expires)

    async def check(self) -> None:
        """Asks."""
        async with self._asking:
            if self.due(time.monotonic()):
                try:
                    await self._ask()
                except LogError:
                    return  # those who open logs are told

    async def _ask(self) -> PulsarFacts:
        before = self._facts
        self._expires = self._earliest = time.monotonic() + self._soonest
        facts = await self._learn()
        now = time.monotonic()
        self._facts, self._doubted = facts, False
        self._expires, self._earliest = now + self._every, now + self._soonest
        if before is not None and not same_for_logs(before, facts):
            self._earliest = self._expires
            self._changed(facts)
        return facts


def same_for_logs(some: PulsarFacts, others: PulsarFacts) -> bool:
    """Whether a log that was opened for some facts is right for others. The default of partitions matters only to logs to come."""
    return some._replace(default_partitions=0) == others._replace(default_partitions=0)
