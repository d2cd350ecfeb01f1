"""When the bookmarks of all streams are due: one timer of the loop for all of them.

Times are kept in slots of ``SLOT_SECONDS``, so thousands of streams cost an entry each and the loop one timer, and a stream that ends is
forgotten at once, however long its interval is.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable
from math import ceil

_LOG = logging.getLogger(__name__)
SLOT_SECONDS = 0.05
"""A bookmark comes so much later than its time, at most."""


class Bookmarks:
    """Tells each stream when its bookmark is due. It belongs to one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """``loop``: whose clock counts."""
        self._loop = loop
        self._slots: dict[int, dict[Callable[[], None], None]] = {}
        self._order: list[int] = []
        """The slots that there are, as a heap."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return sum(map(len, self._slots.values()))

    def expect(self, due: Callable[[], None], seconds: float) -> int:
        """Calls ``due`` once, so many seconds from now. Returns the slot, for ``forget``."""
        slot = ceil((self._loop.time() + seconds) / SLOT_SECONDS)
        waiting = self._slots.get(slot)
        if waiting is None:
            waiting = self._slots[slot] = {}
            heapq.heappush(self._order, slot)
            if self._order[0] == slot:
                self._wind()
        waiting[due] = None
        return slot

    def forget(self, due: Callable[[], None], slot: int) -> None:
        """Ends an ``expect``, if it has not been called."""
        waiting = self._slots.get(slot)
        if waiting is not None:
            waiting.pop(due, None)

    def _wind(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._order[0] * SLOT_SECONDS, self._ring) if self._order else None

    def _ring(self) -> None:
        reached = max(self._loop.time() / SLOT_SECONDS, self._order[0])  # where rounding says that the timer came too early
        while self._order and self._order[0] <= reached:
            for due in self._slots.pop(heapq.heappop(self._order)):
                try:
                    due()
                except Exception:  # noqa: BLE001 (all other streams wait for their bookmarks)
                    _LOG.exception("a stream could not be told that its bookmark is due")
        self._wind()
