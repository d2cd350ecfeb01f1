"""The timer for the bookmarks of all watch streams: one timer of the event loop, however many streams there are.

Due times are kept in slots of ``SLOT_SECONDS``. So each stream costs one entry in a slot, and a stream that ends is forgotten at once,
however long its interval is.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable
from math import ceil

_LOG = logging.getLogger(__name__)
SLOT_SECONDS = 0.05
"""The length of a slot: a bookmark is at most so much later than its due time."""


class Bookmarks:
    """Notifies each stream when its bookmark is due. It belongs to one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """``loop``: its clock and its timers are used."""
        self._loop = loop
        self._slots: dict[int, dict[Callable[[], None], None]] = {}
        self._order: list[int] = []
        """The numbers of the slots in ``_slots``, as a heap."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return sum(map(len, self._slots.values()))

    def schedule(self, due: Callable[[], None], seconds: float) -> int:
        """Has ``due`` called once, after so many seconds. Returns the slot, for ``cancel``."""
        slot = ceil((self._loop.time() + seconds) / SLOT_SECONDS)
        waiting = self._slots.get(slot)
        if waiting is None:
            waiting = self._slots[slot] = {}
            heapq.heappush(self._order, slot)
            if self._order[0] == slot:
                self._set_timer()
        waiting[due] = None
        return slot

    def cancel(self, due: Callable[[], None], slot: int) -> None:
        """Cancels what ``schedule`` planned; does nothing if ``due`` was called already."""
        waiting = self._slots.get(slot)
        if waiting is not None:
            waiting.pop(due, None)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._order[0] * SLOT_SECONDS, self._fire) if self._order else None

    def _fire(self) -> None:
        reached = max(self._loop.time() / SLOT_SECONDS, self._order[0])  # by rounding, the timer may seem to have fired too early
        while self._order and self._order[0] <= reached:
            for due in self._slots.pop(heapq.heappop(self._order)):
                try:
                    due()
                except Exception:  # noqa: BLE001 (all other streams wait for their bookmarks)
                    _LOG.exception("a stream could not be notified that its bookmark is due")
        self._set_timer()
