"""A sorted set of names, in blocks of some hundred, so that adding or removing a name does not get slower with their number."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence

MOST = 512
"""How many names a block has at most, by default."""


class Order:
    """A sorted set of names."""

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

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return len(self._blocks)

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
