"""Changes that several watchers take alike: what is made of them is made once.

A *run* is consecutive changes; whoever tells of them keeps in it what it made of them. A *lot* is what a snapshot has: those that begin
while nothing changes share one, and so its runs. Only the last ``KEPT`` runs of a lot, or of a feed, are kept: those that begin together go
through it at about the same pace, and one that is never read must not hold a copy of the namespace, nor of what was told to each other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence

from .heads import Head
from .places import Token

KEPT = 16
"""Runs of a lot, or of a feed, that are kept."""


class Run:
    """Consecutive changes, and what was made of them."""

    __slots__ = ("_moved", "changes", "end", "known_to", "last", "told")

    def __init__(self, changes: list[Head], end: int, last: int = 0) -> None:
        """Nothing was made of them yet.

        Args:
            changes: which nobody may change.
            end: the place behind them, in what they were taken from.
            last: the number of the last change before that place.
        """
        self.changes = changes
        self.end = end
        self.last = last
        self._moved: tuple[Token, Token] | None = None
        self.known_to: set[object] = set()
        """Who has looked at all of them, and need not again."""
        self.told: dict[Hashable, tuple[bytes, ...]] = {}
        """What readers are told of them, by how they want it told. Whoever tells fills it."""

    def moved(self, token: Token) -> Token:
        """The place behind them of who stood at a place."""
        if self._moved is None or self._moved[0] is not token:
            self._moved = token, token.moved(self.changes)
        return self._moved[1]


class Lot:
    """Heads as they stood at one moment, in order."""

    __slots__ = ("__weakref__", "_heads", "_runs", "number")

    def __init__(self, heads: Sequence[Head], number: int) -> None:
        """``heads``: which nobody may change; ``number``: that of the last change before."""
        self.number = number
        self._heads = heads
        self._runs: OrderedDict[tuple[int, int], Run] = OrderedDict()

    def __len__(self) -> int:
        return len(self._heads)

    def run(self, at: int, most: int) -> Run:
        """At most ``most`` heads from a place on."""
        found = self._runs.get((at, most))
        if found is None:
            heads = list(self._heads[at : at + most])
            found = self._runs[at, most] = Run(heads, at + len(heads))
            if len(self._runs) > KEPT:
                self._runs.popitem(last=False)
        return found


class Reader:
    """One watcher's place in a lot; it lets go of the lot at its end."""

    __slots__ = ("_at", "_lot")

    def __init__(self, lot: Lot) -> None:
        """``lot``: to be read from its beginning."""
        self._lot: Lot | None = lot if len(lot) else None
        self._at = 0

    def __len__(self) -> int:
        return len(self._lot) - self._at if self._lot is not None else 0

    def take(self, most: int) -> Run | None:
        """The next of them; None: there are no more."""
        if self._lot is None:
            return None
        run = self._lot.run(self._at, most)
        self._at = run.end
        if run.end == len(self._lot):
            self._lot = None
        return run

    def clear(self) -> None:
        """Nothing more is taken."""
        self._lot = None
