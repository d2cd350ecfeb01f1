"""The keys with a document, in the order of the keys, for pages: adding or removing one does not get slower with their number."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from ..names import PolicyKey, Scope
from ..policies import documents
from .cell import LOCAL_FROM, key_of, name_of
from .cells import Cells
from .heads import Head

MOST = 512
"""How many names a block has at most, by default."""


class Order:
    """A sorted set of names, in blocks of some hundred."""

    __slots__ = ("_blocks", "_lasts", "_most", "_size")

    def __init__(self, most: int = MOST) -> None:
        """``most``: how many names a block has at most."""
        self._most = most
        self._blocks: list[list[str]] = []
        """Sorted, non-empty blocks; all names of a block are less than those of the next."""
        self._lasts: list[str] = []
        """The last name of each block."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, name: str) -> None:
        """Adds a name, which must not be there."""
        self._size += 1
        blocks, lasts = self._blocks, self._lasts
        if not blocks:
            blocks.append([name])
            lasts.append(name)
            return
        at = min(bisect_left(lasts, name), len(lasts) - 1)
        block = blocks[at]
        insort(block, name)
        if len(block) > self._most:
            in_order = at == len(blocks) - 1 and block[-1] is name  # names are being added in order: leave this block full
            kept = self._most if in_order else len(block) >> 1
            blocks.insert(at + 1, block[kept:])
            del block[kept:]
            lasts[at : at + 1] = [block[-1], blocks[at + 1][-1]]
        else:
            lasts[at] = block[-1]

    def remove(self, name: str) -> None:
        """Removes a name, which must be there."""
        at = bisect_left(self._lasts, name)
        block = self._blocks[at]
        block.pop(bisect_left(block, name))
        self._size -= 1
        if block:
            self._lasts[at] = block[-1]
        else:
            del self._blocks[at], self._lasts[at]

    def fill(self, names: Sequence[str]) -> None:
        """Adds names that are sorted, and greater than all that are there."""
        blocks = [list(names[at : at + self._most]) for at in range(0, len(names), self._most)]
        self._size += len(names)
        self._blocks += blocks
        self._lasts += [block[-1] for block in blocks]

    def after(self, name: str | None, *, including: bool = False) -> Iterator[str]:
        """Yields the names greater than one, which need not be there, in order; None: all. The set must not change meanwhile.

        ``including``: that name too, if it is there.
        """
        first = 0
        if name is not None:
            bisect = bisect_left if including else bisect_right
            first = bisect(self._lasts, name)
            if first < len(self._blocks):
                block = self._blocks[first]
                yield from block[bisect(block, name) :]
            first += 1
        for at in range(first, len(self._blocks)):
            yield from self._blocks[at]


class Pages:
    """The keys of one view that have a document, by their names."""

    __slots__ = ("_orders",)

    def __init__(self) -> None:
        """Begins without keys."""
        self._orders = {scope: Order() for scope in Scope}

    def add(self, key: PolicyKey, name: str) -> None:
        """Adds a key, which has a document now."""
        self._orders[key.scope].add(name)

    def remove(self, key: PolicyKey, name: str) -> None:
        """Removes a key, which has no document any more."""
        self._orders[key.scope].remove(name)

    def fill(self, names: Sequence[str]) -> None:
        """Adds the names of keys with a document, which are sorted, and greater than those that are there."""
        first = bisect_left(names, LOCAL_FROM)
        self._orders[Scope.GLOBAL].fill(names[:first])
        self._orders[Scope.LOCAL].fill(names[first:])

    def names(self, scopes: frozenset[Scope], after: str) -> Iterator[str]:
        """Yields the names of the keys of some scopes that are greater than one, in order. No key may change meanwhile."""
        return chain.from_iterable(self._orders[scope].after(after) for scope in (Scope.GLOBAL, Scope.LOCAL) if scope in scopes)

    def after(self, scopes: frozenset[Scope], key: PolicyKey | None) -> Iterator[str]:
        """Yields the names of the keys of some scopes after ``key``, in the order of the keys; None: all. No key may change meanwhile."""
        if key is None:
            orders = [self._orders[scope].after(None) for scope in scopes]
        else:  # the key of the same topic in a greater scope comes after ``key``
            orders = [self._orders[scope].after(name_of(PolicyKey(key.topic, scope)), including=scope > key.scope) for scope in scopes]
        return iter(orders[0]) if len(orders) == 1 else heapq.merge(*orders, key=key_of)


def page_of(cells: Cells, names: Iterable[str], most: int, most_bytes: int | None) -> tuple[list[Head], bool]:
    """Returns at most ``most`` heads of some names, up to the one that makes them ``most_bytes`` large, and whether there are more."""
    page: list[Head] = []
    size = 0
    for name in names:
        if len(page) == most or (most_bytes is not None and size >= most_bytes):
            return page, True
        head = cells.peek(name)
        assert head is not None, "it has a document"
        page.append(head)
        size += documents.size(head.document or {})
    return page, False
