"""The table of events: the *place* of an event, its checksum, and the SQL statements that insert and read events.

A place is the table's primary key: the namespace's id in the high bits, the row number within the namespace in the low ones.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from json.encoder import encode_basestring_ascii
from typing import TypeAlias

from ...sqlite_file import Damaged, checksum, transaction

ROW_BITS = 40
"""How many low bits of a place are the row number; the bits above are the namespace's id."""

EventRow: TypeAlias = tuple[int, int, int, int, str, str, bytes | None]
"""An event's columns: place, published_at, schema, checksum, key, properties (JSON), payload."""
VALUES = 7
"""The number of columns of an event."""


def place_of(namespace_id: int, row: int) -> int:
    """The place of a namespace's row."""
    return (namespace_id << ROW_BITS) | row


def row_at(place: int) -> int:
    """The row number of a place."""
    return place & ((1 << ROW_BITS) - 1)


def checksum_of(place: int, published_at: int, schema: int, key: str, properties: str, payload: bytes | None) -> int:
    """The checksum of an event's row."""
    return checksum(place, published_at, schema, key, properties, payload)


def text_of(properties: Mapping[str, str]) -> str:
    """Encodes the properties of an event as compact JSON. Their names need no escaping."""
    return "{" + ",".join([f'"{name}":{encode_basestring_ascii(value)}' for name, value in properties.items()]) + "}"


def properties_of(text: str) -> dict[str, str]:
    """Decodes the properties of an event.

    Raises:
        ValueError: the text is not a JSON object of strings.
    """
    found = json.loads(text)
    if not isinstance(found, dict) or not all(type(value) is str for value in found.values()):
        raise ValueError("its properties are not strings by name")
    return found


def check(row: EventRow) -> None:
    """Compares an event with its checksum.

    Raises:
        Damaged: the row is not what was written.
    """
    place, published_at, schema, sure, key, properties, payload = row
    if checksum_of(place, published_at, schema, key, properties, payload) != sure:
        raise Damaged(f"the event in row {row_at(place)} of namespace {place >> ROW_BITS} is not what was written there")


def insert(connection: sqlite3.Connection, values: list[int | str | bytes | None], rows: int) -> None:
    """Inserts and commits ``rows`` rows, all of them or none; ``values`` are their columns one after the other.

    One statement inserts all rows, so there is one commit and one wait for the interpreter's lock, however many rows there are. The
    statement's size is rounded up to a power of two with empty rows, so that only few statements have to be prepared.
    """
    padded = 1 << (rows - 1).bit_length()
    connection.execute(_insertion(padded), values + [None] * (VALUES * (padded - rows)))


@cache
def _insertion(rows: int) -> str:
    marks = ",".join([f"({','.join('?' * VALUES)})"] * rows)
    return f"INSERT INTO events SELECT * FROM (VALUES {marks}) WHERE column1 IS NOT NULL"  # noqa: S608 (only question marks)


def holds(connection: sqlite3.Connection, first: int, last: int | None = None) -> bool:
    """Whether an event stands in the place ``first``, or, if ``last`` is given, in any place from ``first`` to ``last``."""
    last = first if last is None else last
    return connection.execute("SELECT 1 FROM events WHERE place BETWEEN ? AND ? LIMIT 1", (first, last)).fetchone() is not None


_ROW = "place, published_at, schema, checksum, key, properties, payload"


def pages(connection: sqlite3.Connection, first: int, last: int, size: int) -> Iterator[Sequence[EventRow]]:
    """Yields the events from place ``first`` to ``last``, in order, in pages of up to ``size``."""
    cursor = connection.execute(f"SELECT {_ROW} FROM events WHERE place BETWEEN ? AND ? ORDER BY place", (first, last))  # noqa: S608 (ours)
    while page := cursor.fetchmany(size):
        yield page


def at(connection: sqlite3.Connection, place: int) -> EventRow | None:
    """The event in a place; None if there is none."""
    found: EventRow | None = connection.execute(f"SELECT {_ROW} FROM events WHERE place = ?", (place,)).fetchone()  # noqa: S608 (ours)
    return found


def newest_before(connection: sqlite3.Connection, first: int, last: int, published_at: int) -> int | None:
    """The last place from ``first`` to ``last`` with an event published before a time; None if there is none."""
    found = connection.execute(
        "SELECT place FROM events WHERE place BETWEEN ? AND ? AND published_at < ? ORDER BY place DESC LIMIT 1", (first, last, published_at)
    ).fetchone()
    return None if found is None else int(found[0])


def sizes(connection: sqlite3.Connection, first: int, last: int, size: int) -> list[tuple[int, int]]:
    """The places of up to ``size`` events of a range, newest first, each with the event's size in bytes, roughly."""
    return connection.execute(
        "SELECT place, length(key) + length(properties) + ifnull(length(payload), 0) FROM events"
        " WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT ?",
        (first, last, size),
    ).fetchall()


def downwards(connection: sqlite3.Connection, first: int, last: int, size: int) -> list[EventRow]:
    """Up to ``size`` events of a range, newest first."""
    return connection.execute(
        f"SELECT {_ROW} FROM events WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT ?",  # noqa: S608 (ours)
        (first, last, size),
    ).fetchall()


def delete(connection: sqlite3.Connection, places: Sequence[int]) -> None:
    """Deletes events, and commits; all of ``places`` or none.

    Raises:
        Damaged: one of them is missing.
    """
    with transaction(connection):
        chosen = f"place IN ({','.join('?' * len(places))})"
        if connection.execute(f"DELETE FROM events WHERE {chosen}", places).rowcount != len(places):  # noqa: S608 (only question marks)
            raise Damaged("some of the events that were to be deleted are missing")
