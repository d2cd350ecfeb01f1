"""The keys with a document in their order, for pages."""

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
        """None has one."""
        self._orders = {scope: Order() for scope in Scope}

    def add(self, key: PolicyKey, name: str) -> None:
        """A key has a document now."""
        self._orders[key.scope].add(name)

    def remove(self, key: PolicyKey, name: str) -> None:
        """It has none any more."""
        self._orders[key.scope].remove(name)

    def fill(self, names: Sequence[str]) -> None:
        """These have one too; they are in order, and stand behind those that had one before."""
        first = bisect_left(names, LOCAL_FROM)
        self._orders[Scope.GLOBAL].fill(names[:first])
        self._orders[Scope.LOCAL].fill(names[first:])

    def after(self, scopes: frozenset[Scope], key: PolicyKey | None) -> Iterator[str]:
        """The names of the keys of some scopes behind one, in the order of the keys; None: all. None may come or go meanwhile."""
        if key is None:
            orders = [self._orders[scope].after(None) for scope in scopes]
        else:  # of one topic the key of a later scope is still to come
            orders = [self._orders[scope].after(name_of(PolicyKey(key.topic, scope)), including=scope > key.scope) for scope in scopes]
        return iter(orders[0]) if len(orders) == 1 else heapq.merge(*orders, key=key_of)
