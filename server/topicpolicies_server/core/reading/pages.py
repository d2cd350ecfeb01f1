"""The keys with a document in their order, for pages."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from ..names import PolicyKey, Scope
from .cells import key_of, name_of
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

    def fill(self, names: Iterable[str]) -> None:
        """These have one, and none had one before."""
        of_scope: dict[Scope, list[str]] = {scope: [] for scope in Scope}
        for name in sorted(names):
            of_scope[key_of(name).scope].append(name)
        for scope, found in of_scope.items():
            self._orders[scope].fill(found)

    def after(self, scopes: frozenset[Scope], key: PolicyKey | None) -> Iterator[str]:
        """The names of the keys of some scopes behind one, in the order of the keys; None: all. None may come or go meanwhile."""
        if key is None:
            orders = [self._orders[scope].after(None) for scope in scopes]
        else:  # of one topic the key of a later scope is still to come
            orders = [self._orders[scope].after(name_of(PolicyKey(key.topic, scope)), including=scope > key.scope) for scope in scopes]
        return iter(orders[0]) if len(orders) == 1 else heapq.merge(*orders, key=key_of)
