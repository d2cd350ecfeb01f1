"""What is told of a frozen key without thawing it (``frozen``). Damaged bytes are mostly not found out here."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ..fold.leftovers import is_of_no_use, joined_at
from ..policies import texts
from ..policies.events import Position
from ..policies.packed import Damaged
from .frozen import DUE, GLANCE, NUMBERS, PLACED, QUOTED, SHOWN, SIZE

NUMBER_AT = 5
"""Where the head's number stands."""


class Glance(NamedTuple):
    """Of a head what tells where it stands."""

    number: int
    """Its number; 0: there is none."""
    partition: int
    place: Position
    placed: bool
    """Whether an event made it."""


def glance(data: bytes) -> Glance:
    """Where the head stands of what was frozen, without thawing it. Damaged bytes are not found out."""
    _, flags, number, _, partition = GLANCE.unpack_from(data)
    place = data[SIZE : data.index(0, SIZE)].decode("utf-8", "surrogatepass")
    return Glance(number, partition, texts.unquoted((place,))[0] if flags & QUOTED else place, bool(flags & PLACED))


def document_size(data: bytes) -> int | None:
    """The bytes of the document of what was frozen (``documents.size``); None: it has none."""
    numbers = NUMBERS.unpack_from(data)
    return numbers[5] if numbers[1] >> SHOWN & 3 else None


def partition_of(data: bytes) -> int:
    """In which partition the last event stands of what was frozen."""
    return int(GLANCE.unpack_from(data)[3])


def is_due(data: bytes) -> bool:
    """Whether a repair is due (``keystate.repair_due``) of what was frozen."""
    return bool(GLANCE.unpack_from(data)[1] & DUE)


def has_leftovers(data: bytes) -> bool:
    """Whether what was frozen keeps what is of use for a while only."""
    return bool(NUMBERS.unpack_from(data)[9] != len(data))


def renumbered(data: bytes, number: int) -> bytes:
    """What was frozen, with another number of its head."""
    return data[:NUMBER_AT] + number.to_bytes(8, "big") + data[NUMBER_AT + 8 :]


def trimmed(data: bytes, now: int, window_ms: int) -> bytes | None:
    """What was frozen, after ``KeyState.trim``; None: to be trimmed it has to be thawed.

    Args:
        data: what was frozen.
        now: milliseconds since 1970.
        window_ms: W, in milliseconds.

    Raises:
        Damaged: it was something else.
    """
    try:
        end = NUMBERS.unpack_from(data)[9]
        idle = is_of_no_use(data[end:], now, window_ms) if end != len(data) else False
    except struct.error as error:
        raise Damaged(str(error)) from error
    return None if idle is None else data[:end] if idle else data


def sighted(data: bytes, now: int, window_ms: int) -> bytes | None:
    """What was frozen, after ``joining.sight``, if nothing of it is missing; None: it may be, or it has to be thawed to be looked at.

    Args:
        data: what was frozen.
        now: milliseconds since 1970.
        window_ms: W, in milliseconds.

    Raises:
        Damaged: it was something else.
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
