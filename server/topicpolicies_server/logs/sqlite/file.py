"""The log's file: its format, whose it is, and the schemas that its payloads were written with.

::

    PRAGMA application_id = "TPLG"   whose file it is
    PRAGMA user_version   = 3        the format
    log         identity: names this file for good; base: rows up to there were given away in an earlier life (one row)
    schemas     id, definition, checksum: the Avro schemas that payloads were written with
    namespaces  id, name, compacted: rows up to there were given away, though they may have been deleted;
                floor, kept, sum: up to the floor row numbers may have gaps, so many rows stand there, and that is the sum of their
                checksums; checksum: of all these
    events      place (the namespace's id and the row number), published_at, schema, checksum, key, properties (JSON),
                payload (NULL: a tombstone); rows may leave out what an older one of their key tells (``slim``)

Rows of a namespace stand together in the file, in the order of the log, because ``place`` is the table's own key. There is no index: a
commit writes the pages of its rows and no others.

Damage shows: what a row holds by its checksum; that one is missing behind the floor by the numbers, which have no gaps there, and below it
by ``kept`` and ``sum``; that the last ones are missing by the mark beside the file (``mark``).
"""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path
from typing import NamedTuple

from ...sqlite_file import Damaged, Format, checksum, transaction
from ...sqlite_file import connect as _connect
from ...sqlite_file import prepare as _prepare
from .floors import check_kept, count, keep, namespaces

APPLICATION_ID = int.from_bytes(b"TPLG", "big")
FORMAT = 3
"""The format that is written here, and the newest that can be read."""
MARKED = 2
"""The first format whose files have a mark beside them."""
AUTOCHECKPOINT_PAGES = 32_000
"""Pages in the write-ahead log after which SQLite moves them by itself; the writer does so long before."""
JOURNAL_BYTES = 16 << 20
"""What a write-ahead log that begins anew keeps of its length."""

_EVENTS = """CREATE TABLE events (place INTEGER PRIMARY KEY, published_at INTEGER NOT NULL, schema INTEGER NOT NULL,
    checksum INTEGER NOT NULL, key TEXT NOT NULL, properties TEXT NOT NULL, payload BLOB)"""
_SCHEMAS = "CREATE TABLE schemas (id INTEGER PRIMARY KEY, definition TEXT NOT NULL UNIQUE, checksum INTEGER NOT NULL)"
_NAMESPACES = """CREATE TABLE namespaces (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, compacted INTEGER NOT NULL,
    floor INTEGER NOT NULL, kept INTEGER NOT NULL, sum INTEGER NOT NULL, checksum INTEGER NOT NULL)"""


class Identity(NamedTuple):
    """Whose positions these are."""

    name: str
    base: int
    """Rows up to there may have been given away before, in whatever namespace."""


def bytes_on_disk(path: Path) -> int:
    """How large a log is, with what was not moved into its file yet."""
    beside = path.with_name(path.name + "-wal")
    return path.stat().st_size + (beside.stat().st_size if beside.exists() else 0)


