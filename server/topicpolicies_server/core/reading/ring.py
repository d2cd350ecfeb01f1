"""The ring: the recent changes of a namespace, so that watchers go on where they stand, and miss nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from ..names import PolicyKey, Scope
from ..policies.events import Position
from .heads import Head

RING = 8192
"""How many changes a ring keeps, by default."""
RING_BYTES = 20 << 20
"""How many bytes of documents a ring keeps, about; they take thrice as much memory with those before them, and serialized."""


class Ring:
    """The changes of one namespace, up to a bound, the oldest first. Their places count all changes that the ring ever had."""

    def __init__(self, most: int, positions: Sequence[Position]) -> None:
        """``positions``: by partition, the position after which the ring will get every change."""
        self._most = most
        self._changes: deque[Head] = deque()
        self._newest: dict[PolicyKey, int] = {}
        """The place of each key's newest change."""
        self._bytes = 0
        self.first = 0
        """The place of the oldest change."""
        self.end = 0
        """The place after the newest change."""
        self.horizon = list(positions)
        """By partition, the position after which the ring has every change."""

    def __iter__(self) -> Iterator[Head]:
        return iter(self._changes)

    def append(self, change: Head) -> None:
        """Adds the next change. Changes that are dropped for it forget the document before them, because heads are kept for long."""
        while self._changes and (len(self._changes) >= self._most or self._bytes + change.size > RING_BYTES):
            self._drop()
        self._newest[change.key] = self.end
        self._changes.append(change)
        self._bytes += change.size
        self.end += 1

    def run(self, at: int, most: int, scopes: frozenset[Scope], *, every: bool) -> tuple[list[Head], int]:
        """Returns at most ``most`` changes of some scopes from a place on, and the place of the next one that is not among them.

        ``every``: also those that newer changes of the same key have superseded.
        """
        changes, newest, first = self._changes, self._newest, self.first
        taken: list[Head] = []
        for place in range(at, self.end):
            change = changes[place - first]
            if change.key.scope in scopes and (every or newest[change.key] == place):
                if len(taken) == most:
                    return taken, place
                taken.append(change)
        return taken, self.end

    def has_lost(self, change: Head) -> bool:
        """Returns whether a change was dropped."""
        return not self._changes or change.number < self._changes[0].number

    def complete_after(self, positions: Sequence[Position]) -> None:
        """Notes that changes before these positions, by partition, may be missing."""
        self.horizon = list(positions)

    def clear(self) -> None:
        """Drops all changes."""
        self._changes.clear()
        self._newest.clear()
        self._bytes = 0
        self.first = self.end

    def _drop(self) -> None:
        if self._newest[self._changes[0].key] == self.first:
            del self._newest[self._changes[0].key]
        gone = self._changes.popleft()
        self._bytes -= gone.size
        self.first += 1
        gone.forget_before()
        if gone.placed is not None:
            partition = gone.placed.partition
            self.horizon[partition] = max(self.horizon[partition], gone.placed.position)
