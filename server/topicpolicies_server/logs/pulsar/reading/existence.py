"""Checks whether a log that is followed still exists and is still the one that was opened; and asks the brokers where it ends.

pulsar-client does not report a deletion: it connects again for ever, and a tenth of a second after a topic was deleted, that creates it
anew. So the broker is asked from time to time, after each interruption of the connection, and when a new ledger has begun, as happens in a
new topic.

Ledger numbers are never used twice, and a topic that is deleted and created again begins with a new ledger. So entries of a new ledger are
delivered only after the broker has said that the log is still the same (``partition``): an entry of the next log never joins what was read
of this one. When the end stands in a ledger of which nothing was read, the same check comes before that end is used; likewise when no
broker serves the log.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ....core.policies.events import Position
from ....core.reasons import LogState, Reason
from ...change_log import LogError
from ..access import Access
from .following import Following
from .identity import replaced


class Existence:
    """Watches over the existence and the connection of one log that is followed."""

    def __init__(self, access: Access, following: Following) -> None:
        """Begins when the log was just opened and is connected."""
        self._access = access
        self._following = following
        self._name = f"The change log of {following.layout.namespace}"
        self._asked = self._connected = time.monotonic()
        self._ledgers = following.ledgers
        self._interrupted = False
        self._answered = True
        """Whether the last check got an answer."""
        self.due_only_by_time = False
        """Whether the check was due only because time has passed, at the last call of ``due``: such a check may wait its turn."""

    def check_connection(self) -> None:
        """Looks at the connection; called often enough to see nearly every interruption, unless very many logs are open."""
        connected = self._following.connected
        partly = connected or self._following.partly_connected
        self._access.connections.report(self._following.layout.namespace, connected=connected, partly=partly)
        self._interrupted = self._interrupted or not connected

    def due(self, now: float) -> bool:
        """Whether it is time for a check; called about once a second with monotonic seconds."""
        limits = self._access.limits
        connected = self._following.connected
        if connected:
            self._connected = now
        ledgers, before = self._following.ledgers, self._ledgers
        self._ledgers = ledgers
        since = now - self._asked
        gone = now - self._connected
        happened = (
            (ledgers != before and self._following.complete)
            or (connected and self._interrupted)
            or (gone > limits.creation_seconds / 2 and since >= limits.creation_seconds)
        )
        self.due_only_by_time = not happened
        return happened or since >= (limits.check_seconds if self._answered else limits.creation_seconds)

    def given_up(self, now: float) -> LogError | None:
        """Returns an error if the connection was gone for too long, whatever the broker would say."""
        gone = now - self._connected
        if gone > self._access.limits.disconnected_seconds:
            return LogError(LogState.UNREACHABLE, f"{self._name} has been out of reach for {gone:.0f} s.")
        return None

    async def trouble(self, *, surely: bool = False) -> LogError | None:
        """Asks the broker; returns what is wrong with the log, or None if nothing is known to be.

        Args:
            surely: whether None must mean that the log is known to be well.

        Raises:
            LogError: there is no answer and ``surely`` is set, or the answer is not understood.
        """
        self._asked = time.monotonic()
        self._interrupted = not self._following.connected
        self._answered = False
        try:
            trouble = await self._difference() or self._not_reconnected()
            self._answered = True
            if trouble is None and self._following.connected:
                await self._following.keep_up()
            return trouble
        except LogError as error:
            if error.reason == Reason.NAMESPACE_NOT_FOUND:
                return LogError(
                    error.state or error.reason, f"The namespace {self._following.layout.namespace} was deleted.", kind=error.kind
                )
            if error.state is LogState.ADMIN_REFUSED and not self._following.connected:
                return LogError(LogState.ACCESS_DENIED, error.message)
            if surely or error.state not in (LogState.ADMIN_REFUSED, LogState.ADMIN_UNREACHABLE):
                raise
            return None
        finally:
            self._asked = time.monotonic()

    async def _difference(self) -> LogError | None:
        topics, opened = self._access.topics, self._following
        layout = await topics.find(opened.layout.namespace)
        if layout is None:
            return LogError(Reason.LOG_UNAVAILABLE, f"{self._name} was deleted.")
        if layout.partitions != opened.layout.partitions:
            return LogError(
                Reason.LOG_UNAVAILABLE,
                f"{self._name} has {layout.partitions} partitions and no longer {opened.layout.partitions}; it must be opened again.",
            )
        return await replaced(topics, layout, opened.creation, opened.ledgers)

    def _not_reconnected(self) -> LogError | None:
        """Returns an error if the log was not reconnected in time: the library's pauses grow, so opening the log again is quicker."""
        gone = time.monotonic() - self._connected
        if not self._following.connected and gone > self._access.limits.reconnect_seconds:
            return LogError(LogState.UNREACHABLE, f"{self._name} exists, but was not reconnected within {gone:.0f} s.")
        return None


class LogEnd:
    """Finds out where a log that is followed ends."""

    def __init__(self, following: Following, presence: Existence, lost: Callable[[LogError], None]) -> None:
        """``lost`` is called, from the event loop, if the log turns out not to exist any more."""
        self._following = following
        self._presence = presence
        self._lost = lost
        self._ledgers: dict[int, int] = {}
        """By partition: the newest ledger that is known to belong to this log although none of its entries was read."""

    async def end(self, partition: int) -> Position:
        """Returns where a partition ends (``change_log.NamespaceLog.end``).

        Raises:
            LogError: the broker gave no answer, or the log is gone.
        """
        try:
            last = await self._following.last(partition)
        except LogError as error:
            if error.state is LogState.NOT_SERVED:
                await self._make_sure()
            raise
        if last.ledger not in (self._following.ledgers[partition], self._ledgers.get(partition)):
            await self._make_sure()
            self._ledgers[partition] = last.ledger
        return self._following.end(partition, last)

    async def _make_sure(self) -> None:
        trouble = await self._presence.trouble(surely=True)
        if trouble is not None:
            asyncio.get_running_loop().call_soon(self._lost, trouble)
            await asyncio.sleep(0)  # lets ``lost`` run first: callers that see the error turn to the next opening, not to this one
            raise trouble
