"""The keys with a document, in the order of the keys, for pages."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from ..names import PolicyKey, Scope
from ..policies import documents
from .cell import LOCAL_FROM, key_of, name_of
from .cells import Cells
from .heads import Head
from .order import Order


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
