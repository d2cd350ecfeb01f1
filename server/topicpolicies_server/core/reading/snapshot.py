"""Heads as they stood at one moment. A frozen one is thawed each time it is read, for that caller alone: the cell stays frozen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias, overload

from .cells import Cells, Trace
from .heads import Head

Stood: TypeAlias = "tuple[str, Head | bytes]"
"""The name of a key, and its head, or its frozen cell."""


class Snapshot(Sequence[Head]):
    """Some heads of a view."""

    __slots__ = ("_cells", "_heads", "_names")

    def __init__(self, cells: Cells, heads: Iterable[Stood] = ()) -> None:
        """``cells``: the cells that the heads are from. ``heads``: each with the name of its key."""
        self._cells = cells
        self._names: list[str] = []
        self._heads: list[Head | bytes] = []
        """The heads of these names. Lists of objects that others have too are released much faster than a tuple for each head."""
        for name, head in heads:
            self._names.append(name)
            self._heads.append(head)

    def __len__(self) -> int:
        return len(self._heads)

    @overload
    def __getitem__(self, at: int) -> Head: ...

    @overload
    def __getitem__(self, at: slice) -> list[Head]: ...

    def __getitem__(self, at: int | slice) -> Head | list[Head]:
        if isinstance(at, slice):
            return [self._head(*each) for each in zip(self._names[at], self._heads[at], strict=True)]
        return self._head(self._names[at], self._heads[at])

    def part(self, at: int, most: int) -> list[Head]:
        """Returns at most ``most`` heads from an index on."""
        return [self._head(*each) for each in zip(self._names[at : at + most], self._heads[at : at + most], strict=True)]

    def ends_at(self, at: int) -> bool:
        """Returns whether there is no head at an index and after it."""
        return at >= len(self._heads)

    def _head(self, name: str, kept: Head | bytes) -> Head:
        head = self._cells.head_of(name, kept)
        assert head is not None, "it stood there"
        return head


def traced(cells: Cells, traces: Iterable[Trace]) -> Snapshot:
    """Returns the heads of some traces."""
    return Snapshot(cells, ((trace.name, trace.kept) for trace in traces))
