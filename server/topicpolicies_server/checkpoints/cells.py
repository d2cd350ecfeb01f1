"""What there is of a key as it stands in the file: frozen, if it is settled, else whole."""

from __future__ import annotations

from ..core.reading import whole
from ..core.reading.cells import key_of
from ..core.reading.frozen import FORMAT, SIZE, freeze
from ..core.reading.resumed import Held
from .file import Row

LATELY, WHOLE = 1, 2
"""Of a row's kind: whether the key had events lately, and whether it stands there whole."""


class Unreadable(ValueError):
    """A row is none of a key."""


def row_of(held: Held) -> Row:
    """The row of a key. It must not change meanwhile."""
    name, kept, lately = held
    if isinstance(kept, bytes):
        return Row(name, lately * LATELY, kept)
    data = freeze(kept.state, kept.head, kept.partition, kept.touched_at)
    if data is not None:
        return Row(name, lately * LATELY, data)
    return Row(name, lately * LATELY | WHOLE, whole.to_bytes(kept))


def held_of(name: str, kind: int, data: bytes) -> Held:
    """The key of a row; one that is frozen stays so, and what is not its beginning is looked at when it is thawed.

    Raises:
        Unreadable: the row is none of a key.
    """
    if kind & WHOLE:
        try:
            return Held(name, whole.from_bytes(key_of(name), data), bool(kind & LATELY))
        except whole.Unreadable as error:
            raise Unreadable(f"{name} can't be read: {error}") from error
    if len(data) < SIZE or data[0] != FORMAT:
        raise Unreadable(f"{name} can't be read")
    return Held(name, data, bool(kind & LATELY))