def connect(path: Path, kind: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
    """A connection to a file that is there (see ``sqlite_file.connect``)."""
    return _connect(path, FORM, kind)


def prepare(connection: sqlite3.Connection, path: Path) -> int:
    """Makes the tables in an empty file, or checks that they are of a format known here (see ``sqlite_file.prepare``)."""
    return _prepare(connection, path, FORM)


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE log (identity TEXT NOT NULL, base INTEGER NOT NULL)")
    for table in (_SCHEMAS, _NAMESPACES, _EVENTS):
        connection.execute(table)
    connection.execute("INSERT INTO log VALUES (?, 0)", (uuid.uuid4().hex,))


def _with_checksums(connection: sqlite3.Connection) -> None:
    """Makes format 2 of format 1, which had no checksums and no base."""
    connection.create_function("checksum", -1, checksum, deterministic=True)
    connection.execute("ALTER TABLE log ADD COLUMN base INTEGER NOT NULL DEFAULT 0")
    for name, table, columns in (
        ("schemas", _SCHEMAS, "id, definition, checksum(id, definition)"),
        ("namespaces", _NAMESPACES, "id, name, floor, floor, 0, 0, 0"),
        (
            "events",
            _EVENTS,
            "place, published_at, schema, checksum(place, published_at, schema, key, properties, payload), key, properties, payload",
        ),
    ):
        connection.execute(f"ALTER TABLE {name} RENAME TO former")
        connection.execute(table)
        connection.execute(f"INSERT INTO {name} SELECT {columns} FROM former")  # noqa: S608 (only our names)
        connection.execute("DROP TABLE former")
    for number, floor in connection.execute("SELECT id, floor FROM namespaces").fetchall():
        keep(connection, number, floor, count(connection, number, floor))


def _with_slim_rows(connection: sqlite3.Connection) -> None:
    """Makes format 3 of format 2, all of whose rows are complete: only releases that know slim ones may read it from now on."""
    del connection


FORM = Format(
    "change log",
    APPLICATION_ID,
    FORMAT,
    _create,
    {1: _with_checksums, 2: _with_slim_rows},
    (
        "synchronous = FULL",  # in WAL mode: every commit is on the disk before it is acknowledged
        f"wal_autocheckpoint = {AUTOCHECKPOINT_PAGES}",
        f"journal_size_limit = {JOURNAL_BYTES}",
    ),
    shrinks=True,
)


def identity(connection: sqlite3.Connection) -> Identity:
    """Whose positions these are."""
    row = connection.execute("SELECT identity, base FROM log").fetchone()
    if row is None:
        raise Damaged("it has lost its identity")
    return Identity(*row)


def begin_anew(connection: sqlite3.Connection, base: int) -> Identity:
    """Gives the file another identity; whatever is appended from now on, in any namespace, comes behind the row ``base``. Commits."""
    begun = Identity(uuid.uuid4().hex, base)
    with transaction(connection):
        for row in namespaces(connection):
            check_kept(row.name, row.kept, count(connection, row.id, row.kept.floor))
            keep(connection, row.id, row.compacted, count(connection, row.id, base))
        connection.execute("UPDATE log SET identity = ?, base = ?", begun)
    return begun


def schema_id(connection: sqlite3.Connection, definition: str) -> int:
    """The id of a schema, which is added if it is new."""
    found = next((number for number, known in schemas(connection).items() if known == definition), None)
    if found is not None:
        return found
    (number,) = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM schemas").fetchone()
    connection.execute("INSERT INTO schemas VALUES (?, ?, ?)", (number, definition, checksum(number, definition)))
    return int(number)


def schemas(connection: sqlite3.Connection) -> dict[int, str]:
    """All schemas by id; a damaged one is missing, so that what was written with it can't be read."""
    rows = connection.execute("SELECT id, definition, checksum FROM schemas")
    return {number: definition for number, definition, sure in rows if sure == checksum(number, definition)}


def hold_still(connection: sqlite3.Connection) -> None:
    """From now on the connection sees the file as it is."""
    connection.execute("BEGIN")
    connection.execute("SELECT identity FROM log").fetchone()  # the first reading begins it


def overwrite_unfinished(connection: sqlite3.Connection) -> None:
    """Commits something that changes nothing, over whatever a commit that failed left in the write-ahead log.

    While another connection is open, nothing is recovered when one is opened: such a commit is not there. But it may stand in the
    write-ahead log with all its pages, and would be there for whoever recovers that after a crash.
    """
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def unused_pages(connection: sqlite3.Connection) -> int:
    """Pages of the file that hold nothing."""
    found: int = connection.execute("PRAGMA freelist_count").fetchone()[0]
    return found


def give_back(connection: sqlite3.Connection, pages_at_most: int) -> None:
    """Takes up to so many unused pages out of the file; it gets shorter with the next checkpoint."""
    connection.executescript(f"PRAGMA incremental_vacuum({int(pages_at_most)})")  # execute would stop after the first page
