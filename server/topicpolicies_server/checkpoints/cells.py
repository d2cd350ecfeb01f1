"""The form in which a key's cell is stored in the file."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.reading.cell import rest
from ..core.reading.restorable import KeyCell, KeyCells
from .file import Row

LATELY = 1
"""The bit of a row's kind that says that the key had events lately."""


class UnreadableRow(ValueError):
    """Raised for a row that is no row of a key."""


def row_of(cell: KeyCell) -> Row:
    """Makes the row of a key, whose cell must not change meanwhile."""
    name, kept, lately = cell
    return Row(name, lately * LATELY, kept if isinstance(kept, bytes) else rest(kept))


def key_cells_of(names: Sequence[str], kinds: Sequence[int], cells: Sequence[bytes]) -> KeyCells:
    """Returns the keys of some rows."""
    return KeyCells(names, cells, [name for name, kind in zip(names, kinds, strict=True) if kind & LATELY])
