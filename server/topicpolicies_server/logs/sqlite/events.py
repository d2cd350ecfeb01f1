"""The events in the file: where they stand, and every statement that is run on them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TypeAlias

from ...sqlite_file import Damaged, checksum

ROW_BITS = 40
"""Bits of a place that are the row number; those above are the namespace's id."""

EventRow: TypeAlias = tuple[int, int, int, int, str, str, bytes | None]
"""place, published_at, schema, checksum, key, properties (JSON), payload"""
VALUES = 7
"""Of an event's row."""


def place_of(namespace_id: int, row: int) -> int:
    """Where a namespace's row stands among the events."""
    return (namespace_id << ROW_BITS) | row


def row_at(place: int) -> int:
    """The row number in a place."""
    return place & ((1 << ROW_BITS) - 1)


def checksum_of(place: int, published_at: int, schema: int, key: str, properties: str, payload: bytes | None) -> int:
    """The checksum of an event's row."""
    return checksum(place, published_at, schema, key, properties, payload)


def check(row: EventRow) -> None:
    """Compares an event with its checksum.

    Raises:
        Damaged: it is not what was written.
    """
    place, published_at, schema, sure, key, properties, payload = row
    if checksum_of(place, published_at, schema, key, properties, payload) != sure:
        raise Damaged(f"the event in row {row_at(place)} of namespace {place >> ROW_BITS} is not what was written there")


def insert(connection: sqlite3.Connection, values: list[int | str | bytes | None], rows: int) -> None:
    """Adds and commits ``rows`` rows, given value by value, all of them or none.

    It is one statement, and so one commit and one wait for the interpreter's lock, however many the rows; their number is rounded
    up with empty ones so that few statements have to be prepared.
    """
    padded = 1 << (rows - 1).bit_length()
    connection.execute(_insertion(padded), values + [None] * (VALUES * (padded - rows)))


@cache
def _insertion(rows: int) -> str:
    marks = ",".join([f"({','.join('?' * VALUES)})"] * rows)
    return f"INSERT INTO events SELECT * FROM (VALUES {marks}) WHERE column1 IS NOT NULL"  # noqa: S608 (only question marks)


def holds(connection: sqlite3.Connection, first: int, last: int | None = None) -> bool:
    """Whether an event stands in a place, or in any of those from there to a last one."""
    last = first if last is None else last
    return connection.execute("SELECT 1 FROM events WHERE place BETWEEN ? AND ? LIMIT 1", (first, last)).fetchone() is not None


_ROW = "place, published_at, schema, checksum, key, properties, payload"


def pages(connection: sqlite3.Connection, first: int, last: int, size: int) -> Iterator[Sequence[EventRow]]:
    """The events between two places, in order."""
    cursor = connection.execute(f"SELECT {_ROW} FROM events WHERE place BETWEEN ? AND ? ORDER BY place", (first, last))  # noqa: S608 (ours)
    while page := cursor.fetchmany(size):
        yield page


def at(connection: sqlite3.Connection, place: int) -> EventRow | None:
    """The event in a place; None: there is none."""
    found: EventRow | None = connection.execute(f"SELECT {_ROW} FROM events WHERE place = ?", (place,)).fetchone()  # noqa: S608 (ours)
    return found


def newest_before(connection: sqlite3.Connection, first: int, last: int, published_at: int) -> int | None:
    """The last place in a range that holds something older than a time."""
    found = connection.execute(
        "SELECT place FROM events WHERE place BETWEEN ? AND ? AND published_at < ? ORDER BY place DESC LIMIT 1", (first, last, published_at)
    ).fetchone()
    return None if found is None else int(found[0])


def sizes(connection: sqlite3.Connection, first: int, last: int, size: int) -> list[tuple[int, int]]:
    """The places of up to ``size`` events of a range, newest first, and how large each is, in bytes, roughly."""
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
