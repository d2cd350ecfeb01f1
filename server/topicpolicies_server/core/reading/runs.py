"""Changes that several watchers take: what is made of them (tokens, messages) is made once for all.

A *run* is a sequence of consecutive changes; the code that serializes them caches its result in the run. A *lot* has the heads of one
snapshot: watchers that begin while nothing changes share a lot, and so its runs. Only the last ``KEPT`` runs of a lot, or of a feed, are
kept: watchers that begin together read a lot at about the same pace, and a watcher that is never read must keep neither a copy of the
namespace in memory, nor the messages that were made for other watchers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence

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
        self.serialized: dict[Hashable, tuple[bytes, ...]] = {}
        """The serialized changes, by the form in which watchers want them; filled by the code that sends them."""

    def moved(self, token: Token) -> Token:
        """Returns the token after these changes of a watcher that stood at ``token``."""
        if self._moved is None or self._moved[0] is not token:
            self._moved = token, token.moved(self.changes)
        return self._moved[1]


class Lot:
    """Heads as they stood at one moment, in order."""

    __slots__ = ("__weakref__", "_heads", "_runs", "number")

    def __init__(self, heads: Sequence[Head], number: int) -> None:
        """``heads``: must not be changed any more; ``number``: that of the view's last change before."""
        self.number = number
        self._heads = heads
        self._runs: OrderedDict[tuple[int, int], Run] = OrderedDict()

    def __len__(self) -> int:
        return len(self._heads)

    def run(self, at: int, most: int) -> Run:
        """Returns at most ``most`` heads from an index on."""
        found = self._runs.get((at, most))
        if found is None:
            heads = list(self._heads[at : at + most])
            found = self._runs[at, most] = Run(heads, at + len(heads))
            if len(self._runs) > KEPT:
                self._runs.popitem(last=False)
        return found


class Reader:
    """One watcher's place in a lot; releases the lot when the watcher has read all of it."""

    __slots__ = ("_at", "_lot")

    def __init__(self, lot: Lot) -> None:
        """``lot``: to be read from its beginning."""
        self._lot: Lot | None = lot if len(lot) else None
        self._at = 0

    def __len__(self) -> int:
        return len(self._lot) - self._at if self._lot is not None else 0

    def take(self, most: int) -> Run | None:
        """Returns the next at most ``most`` heads; None: there are no more."""
        if self._lot is None:
            return None
        run = self._lot.run(self._at, most)
        self._at = run.end
        if run.end == len(self._lot):
            self._lot = None
        return run

    def clear(self) -> None:
        """Releases the lot: nothing more is taken from it."""
        self._lot = None
