"""The file: its format, and every statement that writes to it.

::

    PRAGMA application_id = "TPHI"   whose file it is
    PRAGMA user_version   = 2        the format
    namespaces  id, name, followed_until, trimmed_until (milliseconds since 1970)
    streams     id, namespace, log (its identity), partition, position and at of the last entry, the last position that was dropped
    entries     one row for each event; id grows in the order in which they were recorded, and none is given twice
    gaps        id, namespace, since (NULL: the beginning), until, reason
    holes       stream, position, gap: where gaps are in streams: events up to this position may be missing

An entry's ``at`` never goes back within its stream, so (at, id) is the order of the log for each policy key. Every question is answered by
walking an index in that order: by topic or namespace, each with or without an actor, and each by scope (a question about both
scopes is two walks, merged). So the first page costs what is on it, however long the history is. Whoever follows the history walks its
streams in the order of their positions.

Commits are not synchronous: what a power failure takes away, it takes away together with the positions of the streams, so that it is read
from the change log again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ..sqlite_file import FileError, Format, Problem, create_private
from ..sqlite_file import connect as _connect
from ..sqlite_file import prepare as _prepare
from .entries import Followed, Gap, Marks, Row, Stream

APPLICATION_ID = int.from_bytes(b"TPHI", "big")
FORMAT = 2
"""The format that is written and read here."""
COLUMNS = (
    "stream", "position", "namespace", "topic", "scope", "at", "published_at", "kind", "outcome", "actor", "standing",
    "reason", "request_id", "mask", "producer", "version", "previous", "flags", "before", "after", "changed", "problem",
)  # fmt: skip
"""Of ``entries``, but for the id. ``changed`` is empty if the document stayed as it was; then ``before`` is not kept."""

_TABLES = (
    """CREATE TABLE namespaces (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, followed_until INTEGER NOT NULL DEFAULT 0,
    trimmed_until INTEGER NOT NULL DEFAULT 0)""",
    """CREATE TABLE streams (id INTEGER PRIMARY KEY, namespace INTEGER NOT NULL, log TEXT NOT NULL, partition INTEGER NOT NULL,
    position TEXT NOT NULL, at INTEGER NOT NULL, dropped TEXT NOT NULL DEFAULT '', UNIQUE (namespace, log, partition))""",
    """CREATE TABLE entries (id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, position TEXT NOT NULL, namespace INTEGER NOT NULL,
    topic TEXT NOT NULL, scope INTEGER NOT NULL, at INTEGER NOT NULL, published_at INTEGER NOT NULL, kind INTEGER NOT NULL,
    outcome INTEGER NOT NULL, actor TEXT NOT NULL, standing INTEGER NOT NULL, reason TEXT NOT NULL, request_id TEXT NOT NULL,
    mask TEXT NOT NULL,
    producer TEXT NOT NULL, version TEXT NOT NULL, previous TEXT NOT NULL, flags INTEGER NOT NULL, before BLOB, after BLOB,
    changed TEXT NOT NULL, problem TEXT NOT NULL)""",
    "CREATE INDEX by_namespace ON entries (namespace, scope, at)",
    "CREATE INDEX by_namespace_and_actor ON entries (namespace, scope, actor, at)",
    "CREATE INDEX by_topic ON entries (topic, scope, at)",
    "CREATE INDEX by_topic_and_actor ON entries (topic, scope, actor, at)",
    "CREATE INDEX by_version ON entries (topic, scope, version)",
    "CREATE INDEX by_position ON entries (stream, position)",
    """CREATE TABLE gaps (id INTEGER PRIMARY KEY, namespace INTEGER NOT NULL, since INTEGER, until INTEGER NOT NULL,
    reason INTEGER NOT NULL)""",
    "CREATE INDEX gaps_by_time ON gaps (namespace, until)",
    "CREATE TABLE holes (stream INTEGER NOT NULL, position TEXT NOT NULL, gap INTEGER NOT NULL)",
    "CREATE INDEX holes_by_position ON holes (stream, position)",
)


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection to a file that is there (see ``sqlite_file.connect``)."""
    return _connect(path, FORM, read_only=read_only)


def prepare(path: Path) -> sqlite3.Connection:
    """Opens the file for writing; makes it if there is none, readable by its owner only.

    Raises:
        FileError: it can't be made or written, is no history, or is of a newer format.
    """
    create_private(path)
    try:
        connection = connect(path)
    except sqlite3.Error as error:
        raise FileError(Problem.UNUSABLE, f"{path} can't be read: {error}.") from error
    try:
        _prepare(connection, path, FORM)
    except BaseException:
        connection.close()
        raise
    return connection


def _create(connection: sqlite3.Connection) -> None:
    for table in _TABLES:
        connection.execute(table)


FORM = Format("history", APPLICATION_ID, FORMAT, _create, {}, ("synchronous = NORMAL",))


def namespace_id(connection: sqlite3.Connection, name: str) -> int:
    """The id of a namespace, which is added if it is new."""
    connection.execute("INSERT OR IGNORE INTO namespaces (name) VALUES (?)", (name,))
    found: int = connection.execute("SELECT id FROM namespaces WHERE name = ?", (name,)).fetchone()[0]
    return found


