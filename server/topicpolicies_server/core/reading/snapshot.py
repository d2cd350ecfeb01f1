"""Heads as they stood at one moment. A frozen one is thawed each time it is read, for that caller alone: the cell stays frozen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias, overload

from ..names import Scope
from .cells import Cells, Trace, key_of
from .frozen_fields import document_size
from .heads import Head

Stood: TypeAlias = "tuple[str, Head | bytes]"
"""The name of a key, and its head, or its frozen cell."""


class Snapshot(Sequence[Head]):
    """Some heads of a view."""

    __slots__ = ("_cells", "_heads")

    def __init__(self, cells: Cells, heads: list[Stood]) -> None:
        """``cells``: the cells that the heads are from. ``heads``: must not be changed any more."""
        self._cells = cells
        self._heads = heads

    def __len__(self) -> int:
        return len(self._heads)

    @overload
    def __getitem__(self, at: int) -> Head: ...

    @overload
    def __getitem__(self, at: slice) -> list[Head]: ...

    def __getitem__(self, at: int | slice) -> Head | list[Head]:
        if isinstance(at, slice):
            return [self._head(*each) for each in self._heads[at]]
        return self._head(*self._heads[at])

    def _head(self, name: str, kept: Head | bytes) -> Head:
        head = self._cells.head_of(name, kept)
        assert head is not None, "it stood there"
        return head


def documents(cells: Cells, scopes: frozenset[Scope]) -> Snapshot:
    """Returns the heads with a document of some scopes, as of now, the oldest change first."""
    heads: list[Stood] = []
    for name, kept in cells.items():
        if key_of(name).scope not in scopes:
            continue
        if isinstance(kept, bytes):
            if document_size(kept) is not None:
                heads.append((name, kept))
        elif kept.head is not None and kept.head.document is not None:
            heads.append((name, kept.head))
    return Snapshot(cells, heads)


def traced(cells: Cells, traces: Iterable[Trace]) -> Snapshot:
    """Returns the heads of some traces."""
    return Snapshot(cells, [(trace.name, trace.kept) for trace in traces])
