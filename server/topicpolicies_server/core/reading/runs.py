"""Changes that several watchers take: what is made of them (tokens, messages) is made once for all.

A *run* is a sequence of consecutive changes; the code that serializes them caches its result in the run. A *lot* has the heads of one
snapshot: watchers that begin while nothing changes share a lot, and so its runs. Only the last ``KEPT`` runs of a lot, or of a feed, are
kept: watchers that begin together read a lot at about the same pace, and a watcher that is never read must keep neither a copy of the
namespace in memory, nor the messages that were made for other watchers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any, Protocol

from .heads import Head
from .places import Token

KEPT = 16
"""How many runs of a lot, or of a feed, are kept."""


class Run:
    """Consecutive changes, and what was made of them."""

    __slots__ = ("_moved", "changes", "checked_by", "end", "last", "serialized")

    def __init__(self, changes: list[Head], end: int, last: int = 0) -> None:
        """A run of which nothing was made yet.

        Args:
            changes: the changes; the list must not be modified any more.
            end: the index after them in the lot or feed that they were taken from.
            last: the number of the last change before that index.
        """
        self.changes = changes
        self.end = end
        self.last = last
        self._moved: tuple[Token, Token] | None = None
        self.checked_by: set[object] = set()
        """The objects that have checked all of these changes already, and need not check them for another watcher."""
        self.serialized: dict[Hashable, Any] = {}
        """The serialized changes, by the form in which watchers want them; filled by the code that sends them."""

    def moved(self, token: Token) -> Token:
        """Returns the token after these changes of a watcher that stood at ``token``."""
        if self._moved is None or self._moved[0] is not token:
            self._moved = token, token.moved(self.changes)
        return self._moved[1]


class LotHeads(Protocol):
    """Heads as they stood at one moment, in order; they may be found only when they are read."""

    def part(self, at: int, most: int) -> list[Head]:
        """Returns at most ``most`` heads from an index on; fewer, or none, if no more were found in one turn."""

    def ends_at(self, at: int) -> bool:
        """Returns whether there is no head at an index and after it."""


class Listed:
    """Heads that are known already."""

    __slots__ = ("_heads",)

    def __init__(self, heads: Sequence[Head]) -> None:
        """``heads``: must not be changed any more."""
        self._heads = heads

    def part(self, at: int, most: int) -> list[Head]:
        """Returns at most ``most`` heads from an index on."""
        return list(self._heads[at : at + most])

    def ends_at(self, at: int) -> bool:
        """Returns whether there is no head at an index and after it."""
        return at >= len(self._heads)


class Lot:
    """Heads as they stood at one moment, in order."""

    __slots__ = ("__weakref__", "_heads", "_runs", "number")

    def __init__(self, heads: LotHeads, number: int) -> None:
        """``number``: that of the view's last change before."""
        self.number = number
        self._heads = heads
        self._runs: OrderedDict[tuple[int, int], Run] = OrderedDict()

    def run(self, at: int, most: int) -> Run:
        """Returns at most ``most`` heads from an index on; fewer, or none, if no more were found in one turn."""
        found = self._runs.get((at, most))
        if found is None:
            heads = self._heads.part(at, most)
            found = Run(heads, at + len(heads))
            if heads:
                self._runs[at, most] = found
                if len(self._runs) > KEPT:
                    self._runs.popitem(last=False)
        return found

    def ends_at(self, at: int) -> bool:
        """Returns whether there is no head at an index and after it."""
        return self._heads.ends_at(at)


class Reader:
    """One watcher's place in a lot; releases the lot when the watcher has read all of it."""

    __slots__ = ("_at", "_lot")

    def __init__(self, lot: Lot) -> None:
        """``lot``: to be read from its beginning."""
        self._lot: Lot | None = lot if not lot.ends_at(0) else None
        self._at = 0

    def __bool__(self) -> bool:
        return self._lot is not None

    def take(self, most: int) -> Run | None:
        """Returns the next at most ``most`` heads; None: there are no more, or none were found in this turn."""
        if self._lot is None:
            return None
        run = self._lot.run(self._at, most)
        self._at = run.end
        if self._lot.ends_at(run.end):
            self._lot = None
        return run if run.changes else None

    def clear(self) -> None:
        """Releases the lot: nothing more is taken from it."""
        self._lot = None
