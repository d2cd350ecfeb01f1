"""The table of namespaces: the last row of each, and its *floor*, the row up to which row numbers may have gaps.

Gaps come from compactions, and from the end of an earlier life of the file (``mark``). The events up to a floor are counted and their
checksums summed: where the numbers have gaps, nothing else would show that an event is missing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from ...sqlite_file import Damaged, checksum, transaction
from .events import ROW_BITS, place_of, row_at

MAX_NAMESPACE_ID = (1 << (63 - ROW_BITS)) - 1


class KeptRows(NamedTuple):
    """The rows of a namespace up to its floor."""

    floor: int
    """The last row number up to which numbers may have gaps."""
    rows: int
    """How many rows stand there."""
    sum: int
    """The sum of their checksums."""


class NamespaceRow(NamedTuple):
    """A namespace of the file."""

    id: int
    name: str
    last: int
    """The highest row number that was ever assigned."""
    compacted: int
    """The highest row number that a compaction may have deleted."""
    kept: KeptRows


def namespaces(connection: sqlite3.Connection) -> list[NamespaceRow]:
    """All namespaces, in the order of their ids.

    Raises:
        Damaged: a namespace is missing, or its row is not what was written.
    """
    rows = connection.execute(
        "SELECT id, name, compacted, floor, kept, sum, checksum,"
        " (SELECT max(place) FROM events WHERE place > (id << ?1) AND place < ((id + 1) << ?1)) FROM namespaces ORDER BY id",
        (ROW_BITS,),
    ).fetchall()
    (last,) = connection.execute("SELECT coalesce(max(place), 0) >> ? FROM events", (ROW_BITS,)).fetchone()
    if [row[0] for row in rows] != list(range(1, len(rows) + 1)) or last > len(rows):
        raise Damaged("one of its namespaces is missing")
    return [_namespace(*row) for row in rows]


def _namespace(
    number: int, name: str, compacted: int, floor: int, kept: int, total: int, sure: int, last: int | None = None
) -> NamespaceRow:
    if sure != checksum(number, name, compacted, floor, kept, total):
        raise Damaged(f"the row of its namespace {number} is not what was written")
    return NamespaceRow(number, name, max(floor, row_at(last or 0)), compacted, KeptRows(floor, kept, total))


def namespace(connection: sqlite3.Connection, namespace_id: int) -> NamespaceRow:
    """One namespace; its ``last`` is only its floor, because the table of events is not read.

    Raises:
        Damaged: its row is missing, or not what was written.
    """
    row = connection.execute(
        "SELECT id, name, compacted, floor, kept, sum, checksum FROM namespaces WHERE id = ?", (namespace_id,)
    ).fetchone()
    if row is None:
        raise Damaged(f"the row of its namespace {namespace_id} is missing")
    return _namespace(*row)


def add_namespace(connection: sqlite3.Connection, name: str, base: int) -> int:
    """Adds a namespace whose rows begin behind ``base``, unless the file has one of this name; returns its id."""
    known = connection.execute("SELECT id FROM namespaces WHERE name = ?", (name,)).fetchone()
    if known is not None:
        return int(known[0])
    (number,) = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM namespaces").fetchone()
    if number > MAX_NAMESPACE_ID:
        raise OverflowError(f"a file holds {MAX_NAMESPACE_ID} namespaces at most")
    row = (number, name, 0, base, 0, 0)
    connection.execute("INSERT INTO namespaces VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, checksum(*row)))
    return int(number)


def count(connection: sqlite3.Connection, namespace_id: int, floor: int) -> KeptRows:
    """Counts the rows of a namespace up to ``floor``, and sums their checksums."""
    rows, total = connection.execute(
        "SELECT count(*), coalesce(sum(checksum), 0) FROM events WHERE place BETWEEN ? AND ?",
        (place_of(namespace_id, 1), place_of(namespace_id, floor)),
    ).fetchone()
    return KeptRows(floor, rows, total)


def check_kept(name: str, told: KeptRows, found: KeptRows) -> None:
    """Compares the rows that should stand up to a floor (``told``) with those that were found.

    Raises:
        Damaged: they differ.
    """
    if told != found:
        raise Damaged(f"of {name} {found.rows} events stand up to row {told.floor}, where {told.rows} others were kept")


def keep(connection: sqlite3.Connection, namespace_id: int, compacted: int, kept: KeptRows) -> None:
    """Stores what stands up to a namespace's floor, and the last row that a compaction may have deleted. Does not commit."""
    (name,) = connection.execute("SELECT name FROM namespaces WHERE id = ?", (namespace_id,)).fetchone()
    connection.execute(
        "UPDATE namespaces SET compacted = ?, floor = ?, kept = ?, sum = ?, checksum = ? WHERE id = ?",
        (compacted, *kept, checksum(namespace_id, name, compacted, *kept), namespace_id),
    )


def raise_floor(connection: sqlite3.Connection, namespace_id: int, compacted: int, kept: KeptRows) -> None:
    """Stores a new floor, up to which a compaction may now delete events, and what stands there before the first deletion. Commits."""
    with transaction(connection):
        keep(connection, namespace_id, max(namespace(connection, namespace_id).compacted, compacted), kept)


def delete(connection: sqlite3.Connection, namespace_id: int, places: Sequence[int]) -> None:
    """Deletes events up to the floor, and commits; all of ``places`` or none."""
    chosen = f"FROM events WHERE place IN ({','.join('?' * len(places))})"
    with transaction(connection):
        known = namespace(connection, namespace_id)
        floor, rows, whole = known.kept
        (total,) = connection.execute(f"SELECT sum(checksum) {chosen}", places).fetchone()
        if connection.execute(f"DELETE {chosen}", places).rowcount != len(places):
            raise Damaged("some of the events that were to be deleted are missing")
        keep(connection, namespace_id, known.compacted, KeptRows(floor, rows - len(places), whole - total))