def stream_id(connection: sqlite3.Connection, namespace: int, stream: Stream) -> int:
    """The id of a stream, which is added if it is new."""
    key = (namespace, stream.log, stream.partition)
    connection.execute("INSERT OR IGNORE INTO streams (namespace, log, partition, position, at) VALUES (?, ?, ?, '', 0)", key)
    found: int = connection.execute("SELECT id FROM streams WHERE namespace = ? AND log = ? AND partition = ?", key).fetchone()[0]
    return found


def marks(connection: sqlite3.Connection, name: str) -> Marks:
    """How far the history of a namespace goes."""
    known = connection.execute("SELECT id, followed_until FROM namespaces WHERE name = ?", (name,)).fetchone()
    if known is None:
        return Marks(None, {})
    rows = connection.execute("SELECT log, partition, position, at FROM streams WHERE namespace = ?", (known[0],))
    return Marks(known[1], {(log, partition): Stream(name, log, partition, position, at) for log, partition, position, at in rows})


ROWS = 64
"""Entries that are added by one statement: it gives the interpreter's lock away once, and waits to have it again."""


def insert(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Adds up to ``ROWS`` entries; their number is rounded up with empty ones, so that few statements have to be prepared."""
    padded = 1 << (len(rows) - 1).bit_length()
    values = [value for row in rows for value in row]
    connection.execute(_insertion(padded), values + [None] * (len(COLUMNS) * (padded - len(rows))))


@cache
def _insertion(count: int) -> str:
    row = f"({','.join('?' * len(COLUMNS))})"
    rows = ",".join([row] * count)
    return f"INSERT INTO entries ({','.join(COLUMNS)}) SELECT * FROM (VALUES {rows}) WHERE column1 IS NOT NULL"  # noqa: S608 (only our names)


def note_streams(connection: sqlite3.Connection, streams: Sequence[tuple[str, int, int]]) -> None:
    """Sets how far streams are recorded: position, at, id."""
    connection.executemany("UPDATE streams SET position = ?, at = ? WHERE id = ?", streams)


def note_followed(connection: sqlite3.Connection, namespace: int, followed: Followed) -> None:
    """A namespace's log was followed until a time."""
    connection.execute("UPDATE namespaces SET followed_until = ?2 WHERE id = ?1 AND followed_until < ?2", (namespace, followed.until))


def add_gap(connection: sqlite3.Connection, namespace: int, gap: Gap) -> None:
    """Adds a gap."""
    row = (namespace, gap.since, gap.until, gap.reason)
    number = connection.execute("INSERT INTO gaps (namespace, since, until, reason) VALUES (?, ?, ?, ?)", row).lastrowid
    for stream, position in gap.holes:
        hole = (stream.id or stream_id(connection, namespace, stream), position, number)
        connection.execute("INSERT INTO holes (stream, position, gap) VALUES (?, ?, ?)", hole)


def used_bytes(connection: sqlite3.Connection) -> int:
    """How much of the file is in use. It does not get shorter; what is free is used again."""
    count, free, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size"))
    return int((count - free) * size)


_DROPPABLE = "SELECT id, at, namespace, stream, position FROM entries WHERE +id < (SELECT max(id) FROM entries)"
"""The last entry is never dropped, because ids would be given again, and entries of several streams are told in their order."""


def trim_by_age(connection: sqlite3.Connection, before: int, most: int) -> int:
    """Drops up to ``most`` entries of each namespace and scope that are older than a time. Returns how many."""
    dropped = 0
    for (namespace,) in connection.execute("SELECT id FROM namespaces").fetchall():
        for scope in (0, 1, 2):
            query = f"{_DROPPABLE} AND namespace = ? AND scope = ? AND at < ? ORDER BY at LIMIT ?"
            dropped += _drop(connection, connection.execute(query, (namespace, scope, before, most)).fetchall())
        connection.execute(
            "DELETE FROM holes WHERE gap IN (SELECT id FROM gaps WHERE namespace = ? AND until < ?)"
            " AND position <= (SELECT dropped FROM streams WHERE id = stream)",
            (namespace, before),
        )
        connection.execute("DELETE FROM gaps WHERE namespace = ? AND until < ? AND id NOT IN (SELECT gap FROM holes)", (namespace, before))
    return dropped


def trim_oldest(connection: sqlite3.Connection, most: int) -> int:
    """Drops the ``most`` entries that were recorded first. Returns how many there were."""
    return _drop(connection, connection.execute(f"{_DROPPABLE} ORDER BY id LIMIT ?", (most,)).fetchall())


def _drop(connection: sqlite3.Connection, rows: Sequence[tuple[int, int, int, int, str]]) -> int:
    connection.executemany("DELETE FROM entries WHERE id = ?", [(number,) for number, *_ in rows])
    until: dict[int, int] = {}
    dropped: dict[int, str] = {}
    for _, at, namespace, stream, position in rows:
        until[namespace] = max(until.get(namespace, 0), at)
        dropped[stream] = max(dropped.get(stream, ""), position)
    for stream, position in dropped.items():
        connection.execute("UPDATE streams SET dropped = ?2 WHERE id = ?1 AND dropped < ?2", (stream, position))
    for namespace, at in until.items():
        connection.execute("UPDATE namespaces SET trimmed_until = ?2 WHERE id = ?1 AND trimmed_until < ?2", (namespace, at))
    return len(rows)
