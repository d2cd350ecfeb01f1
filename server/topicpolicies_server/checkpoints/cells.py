"""The form in which a key's cell is stored in the file: frozen if the key is settled, else whole."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.reading import cell_codec
from ..core.reading.cells import Kept, key_of
from ..core.reading.frozen import FORMAT, SIZE, freeze
from ..core.reading.restorable import KeyCell, KeyCells
from .file import Row

LATELY, WHOLE = 1, 2
"""The bits of a row's kind: LATELY, the key had events lately; WHOLE, the cell is stored whole."""


class UnreadableRow(ValueError):
    """Raised for a row that is no row of a key."""


def row_of(cell: KeyCell) -> Row:
    """Makes the row of a key, whose cell must not change meanwhile."""
    name, kept, lately = cell
    if isinstance(kept, bytes):
        return Row(name, lately * LATELY, kept)
    data = freeze(kept.state, kept.head, kept.partition, kept.touched_at)
    if data is not None:
        return Row(name, lately * LATELY, data)
    return Row(name, lately * LATELY | WHOLE, cell_codec.to_bytes(kept))


def key_cells_of(names: Sequence[str], kinds: Sequence[int], cells: Sequence[bytes]) -> KeyCells:
    """Returns the keys of some rows. Frozen cells stay frozen: behind their first bytes they are checked only when they are thawed.

    Raises:
        UnreadableRow: a row is no row of a key.
    """
    if not any(kinds) and min(map(len, cells), default=SIZE) >= SIZE and {cell[0] for cell in cells} <= {FORMAT}:
        return KeyCells(names, cells, ())  # the usual case: all cells are frozen, and no key had events lately
    lately = [name for name, kind in zip(names, kinds, strict=True) if kind & LATELY]
    return KeyCells(names, list(map(_kept_of, names, kinds, cells)), lately)


def _kept_of(name: str, kind: int, data: bytes) -> Kept:
    if kind & WHOLE:
        try:
            return cell_codec.from_bytes(key_of(name), data)
        except cell_codec.Unreadable as error:
            raise UnreadableRow(f"{name} can't be read: {error}") from error
    if len(data) < SIZE or data[0] != FORMAT:
        raise UnreadableRow(f"{name} can't be read")
    return data
