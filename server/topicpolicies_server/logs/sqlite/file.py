"""The log's file: its format, its identity, and the schemas that its payloads were written with.

::

    PRAGMA application_id = "TPLG"   marks the file as a change log
    PRAGMA user_version   = 1        the format
    log         (one row) identity: the permanent name of this file; base: row numbers up to it were assigned in an earlier life (``mark``)
    schemas     id, definition, checksum: the Avro schemas that payloads were written with
    namespaces  id, name; compacted: the last row that a compaction may have deleted; checksum: of these columns
    events      place (the namespace's id and the row number), published_at, schema, checksum, key, properties (JSON),
                payload (NULL: a tombstone)

The rows of a namespace stand together in the file, in the order of the log, because ``place`` is the table's primary key. There is no other
index: a commit writes the pages of its rows and no others.

Damage is detected: a changed row by its checksum; missing rows at the end by the mark beside the file (``mark``); any other missing row by
the row numbers, which have no gaps above the namespace's *floor*, the last row that a compaction, or a former life, may have left out.
"""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path
from typing import NamedTuple

from ...sqlite_file import Damaged, Format, checksum, transaction
from ...sqlite_file import connect as _connect
from ...sqlite_file import prepare as _prepare
from .events import ROW_BITS, row_at

APPLICATION_ID = int.from_bytes(b"TPLG", "big")
FORMAT = 1
"""The format that is written and read; a file of any other is refused."""
AUTOCHECKPOINT_PAGES = 32_000
"""Pages in the write-ahead log after which SQLite checkpoints by itself; the writer does so long before."""
MAX_NAMESPACE_ID = (1 << (63 - ROW_BITS)) - 1

_EVENTS = """CREATE TABLE events (place INTEGER PRIMARY KEY, published_at INTEGER NOT NULL, schema INTEGER NOT NULL,
    checksum INTEGER NOT NULL, key TEXT NOT NULL, properties TEXT NOT NULL, payload BLOB)"""
_SCHEMAS = "CREATE TABLE schemas (id INTEGER PRIMARY KEY, definition TEXT NOT NULL UNIQUE, checksum INTEGER NOT NULL)"
_NAMESPACES = """CREATE TABLE namespaces (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, compacted INTEGER NOT NULL,
    checksum INTEGER NOT NULL)"""


class Identity(NamedTuple):
    """The identity of a file in its present life (``mark``); positions are valid only under the identity that they were given out with."""

    name: str
    base: int
    """Row numbers up to this one may have been assigned in an earlier life, in any namespace."""


