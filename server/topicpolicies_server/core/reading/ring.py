"""The ring: the recent changes of a namespace, from which EVERY watchers resume. Watchers that follow keep their own queues."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from ..policies.events import Position
from .heads import Head

RING = 8192
"""How many changes a ring keeps, by default."""
RING_BYTES = 64 << 20
"""How many bytes of documents a ring keeps, about."""


class Ring:
    """The changes of one namespace, up to a bound, the oldest first."""

    def __init__(self, most: int, positions: Sequence[Position]) -> None:
        """An empty ring.

        Args:
            most: how many changes the ring keeps.
            positions: by partition, the position after which the ring will get every change.
        """
        self._most = most
        self._changes: deque[Head] = deque()
        self._bytes = 0
        self.horizon = list(positions)
        """By partition, the position after which the ring has every change."""

    def __iter__(self) -> Iterator[Head]:
        return iter(self._changes)

    def start(self, otherwise: int) -> int:
        """Returns the number of the oldest change; ``otherwise`` if the ring is empty."""
        return self._changes[0].number if self._changes else otherwise

    def append(self, change: Head) -> None:
        """Adds the next change. Changes that are dropped for it forget the document before them, because heads are kept for long."""
        size = _size(change)
        while self._changes and (len(self._changes) >= self._most or self._bytes + size > RING_BYTES):
            gone = self._changes.popleft()
            self._bytes -= _size(gone)
            gone.forget_before()
            if gone.placed is not None:
                partition = gone.placed.partition
                self.horizon[partition] = max(self.horizon[partition], gone.placed.position)
        self._changes.append(change)
        self._bytes += size

    def clear(self, positions: Sequence[Position]) -> None:
        """Drops all changes; from now on the ring has every change after these positions."""
        self._changes.clear()
        self._bytes = 0
        self.horizon = list(positions)


def _size(change: Head) -> int:
    """Returns about how many bytes a change takes in memory: its document, the document before, and the serialized change."""
    return 512 + 3 * change.size
