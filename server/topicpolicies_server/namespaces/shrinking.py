"""What nobody has to do with is made small (``View.settle``), also where no events come any more.

A view that is busy does so itself. After a load, or a burst, much may be left as it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

CELLS = 150
"""Cells that are looked at without a pause, at most: some 2 ms."""
PAUSE_SECONDS = 0.05


class Shrinking(Protocol):
    """What can be made smaller."""

    @property
    def live(self) -> int:
        """Cells that are not small."""

    def settle(self, cells: int) -> int:
        """Makes some of it small; looks at so many cells at most, and returns at how many it has."""


async def shrink(namespaces: Sequence[Shrinking]) -> None:
    """Looks once at each cell that is not small, with pauses."""
    left = CELLS
    for namespace in namespaces:
        cells = namespace.live
        while True:  # also where none is live: the room that they had is taken back
            looked_at = namespace.settle(min(cells, left))
            cells -= max(looked_at, 1)
            left -= looked_at
            if left <= 0:
                await asyncio.sleep(PAUSE_SECONDS)
                left = CELLS
            if cells <= 0:
                break