def connect(path: Path, kind: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
    """A connection to an existing file (see ``sqlite_file.connect``)."""
    return _connect(path, FORM, kind)


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Creates the tables in an empty file, or checks any other (see ``sqlite_file.prepare``)."""
    _prepare(connection, path, FORM)


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE log (identity TEXT NOT NULL, base INTEGER NOT NULL)")
    for table in (_SCHEMAS, _NAMESPACES, _EVENTS):
        connection.execute(table)
    connection.execute("INSERT INTO log VALUES (?, 0)", (uuid.uuid4().hex,))


FORM = Format(
    "change log",
    APPLICATION_ID,
    FORMAT,
    _create,
    (
        "synchronous = FULL",  # in WAL mode: every commit is on the disk before it is acknowledged
        f"wal_autocheckpoint = {AUTOCHECKPOINT_PAGES}",
    ),
)


def identity(connection: sqlite3.Connection) -> Identity:
    """The identity of the file.

    Raises:
        Damaged: the file has none.
    """
    row = connection.execute("SELECT identity, base FROM log").fetchone()
    if row is None:
        raise Damaged("its identity is missing")
    return Identity(*row)


def begin_new_life(connection: sqlite3.Connection, base: int) -> Identity:
    """Begins a new life: gives the file another identity, and lets the rows of every namespace go on behind row ``base``. Commits."""
    begun = Identity(uuid.uuid4().hex, base)
    connection.execute("UPDATE log SET identity = ?, base = ?", begun)
    return begun


class NamespaceRow(NamedTuple):
    """A namespace of the file."""

    id: int
    name: str
    compacted: int
    """The highest row number that a compaction may have deleted."""
    floor: int
    """The highest row number up to which numbers may have gaps: from compactions, and from the end of a former life."""
    last: int
    """The highest row number that was ever assigned, as far as the file can tell."""


_NAMESPACE = """SELECT id, name, compacted, checksum,
    (SELECT max(place) FROM events WHERE place > (id << ?1) AND place < ((id + 1) << ?1)) FROM namespaces"""


def namespaces(connection: sqlite3.Connection) -> list[NamespaceRow]:
    """All namespaces, in the order of their ids.

    Raises:
        Damaged: a namespace is missing, or its row is not what was written.
    """
    base = identity(connection).base
    rows = connection.execute(f"{_NAMESPACE} ORDER BY id", (ROW_BITS,)).fetchall()
    (last,) = connection.execute("SELECT coalesce(max(place), 0) >> ? FROM events", (ROW_BITS,)).fetchone()
    if [row[0] for row in rows] != list(range(1, len(rows) + 1)) or last > len(rows):
        raise Damaged("one of its namespaces is missing")
    return [_namespace(base, *row) for row in rows]


def namespace(connection: sqlite3.Connection, namespace_id: int) -> NamespaceRow:
    """One namespace.

    Raises:
        Damaged: its row is missing, or not what was written.
    """
    row = connection.execute(f"{_NAMESPACE} WHERE id = ?2", (ROW_BITS, namespace_id)).fetchone()
    if row is None:
        raise Damaged(f"the row of its namespace {namespace_id} is missing")
    return _namespace(identity(connection).base, *row)


def _namespace(base: int, number: int, name: str, compacted: int, sure: int, last: int | None) -> NamespaceRow:
    if sure != checksum(number, name, compacted):
        raise Damaged(f"the row of its namespace {number} is not what was written")
    floor = max(base, compacted)
    return NamespaceRow(number, name, compacted, floor, max(floor, row_at(last or 0)))


def add_namespace(connection: sqlite3.Connection, name: str) -> int:
    """Adds a namespace, unless the file has one of this name; returns its id."""
    known = connection.execute("SELECT id FROM namespaces WHERE name = ?", (name,)).fetchone()
    if known is not None:
        return int(known[0])
    (number,) = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM namespaces").fetchone()
    if number > MAX_NAMESPACE_ID:
        raise OverflowError(f"a file holds {MAX_NAMESPACE_ID} namespaces at most")
    connection.execute("INSERT INTO namespaces VALUES (?, ?, 0, ?)", (number, name, checksum(number, name, 0)))
    return int(number)


def note_compaction(connection: sqlite3.Connection, namespace_id: int, row: int) -> None:
    """Records that a compaction may delete rows of a namespace up to ``row`` from now on. Commits."""
    with transaction(connection):
        known = namespace(connection, namespace_id)
        compacted = max(known.compacted, row)
        sure = checksum(namespace_id, known.name, compacted)
        connection.execute("UPDATE namespaces SET compacted = ?, checksum = ? WHERE id = ?", (compacted, sure, namespace_id))


def schema_id(connection: sqlite3.Connection, definition: str) -> int:
    """Returns the id of a schema; adds the schema to the file if it is new."""
    found = next((number for number, known in schemas(connection).items() if known == definition), None)
    if found is not None:
        return found
    (number,) = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM schemas").fetchone()
    connection.execute("INSERT INTO schemas VALUES (?, ?, ?)", (number, definition, checksum(number, definition)))
    return int(number)


def schemas(connection: sqlite3.Connection) -> dict[int, str]:
    """All schemas by id. A damaged one is left out, so that payloads written with it can't be read."""
    rows = connection.execute("SELECT id, definition, checksum FROM schemas")
    return {number: definition for number, definition, sure in rows if sure == checksum(number, definition)}


def begin_snapshot(connection: sqlite3.Connection) -> None:
    """Begins a read transaction: from now on the connection sees the file as it is at this moment."""
    connection.execute("BEGIN")
    connection.execute("SELECT identity FROM log").fetchone()  # BEGIN is deferred: the first read takes the snapshot


def overwrite_unfinished(connection: sqlite3.Connection) -> None:
    """Commits a transaction that changes nothing, over whatever a failed commit left in the write-ahead log.

    A failed commit may stand in the write-ahead log with all its pages. While another connection is open, a new one runs no recovery and
    does not see that commit; but a recovery after a crash would. This overwrites it.
    """
    connection.execute(f"PRAGMA user_version = {FORMAT}")
