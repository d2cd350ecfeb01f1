"""Whoever waits until a namespace's view has come to a position."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Sequence

from ..core.policies.events import Position


class Waiting:
    """Waits for positions, by partition."""

    def __init__(self) -> None:
        self._heaps: dict[int, list[tuple[Position, int, asyncio.Future[None]]]] = {}
        self._numbers = itertools.count()

    async def until(self, partition: int, position: Position, seconds: float) -> None:
        """Returns once the view has come to a position of a partition.

        Raises:
            TimeoutError: it did not within so many seconds.
        """
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._heaps.setdefault(partition, []), (position, next(self._numbers), reached))
        try:
            async with asyncio.timeout(seconds):
                await reached
        finally:
            self._forget(partition)

    def _forget(self, partition: int) -> None:
        """Those in front who have what they wanted, or have given up: nothing may ever move the view."""
        heap = self._heaps.get(partition, [])
        while heap and heap[0][2].done():
            heapq.heappop(heap)
        if not heap:
            self._heaps.pop(partition, None)

    def wake(self, positions: Sequence[Position]) -> None:
        """The view has come to these positions, by partition."""
        for partition, heap in list(self._heaps.items()):
            here = positions[partition] if partition < len(positions) else ""  # the log may have come back with fewer partitions
            while heap and (heap[0][0] <= here or heap[0][2].done()):
                reached = heapq.heappop(heap)[2]
                if not reached.done():
                    reached.set_result(None)
            if not heap:
                del self._heaps[partition]
