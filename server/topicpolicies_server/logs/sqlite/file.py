"""The file: its format, and every statement that is run on it.

::

    PRAGMA application_id = "TPLG"   whose file it is
    PRAGMA user_version   = 1        the format
    log         identity: names this file for good (one row)
    schemas     id, definition: the Avro schemas that payloads were written with
    namespaces  id, name, floor: rows up to the floor were given away, though they may have been deleted
    events      place (the namespace's id and the row number), published_at, schema, key, properties (JSON), payload (NULL: a tombstone)

Rows of a namespace stand together in the file, in the order of the log, because ``place`` is the table's own key. There is no index: a
commit writes the pages of its rows and no others.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ...core.errors import Kind
from ...core.reasons import Reason
from ..change_log import LogError

APPLICATION_ID = int.from_bytes(b"TPLG", "big")
FORMAT = 1
"""The format that is written here, and the newest that can be read."""
ROW_BITS = 40
"""Bits of a place that are the row number; those above are the namespace's id."""
MAX_NAMESPACE_ID = (1 << (63 - ROW_BITS)) - 1
BUSY_SECONDS = 5.0
"""How long a statement waits for an operator's tool that has the file locked."""
CACHED_STATEMENTS = 64
AUTOCHECKPOINT_PAGES = 32_000
"""Pages in the write-ahead log after which SQLite moves them by itself; the writer does so long before."""
JOURNAL_BYTES = 16 << 20
"""What a write-ahead log that begins anew keeps of its length."""

_TABLES = (
    "CREATE TABLE log (identity TEXT NOT NULL)",
    "CREATE TABLE schemas (id INTEGER PRIMARY KEY, definition TEXT NOT NULL UNIQUE)",
    "CREATE TABLE namespaces (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, floor INTEGER NOT NULL DEFAULT 0)",
    """CREATE TABLE events (place INTEGER PRIMARY KEY, published_at INTEGER NOT NULL, schema INTEGER NOT NULL,
    key TEXT NOT NULL, properties TEXT NOT NULL, payload BLOB)""",
)

EventRow: TypeAlias = tuple[int, int, int, str, str, bytes | None]
"""place, published_at, schema, key, properties (JSON), payload"""
KeyRow: TypeAlias = tuple[int, int, str, bool]
"""place, published_at, key, whether it is a tombstone"""


class NamespaceRow(NamedTuple):
    """A namespace that the file knows."""

    id: int
    name: str
    last: int
    """The highest row number that was ever given away."""
    floor: int
    """The highest row number that a compaction may have deleted."""


def place_of(namespace_id: int, row: int) -> int:
    """Where a namespace's row stands among the events."""
    return (namespace_id << ROW_BITS) | row


def row_at(place: int) -> int:
    """The row number in a place."""
    return place & ((1 << ROW_BITS) - 1)


