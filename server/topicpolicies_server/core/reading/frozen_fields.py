"""Reads and changes single fields of a frozen key without thawing it (``frozen``). Most damage to the bytes goes unnoticed here."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ..fold.leftovers import is_of_no_use, joined_at
from ..policies import texts
from ..policies.events import Position
from ..policies.packed import Damaged
from .frozen import DUE, GLANCE, NUMBERS, PLACED, QUOTED, SHOWN, SIZE

NUMBER_AT = 5
"""The byte at which the head's number begins."""


class Glance(NamedTuple):
    """The number and the place of a frozen key's head."""

    number: int
    """The head's number; 0: there is no head."""
    partition: int
    place: Position
    placed: bool
    """Whether an event made the head."""


def glance(data: bytes) -> Glance:
    """Returns number and place of a frozen key's head. Damage goes unnoticed."""
    _, flags, number, _, partition = GLANCE.unpack_from(data)
    place = data[SIZE : data.index(0, SIZE)].decode("utf-8", "surrogatepass")
    return Glance(number, partition, texts.unquoted((place,))[0] if flags & QUOTED else place, bool(flags & PLACED))


def number_of(data: bytes) -> int:
    """Returns the number of a frozen key's head; 0: there is no head."""
    return int.from_bytes(data[NUMBER_AT : NUMBER_AT + 8], "big")


def document_size(data: bytes) -> int | None:
    """Returns the size in bytes of the head's document (``documents.size``); None: there is no document."""
    numbers = NUMBERS.unpack_from(data)
    return numbers[5] if numbers[1] >> SHOWN & 3 else None


def partition_of(data: bytes) -> int:
    """Returns the partition of a frozen key's last event."""
    return int(GLANCE.unpack_from(data)[3])


def is_due(data: bytes) -> bool:
    """Returns whether a repair of a frozen key is due (``keystate.repair_due``)."""
    return bool(GLANCE.unpack_from(data)[1] & DUE)


def has_leftovers(data: bytes) -> bool:
    """Returns whether a frozen key has leftovers, which are needed only for a while (``fold/leftovers``)."""
    return bool(NUMBERS.unpack_from(data)[9] != len(data))


def renumbered(data: bytes, number: int) -> bytes:
    """Returns a frozen key with another number of its head."""
    return data[:NUMBER_AT] + number.to_bytes(8, "big") + data[NUMBER_AT + 8 :]


def trimmed(data: bytes, now: int, window_ms: int) -> bytes | None:
    """Returns a frozen key as ``KeyState.trim`` leaves it; None: it must be thawed to be trimmed.

    Args:
        data: the frozen key.
        now: milliseconds since 1970.
        window_ms: W, in milliseconds.

    Raises:
        Damaged: the bytes are no frozen key.
    """
    try:
        end = NUMBERS.unpack_from(data)[9]
        idle = is_of_no_use(data[end:], now, window_ms) if end != len(data) else False
    except struct.error as error:
        raise Damaged(str(error)) from error
    return None if idle is None else data[:end] if idle else data


def once_all_seen(data: bytes, now: int, window_ms: int) -> bytes | None:
    """Returns a frozen key as ``joining.check_all_seen`` leaves it, if that returns True; None: it does not, or the key must be thawed.

    Args:
        data: the frozen key.
        now: milliseconds since 1970.
        window_ms: W, in milliseconds.

    Raises:
        Damaged: the bytes are no frozen key.
    """
    try:
        end = NUMBERS.unpack_from(data)[9]
        joined = joined_at(data[end:]) if end != len(data) else None
    except struct.error as error:
        raise Damaged(str(error)) from error
    if joined is None:
        return data
    first_at, alone = joined
    if first_at > now - window_ms:
        return None
    if first_at >= now - 2 * window_ms:
        return data
    return data[:end] if alone else None
