"""Freezes cells of the views that are not used (``View.settle``), so that they take less memory, also where no events come any more.

A busy view does so itself. After a load, or a burst, many cells may be left live.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

CELLS = 150
"""Cells that are checked without a pause, at most: some 2 ms."""
PAUSE_SECONDS = 0.05


class Shrinking(Protocol):
    """A view (``core.reading.view.View``), as far as ``shrink`` needs it."""

    @property
    def live(self) -> int:
        """How many cells are not frozen."""

    def settle(self, cells: int) -> int:
        """Freezes cells that are not used; checks at most ``cells`` of them, and returns how many it has checked."""


async def shrink(namespaces: Sequence[Shrinking]) -> None:
    """Checks each live cell once, with pauses."""
    left = CELLS
    for namespace in namespaces:
        cells = namespace.live
        while True:  # also where no cell is live: ``settle`` takes back the room that live cells had
            looked_at = namespace.settle(min(cells, left))
            cells -= max(looked_at, 1)
            left -= looked_at
            if left <= 0:
                await asyncio.sleep(PAUSE_SECONDS)
                left = CELLS
            if cells <= 0:
                break
