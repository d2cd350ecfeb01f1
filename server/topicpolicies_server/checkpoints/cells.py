"""A cell as it stands in the file: frozen, if its key is settled, else whole."""

from __future__ import annotations

from ..core.names import PolicyKey
from ..core.reading import frozen, whole
from ..core.reading.heads import Cell

_FROZEN, _FROZEN_LATELY, _WHOLE = b"f", b"l", b"w"
"""How it begins; of a frozen one also whether it had events lately (``core/reading/lately``)."""


class Unreadable(ValueError):
    """Bytes are none of a cell."""


def to_bytes(cell: Cell) -> bytes:
    """A cell as bytes."""
    data = frozen.freeze(cell.state, cell.head, cell.partition, cell.touched_at)
    if data is None:
        return _WHOLE + whole.to_bytes(cell)
    return (_FROZEN_LATELY if cell.lately else _FROZEN) + data


def from_bytes(key: PolicyKey, data: bytes) -> Cell:
    """The cell of a key that bytes tell of.

    Raises:
        Unreadable: they are none.
    """
    kind, data = data[:1], data[1:]
    try:
        if kind == _WHOLE:
            return whole.from_bytes(key, data)
        if kind in (_FROZEN, _FROZEN_LATELY):
            state, head, partition, touched_at = frozen.thaw(key, data)
            cell = Cell(key, partition, state)
            cell.head, cell.touched_at, cell.lately = head, touched_at, kind == _FROZEN_LATELY
            return cell
    except (whole.Unreadable, frozen.Damaged) as error:
        raise Unreadable(f"the cell of {key.topic} can't be read: {error}") from error
    raise Unreadable(f"the cell of {key.topic} is of no known kind")
