"""Whether a log that is followed is still there, and still the one that was opened; and where it ends, as its brokers say.

pulsar-client does not say so: it connects again for ever, and where the topic was deleted, that creates it anew, a tenth of a second later.
So the broker is asked, from time to time, after each interruption of the connection, and when a new ledger has begun, as one does in a
new topic.

Ledgers are numbered once and for all, and a topic that is deleted and created again begins with a new one. So what comes from a new
ledger is handed on when the broker has said since that the log is the same (``partition``): an entry of the next log never joins what was
read of this one. And where the end stands in a ledger of which nothing was read, it is asked first whether the log is still there; likewise
if nobody serves it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ....core.policies.events import Position
from ....core.reasons import Reason
from ...change_log import LogError
from ..access import Access
from ..admin.topics import Layout, Topics

if TYPE_CHECKING:
    from .following import Following


async def replaced(topics: Topics, layout: Layout, creation: str) -> LogError | None:
    """What is wrong with a log that is not the one any more that was created at ``creation``; None: it is.

    Raises:
        LogError: there is no answer.
    """
    name = f"The change log of {layout.namespace}"
    found = await topics.creation(layout)
    if creation in (found, ""):
        return None
    if not found:
        return LogError(Reason.LOG_DELETED, f"{name} was deleted.")
    return LogError(Reason.LOG_REPLACED, f"{name} was deleted and created again; it has to be opened anew.")


class Existence:
    """Watches over one log that is followed."""

    def __init__(self, access: Access, following: Following) -> None:
        """Begins when the log was just opened, connected."""
        self._access = access
        self._following = following
        self._name = f"The change log of {following.layout.namespace}"
        self._asked = self._connected = time.monotonic()
        self._ledgers = following.ledgers
        self._interrupted = False
        self._answered = True
        """Whether there was an answer when it was asked last."""
        self.by_clock = False
        """Whether nothing but time has made it due, when that was asked last: then it may wait for others."""

    def check_connection(self) -> None:
        """Looks at the connection; called often enough to see nearly every interruption, where there are not very many logs."""
        connected = self._following.connected
        partly = connected or self._following.partly_connected
        self._access.contacts.seen(self._following.layout.namespace, connected=connected, partly=partly)
        self._interrupted = self._interrupted or not connected

    def due(self, now: float) -> bool:
        """Whether it is time to ask; called every second or so, ``now`` being monotonic seconds."""
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
        self.by_clock = not happened
        return happened or since >= (limits.check_seconds if self._answered else limits.creation_seconds)

    def given_up(self, now: float) -> LogError | None:
        """The end of waiting for a connection, whatever the broker would say."""
        gone = now - self._connected
        if gone > self._access.limits.disconnected_seconds:
            return LogError(Reason.LOG_UNREACHABLE, f"{self._name} has been out of reach for {gone:.0f} s.")
        return None

    async def trouble(self, *, surely: bool = False) -> LogError | None:
        """Asks; what is wrong with the log, if anything is known to be.

        Args:
            surely: whether it has to be known that nothing is.

        Raises:
            LogError: there is no answer, and it has to be known; or none that is understood.
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
                return LogError(error.reason, f"The namespace {self._following.layout.namespace} was deleted.", kind=error.kind)
            if error.reason == Reason.PULSAR_ADMIN_REFUSED and not self._following.connected:
                return LogError(Reason.LOG_ACCESS_DENIED, error.message)
            if surely or error.reason not in (Reason.PULSAR_ADMIN_REFUSED, Reason.PULSAR_ADMIN_UNREACHABLE):
                raise
            return None
        finally:
            self._asked = time.monotonic()

    async def _difference(self) -> LogError | None:
        topics, opened = self._access.topics, self._following
        layout = await topics.find(opened.layout.namespace)
        if layout is None:
            return LogError(Reason.LOG_DELETED, f"{self._name} was deleted.")
        if layout.partitions != opened.layout.partitions:
            return LogError(
                Reason.LOG_REPARTITIONED,
                f"{self._name} has {layout.partitions} partitions and no longer {opened.layout.partitions}; it has to be opened anew.",
            )
        return await replaced(topics, layout, opened.creation)

    def _not_reconnected(self) -> LogError | None:
        """The library waits longer and longer between attempts; when brokers answer again, opening anew is quicker."""
        gone = time.monotonic() - self._connected
        if not self._following.connected and gone > self._access.limits.reconnect_seconds:
            return LogError(Reason.LOG_UNREACHABLE, f"{self._name} is there, but was not reconnected within {gone:.0f} s.")
        return None


class LogEnd:
    """Asks where one log ends that is followed."""

    def __init__(self, following: Following, presence: Existence, lost: Callable[[LogError], None]) -> None:
        """``lost`` is told, from the loop, if the log turns out not to be there any more."""
        self._following = following
        self._presence = presence
        self._lost = lost
        self._ledgers: dict[int, int] = {}
        """By partition: the last ledger that was found to be the same log's though nothing of it was read."""

    async def end(self, partition: int) -> Position:
        """Where a partition ends (``change_log.NamespaceLog.end``).

        Raises:
            LogError: there is no answer, or the log is gone.
        """
        try:
            last = await self._following.last(partition)
        except LogError as error:
            if error.reason == Reason.LOG_NOT_SERVED:
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
            await asyncio.sleep(0)  # whoever hears of it asks the next opening, and nobody this one
            raise trouble
