"""The ring: the recent changes of a namespace, for EVERY watchers that resume. Those that follow have what they are owed themselves."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from ..policies.events import Position
from .heads import Head

RING = 8192
"""Changes that a ring keeps, unless told otherwise."""
RING_BYTES = 64 << 20
"""Bytes of documents that a ring keeps, about."""


class Ring:
    """The changes of one namespace, up to a bound, the oldest first."""

    def __init__(self, most: int, positions: Sequence[Position]) -> None:
        """An empty ring.

        Args:
            most: changes that it keeps.
            positions: behind which it will have everything, by partition.
        """
        self._most = most
        self._changes: deque[Head] = deque()
        self._bytes = 0
        self.horizon = list(positions)
        """Behind which positions it has everything, by partition."""

    def __iter__(self) -> Iterator[Head]:
        return iter(self._changes)

    def start(self, otherwise: int) -> int:
        """The number of its oldest change; ``otherwise`` if it is empty."""
        return self._changes[0].number if self._changes else otherwise

    def append(self, change: Head) -> None:
        """The next change. Those that leave for it lose what was there before them: heads stay for long."""
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
        """What was before these positions may be gone."""
        self._changes.clear()
        self._bytes = 0
        self.horizon = list(positions)


def _size(change: Head) -> int:
    """What a change keeps in memory, about: its document, that before it, and the bytes that are told."""
    return 512 + 3 * change.size
