"""Where a log that is followed ends, as the brokers say, and that it is still the log that was opened.

Ledgers are numbered once and for all, and a topic that is deleted and created again begins with a new one. So where the end stands in a
ledger of which nothing was read, it is asked first whether the log is still there (``presence``); likewise if nobody serves it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ....core.policies.events import Position
from ....core.reasons import Reason
from ...change_log import LogError
from .existence import Existence
from .following import Following


class Ends:
    """Asks for the ends of one log that is followed."""

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
        trouble = await self._presence.trouble()
        if trouble is not None:
            asyncio.get_running_loop().call_soon(self._lost, trouble)
            await asyncio.sleep(0)  # whoever hears of it asks the next opening, and nobody this one
            raise trouble