def create_private(path: Path) -> None:
    """Makes the file, if there is none, so that only its owner can read it: policies can carry secrets. SQLite's other files inherit this.

    Raises:
        LogError: it can't be made, or not be written.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise LogError(Reason.LOG_FILE_UNUSABLE, f"{path} can't be opened for writing: {error.strerror}.") from error


def connect(path: Path, kind: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
    """A connection to a file that is there, without transactions of its own making, which several threads may use in turn."""
    connection = sqlite3.connect(
        path.as_uri() + "?mode=rw",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        factory=kind,
        cached_statements=CACHED_STATEMENTS,
    )
    connection.execute("PRAGMA synchronous = FULL")  # in WAL mode: every commit is on the disk before it is acknowledged
    connection.execute(f"PRAGMA wal_autocheckpoint = {AUTOCHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_BYTES}")
    return connection


def prepare(connection: sqlite3.Connection, path: Path) -> str:
    """Makes the tables in an empty file, or checks that they are of a format known here; the log's identity.

    Raises:
        LogError: the file is no change log, or of a newer format (FAILED_PRECONDITION, reason ``LOG_FORMAT_UNKNOWN``).
    """
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables == 0 and application in (0, APPLICATION_ID) and version == 0:
            _create(connection)
        elif application != APPLICATION_ID:
            raise LogError(Reason.LOG_FORMAT_UNKNOWN, f"{path} is an SQLite file, but no change log.", kind=Kind.FAILED_PRECONDITION)
        elif version > FORMAT:
            raise LogError(
                Reason.LOG_FORMAT_UNKNOWN,
                f"{path} has format {version}, and this release reads up to {FORMAT}. Use the release that wrote it, or a later one.",
                kind=Kind.FAILED_PRECONDITION,
            )
        _write_ahead(connection, path)
        identity: str = connection.execute("SELECT identity FROM log").fetchone()[0]
    except sqlite3.Error as error:
        raise LogError(Reason.LOG_FILE_UNUSABLE, f"{path} can't be read: {error}.") from error
    return identity


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # must stand before the first table
    connection.execute("BEGIN IMMEDIATE")
    for table in _TABLES:
        connection.execute(table)
    connection.execute("INSERT INTO log VALUES (?)", (uuid.uuid4().hex,))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")


def _write_ahead(connection: sqlite3.Connection, path: Path) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise LogError(
            Reason.LOG_FILE_UNUSABLE, f"{path} is on a file system on which SQLite has no write-ahead log (a network's, perhaps)."
        )


def schema_id(connection: sqlite3.Connection, definition: str) -> int:
    """The id of a schema, which is added if it is new."""
    connection.execute("INSERT OR IGNORE INTO schemas (definition) VALUES (?)", (definition,))
    found: int = connection.execute("SELECT id FROM schemas WHERE definition = ?", (definition,)).fetchone()[0]
    return found


def schemas(connection: sqlite3.Connection) -> dict[int, str]:
    """All schemas by id."""
    return dict(connection.execute("SELECT id, definition FROM schemas"))


def namespaces(connection: sqlite3.Connection) -> list[NamespaceRow]:
    """All namespaces, and how far each has got."""
    return [
        NamespaceRow(number, name, max(floor, row_at(last or 0)), floor)
        for number, name, floor, last in connection.execute(
            "SELECT id, name, floor, (SELECT max(place) FROM events WHERE place > (id << ?1) AND place < ((id + 1) << ?1)) FROM namespaces",
            (ROW_BITS,),
        )
    ]


def add_namespace(connection: sqlite3.Connection, name: str) -> int:
    """Adds a namespace; its id."""
    number = connection.execute("INSERT INTO namespaces (name) VALUES (?)", (name,)).lastrowid
    if number is None or number > MAX_NAMESPACE_ID:
        raise OverflowError(f"a file holds {MAX_NAMESPACE_ID} namespaces at most")
    return number


def insert(connection: sqlite3.Connection, values: list[int | str | bytes | None], count: int) -> None:
    """Adds and commits ``count`` rows, given value by value, all of them or none.

    It is one statement, and so one commit and one wait for the interpreter's lock, however many the rows; their number is rounded
    up with empty ones so that few statements have to be prepared.
    """
    padded = 1 << (count - 1).bit_length()
    connection.execute(_insertion(padded), values + [None] * (6 * (padded - count)))


@cache
def _insertion(count: int) -> str:
    rows = ",".join(["(?,?,?,?,?,?)"] * count)
    return f"INSERT INTO events SELECT * FROM (VALUES {rows}) WHERE column1 IS NOT NULL"  # noqa: S608 (only question marks)


def hold_still(connection: sqlite3.Connection) -> None:
    """From now on the connection sees the file as it is."""
    connection.execute("BEGIN")
    connection.execute("SELECT identity FROM log").fetchone()  # the first reading begins it


def pages(connection: sqlite3.Connection, first: int, last: int, size: int) -> Iterator[Sequence[EventRow]]:
    """The events between two places, in order."""
    cursor = connection.execute(
        "SELECT place, published_at, schema, key, properties, payload FROM events WHERE place BETWEEN ? AND ? ORDER BY place", (first, last)
    )
    while page := cursor.fetchmany(size):
        yield page


def newest_before(connection: sqlite3.Connection, first: int, last: int, published_at: int) -> int | None:
    """The last place in a range that holds something older than a time."""
    found = connection.execute(
        "SELECT place FROM events WHERE place BETWEEN ? AND ? AND published_at < ? ORDER BY place DESC LIMIT 1", (first, last, published_at)
    ).fetchone()
    return None if found is None else int(found[0])


def keys_downwards(connection: sqlite3.Connection, first: int, last: int, size: int) -> list[KeyRow]:
    """Up to ``size`` events of a range without their contents, newest first."""
    return connection.execute(
        "SELECT place, published_at, key, payload IS NULL FROM events WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT ?",
        (first, last, size),
    ).fetchall()


def raise_floor(connection: sqlite3.Connection, namespace_id: int, row: int) -> None:
    """Remembers that rows up to here were given away, before the last of them may be deleted."""
    connection.execute("UPDATE namespaces SET floor = ?2 WHERE id = ?1 AND floor < ?2", (namespace_id, row))


def delete(connection: sqlite3.Connection, places: Sequence[int]) -> None:
    """Deletes and commits, all of these or none."""
    marks = ",".join("?" * len(places))
    connection.execute(f"DELETE FROM events WHERE place IN ({marks})", places)  # noqa: S608 (only question marks)


def unused_pages(connection: sqlite3.Connection) -> int:
    """Pages of the file that hold nothing."""
    found: int = connection.execute("PRAGMA freelist_count").fetchone()[0]
    return found


def give_back(connection: sqlite3.Connection, count: int) -> None:
    """Takes up to so many unused pages out of the file; it gets shorter with the next checkpoint."""
    connection.executescript(f"PRAGMA incremental_vacuum({int(count)})")  # execute would stop after the first page


def checkpoint(connection: sqlite3.Connection, *, truncate: bool = False) -> None:
    """Moves what was committed from the write-ahead log into the file, so that the write-ahead log can begin anew."""
    connection.execute(f"PRAGMA wal_checkpoint({'TRUNCATE' if truncate else 'PASSIVE'})").fetchall()
