"""The keys with a document, in the order of the keys, for pages."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from ..names import PolicyKey, Scope
from .cells import LOCAL_FROM, key_of, name_of
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

    def after(self, scopes: frozenset[Scope], key: PolicyKey | None) -> Iterator[str]:
        """Yields the names of the keys of some scopes after ``key``, in the order of the keys; None: all. No key may change meanwhile."""
        if key is None:
            orders = [self._orders[scope].after(None) for scope in scopes]
        else:  # the key of the same topic in a greater scope comes after ``key``
            orders = [self._orders[scope].after(name_of(PolicyKey(key.topic, scope)), including=scope > key.scope) for scope in scopes]
        return iter(orders[0]) if len(orders) == 1 else heapq.merge(*orders, key=key_of)
