"""Keys in their order, as they come and go: sorted blocks of some hundred each, so that no key costs more because there are many."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence

from ..names import PolicyKey

MOST = 512
"""Keys of a block, at most, unless told otherwise."""


class Order:
    """A sorted set of keys."""

    __slots__ = ("_blocks", "_lasts", "_most", "_size")

    def __init__(self, most: int = MOST) -> None:
        """``most``: keys of a block."""
        self._most = most
        self._blocks: list[list[PolicyKey]] = []
        """None is empty, and each is below the next."""
        self._lasts: list[PolicyKey] = []
        """The last key of each."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return len(self._blocks)

    def fill(self, keys: Sequence[PolicyKey]) -> None:
        """Puts keys in that are sorted, where none is yet."""
        self._size = len(keys)
        self._blocks = [list(keys[at : at + self._most]) for at in range(0, len(keys), self._most)]
        self._lasts = [block[-1] for block in self._blocks]

    def add(self, key: PolicyKey) -> None:
        """Puts a key in; it must not be there."""
        self._size += 1
        blocks, lasts = self._blocks, self._lasts
        if not blocks:
            blocks.append([key])
            lasts.append(key)
            return
        at = min(bisect_left(lasts, key), len(lasts) - 1)
        block = blocks[at]
        insort(block, key)
        if len(block) > self._most:
            in_order = at == len(blocks) - 1 and block[-1] is key  # then nothing comes into this block any more
            kept = self._most if in_order else len(block) >> 1
            blocks.insert(at + 1, block[kept:])
            del block[kept:]
            lasts[at : at + 1] = [block[-1], blocks[at + 1][-1]]
        else:
            lasts[at] = block[-1]

    def remove(self, key: PolicyKey) -> None:
        """Takes a key out; it must be there."""
        at = bisect_left(self._lasts, key)
        block = self._blocks[at]
        block.pop(bisect_left(block, key))
        self._size -= 1
        if block:
            self._lasts[at] = block[-1]
        else:
            del self._blocks[at], self._lasts[at]

    def after(self, key: PolicyKey | None) -> Iterator[PolicyKey]:
        """The keys behind one, which need not be there, in order; None: all. Nothing may be put in or taken out meanwhile."""
        first = 0
        if key is not None:
            first = bisect_right(self._lasts, key)
            if first < len(self._blocks):
                block = self._blocks[first]
                yield from block[bisect_right(block, key) :]
            first += 1
        for at in range(first, len(self._blocks)):
            yield from self._blocks[at]
