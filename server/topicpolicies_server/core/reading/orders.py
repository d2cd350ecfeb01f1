"""The orders in which a view keeps the names of its keys, so that the work for one key does not depend on how many others there are."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import takewhile

from ..names import PolicyKey, Scope
from .cell import LOCAL_FROM, key_of, name_of

WINDOWS = 3
"""How many windows W a key is without an event when it counts as idle: its state is of use for twice W, and clocks may differ by W."""
_AT_A_TIME = 2
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


class ActiveKeys:
    """The keys of one partition that are not idle, by name, the longest without an event first.

    Each event looks at two of them, so that none takes long. The time is the earlier one of the last two events, so that one event with a
    wrong time makes no key idle.
    """

    __slots__ = ("_keys", "_last", "_window_ms", "now")

    def __init__(self, window_ms: int) -> None:
        """Begins without keys. ``window_ms``: W, in milliseconds."""
        self._window_ms = window_ms
        self._keys: OrderedDict[str, int] = OrderedDict()  # finding the first entry of a dict is slow
        """When the last event of each key was published, in milliseconds since 1970."""
        self._last: int | None = None
        """When the last event was published; None: there was none."""
        self.now: int | None = None
        """The time, in milliseconds since 1970; None: there was no event."""

    def begin(self, keys: Iterable[tuple[str, int]], now: int) -> None:
        """Sets the time, and adds keys with the times of their last events, the longest without an event first."""
        self._keys.update(keys)
        self._last = self.now = now

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def remove(self, name: str) -> None:
        """Removes a key that has nothing to be dropped, or whose next event stands in another partition."""
        self._keys.pop(name, None)

    def touch(self, name: str, at: int) -> list[str]:
        """Notes an event of a key. Returns the names of keys that are idle now; these are removed.

        ``at``: when the event was published, in milliseconds since 1970.
        """
        now = self.now = at if self._last is None else min(at, self._last)
        self._last = at
        keys = self._keys
        keys[name] = at
        keys.move_to_end(name)
        idle: list[str] = []
        for _ in range(_AT_A_TIME):
            first, touched_at = next(iter(keys.items()))
            if touched_at < now - WINDOWS * self._window_ms:
                del keys[first]
                idle.append(first)
            elif touched_at > now + self._window_ms:  # from the future: others may be idle before it
                keys.move_to_end(first)
            else:
                break
        return idle
