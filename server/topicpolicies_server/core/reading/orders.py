"""The order in which a view keeps the names of its keys, so that the work for one key does not depend on how many others there are."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import takewhile

from ..names import PolicyKey, Scope
from .cell import LOCAL_FROM, key_of, name_of

MOST = 512
"""How many names a block has at most, by default."""


class Order:
    """A sorted set of names, in blocks of some hundred."""

    __slots__ = ("_blocks", "_lasts", "_most")

    def __init__(self, most: int = MOST) -> None:
        """``most``: how many names a block has at most."""
        self._most = most
        self._blocks: list[list[str]] = []
        """Sorted, non-empty blocks; all names of a block are less than those of the next."""
        self._lasts: list[str] = []

    def add(self, name: str) -> None:
        """Adds a name, which must not be there."""
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
        if block:
            self._lasts[at] = block[-1]
        else:
            del self._blocks[at], self._lasts[at]

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


def names_of(order: Order, scopes: frozenset[Scope], after: PolicyKey | None) -> Iterator[str]:
    """Yields the names of the keys of some scopes after a key, in the order of the keys; None: all. No key may change meanwhile."""
    found = [_of_scope(order, scope, after) for scope in scopes]
    return found[0] if len(found) == 1 else heapq.merge(*found, key=key_of)


def _of_scope(order: Order, scope: Scope, after: PolicyKey | None) -> Iterator[str]:
    if after is None:
        names = order.after(LOCAL_FROM if scope is Scope.LOCAL else None)
    else:  # the key of the same topic in a greater scope comes after this one
        names = order.after(name_of(PolicyKey(after.topic, scope)), including=scope > after.scope)
    return names if scope is Scope.LOCAL else takewhile(LOCAL_FROM.__gt__, names)
