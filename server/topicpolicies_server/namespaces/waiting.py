"""Waits until a namespace's view has come to a position.

A wait ends when the view has come there, when its time is over, or when its caller is cancelled. Waits that ended without the view are
dropped when they come to the front of their heap; before they are more than half of it, the heap is rebuilt without them.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Sequence
from typing import NamedTuple

from ..core.policies.events import Position


class _Wait(NamedTuple):
    position: Position
    number: int
    reached: asyncio.Future[None]


class Waiting:
    """Waits for positions, by partition."""

    def __init__(self) -> None:
        """Begins without waits."""
        self._heaps: dict[int, list[_Wait]] = {}
        self._ended: dict[int, int] = {}
        """By partition: how many waits in its heap have ended."""
        self._numbers = itertools.count()

    def __len__(self) -> int:
        """Returns how many waits are kept, including those that have ended."""
        return sum(map(len, self._heaps.values()))

    async def until(self, partition: int, position: Position, seconds: float) -> None:
        """Returns once the view has come to a position of a partition.

        Raises:
            TimeoutError: it did not within so many seconds.
        """
        wait = _Wait(position, next(self._numbers), asyncio.get_running_loop().create_future())
        heapq.heappush(self._heaps.setdefault(partition, []), wait)
        try:
            async with asyncio.timeout(seconds):
                await wait.reached
        except BaseException:
            if not wait.reached.done() or wait.reached.cancelled():  # the view has not ended it
                wait.reached.cancel()
                self._has_ended(partition)
            raise

    def wake(self, positions: Sequence[Position]) -> None:
        """Ends the waits up to where the view has come, by partition. A log may come back with fewer partitions, or more."""
        for partition in [partition for partition in self._heaps if partition < len(positions)]:
            self._clear(partition, positions[partition])

    def _has_ended(self, partition: int) -> None:
        """Counts a wait that ended without the view, and cleans up: the view may never move again."""
        self._ended[partition] = self._ended.get(partition, 0) + 1
        if (heap := self._clear(partition, "")) and 2 * self._ended.get(partition, 0) > len(heap):
            heap[:] = [wait for wait in heap if not wait.reached.done()]
            heapq.heapify(heap)
            self._ended.pop(partition, None)

    def _clear(self, partition: int, here: Position) -> list[_Wait]:
        """Ends the waits for positions up to ``here``, and drops those in front that have ended. Returns the others."""
        heap = self._heaps.get(partition, [])
        while heap and (heap[0].position <= here or heap[0].reached.done()):
            reached = heapq.heappop(heap).reached
            if reached.done():
                self._ended[partition] = max(0, self._ended.get(partition, 0) - 1)
            else:
                reached.set_result(None)
        if not heap:
            self._heaps.pop(partition, None)
            self._ended.pop(partition, None)
        return heap
