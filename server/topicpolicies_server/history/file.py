"""The history's file: its format, and every statement that writes to it.

::

    PRAGMA application_id = "TPHI"   marks the file as a history
    PRAGMA user_version   = 1        the format
    namespaces  id, name, followed_until, trimmed_until (milliseconds since 1970)
    streams     id, namespace, log (its identity), partition, position and at of the last entry, dropped (the last position dropped)
    entries     one row for each event; ids grow in the order of recording, and none is given twice
    gaps        id, namespace, since (NULL: the beginning), until, reason
    holes       stream, position, gap: where a gap lies in a stream: events up to this position may be missing

Each row also has a checksum. A row that does not match its checksum raises ``Damaged``, and no answer is given from it.

An entry's ``at`` never goes back within its stream, so (at, id) is the order of the log for each policy key. Every query walks an index in
that order: by topic or namespace, each with or without an actor, and each by scope (a query for both scopes is two walks, merged). So the
first page costs only what is on it, however long the history is. Readers that follow the history walk its streams by position.

Commits are not synchronous: a power failure removes entries together with the streams' positions, so that the events are read from the
change log again.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from ..sqlite_file import ERRORS, Damaged, Format, checkpoint, checksum, create_private, give_back, is_empty, sizes, unusable
from ..sqlite_file import connect as _connect
from ..sqlite_file import prepare as _prepare
from .entries import UNTIMED, Followed, Gap, Marks, Row, Stream

_log = logging.getLogger(__name__)

APPLICATION_ID = int.from_bytes(b"TPHI", "big")
FORMAT = 1
"""The format that is written and read; a file of any other is refused."""
COLUMNS = (
    "stream", "position", "namespace", "topic", "scope", "at", "published_at", "kind", "outcome", "actor", "standing",
    "reason", "request_id", "mask", "producer", "version", "previous", "flags", "before", "after", "changed", "problem",
    "principal", "claimed", "trace_parent", "action", "clusters", "written",
)  # fmt: skip
"""The columns of ``entries``, except for the id. ``changed`` is empty if the document did not change; then ``before`` is not stored.
``written`` is the event's own document, unless there is none, or the flag AS_AFTER says that it is ``after``."""

_TABLES = (
    """CREATE TABLE namespaces (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, followed_until INTEGER NOT NULL DEFAULT 0,
    trimmed_until INTEGER NOT NULL DEFAULT 0, checksum INTEGER NOT NULL DEFAULT 0)""",
    """CREATE TABLE streams (id INTEGER PRIMARY KEY, namespace INTEGER NOT NULL, log TEXT NOT NULL, partition INTEGER NOT NULL,
    position TEXT NOT NULL, at INTEGER NOT NULL, dropped TEXT NOT NULL DEFAULT '',
    checksum INTEGER NOT NULL DEFAULT 0, UNIQUE (namespace, log, partition))""",
    """CREATE TABLE entries (id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, position TEXT NOT NULL, namespace INTEGER NOT NULL,
    topic TEXT NOT NULL, scope INTEGER NOT NULL, at INTEGER NOT NULL, published_at INTEGER NOT NULL, kind INTEGER NOT NULL,
    outcome INTEGER NOT NULL, actor TEXT NOT NULL, standing INTEGER NOT NULL, reason TEXT NOT NULL, request_id TEXT NOT NULL,
    mask TEXT NOT NULL,
    producer TEXT NOT NULL, version TEXT NOT NULL, previous TEXT NOT NULL, flags INTEGER NOT NULL, before BLOB, after BLOB,
    changed TEXT NOT NULL, problem TEXT NOT NULL, principal TEXT NOT NULL, claimed TEXT NOT NULL, trace_parent TEXT NOT NULL,
    action INTEGER NOT NULL, clusters TEXT NOT NULL, written BLOB, checksum INTEGER NOT NULL)""",
    "CREATE INDEX by_namespace ON entries (namespace, scope, at)",
    "CREATE INDEX by_namespace_and_actor ON entries (namespace, scope, actor, at)",
    "CREATE INDEX by_topic ON entries (topic, scope, at)",
    "CREATE INDEX by_topic_and_actor ON entries (topic, scope, actor, at)",
    "CREATE INDEX by_version ON entries (topic, scope, version)",
    "CREATE INDEX by_position ON entries (stream, position)",
    """CREATE TABLE gaps (id INTEGER PRIMARY KEY, namespace INTEGER NOT NULL, since INTEGER, until INTEGER NOT NULL,
    reason INTEGER NOT NULL, checksum INTEGER NOT NULL DEFAULT 0)""",
    "CREATE INDEX gaps_by_time ON gaps (namespace, until)",
    "CREATE TABLE holes (stream INTEGER NOT NULL, position TEXT NOT NULL, gap INTEGER NOT NULL, checksum INTEGER NOT NULL DEFAULT 0)",
    "CREATE INDEX holes_by_position ON holes (stream, position)",
)


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Opens a connection to a file that exists (see ``sqlite_file.connect``)."""
    return _connect(path, FORM, read_only=read_only)


def look(path: Path) -> None:
    """Checks the file that stands at ``path``, if one does. Changes nothing, and leaves no other file beside it.

    Raises:
        FileError: the file is no history, has another format, can't be read, or does not say how far it goes.
    """
    if not path.exists() or path.stat().st_size == 0:
        return
    try:
        alone = not Path(f"{os.path.realpath(path)}-wal").exists()
        with closing(_connect(path, FORM, read_only=True, alone=alone)) as connection:
            if not is_empty(connection, path, FORM):
                marks(connection)
    except ERRORS as error:
        raise unusable(path, error) from error


def prepare(path: Path) -> sqlite3.Connection:
    """Opens the file for writing; creates it if there is none, readable by its owner only.

    Raises:
        FileError: the file can't be created or written, is no history, or has another format.
    """
    if path.exists() and path.stat().st_size == 0:
        _log.warning("the history %s is empty: if it had entries before, they are lost, and it begins anew", path)
    create_private(path)
    try:
        connection = connect(path)
        connection.create_function("checksum", -1, checksum, deterministic=True)
    except ERRORS as error:
        raise unusable(path, error) from error
    try:
        _prepare(connection, path, FORM)
    except BaseException:
        connection.close()
        raise
    return connection


_SEALED = {
    "namespaces": "id, name, followed_until, trimmed_until",
    "streams": "id, namespace, log, partition, position, at, dropped",
    "gaps": "id, namespace, since, until, reason",
    "holes": "rowid, stream, position, gap",
}
"""The columns that the checksum of each table other than ``entries`` covers."""


def _create(connection: sqlite3.Connection) -> None:
    for table in _TABLES:
        connection.execute(table)


_PRAGMAS = ("synchronous = NORMAL", "wal_autocheckpoint = 0")  # ``shrink`` moves commits from the write-ahead log
FORM = Format("history", APPLICATION_ID, FORMAT, _create, _PRAGMAS)


def _seal(connection: sqlite3.Connection, table: str, number: int | None) -> None:
    """Sets the checksum of a row that was added or changed."""
    connection.execute(f"UPDATE {table} SET checksum = checksum({_SEALED[table]}) WHERE rowid = ?", (number,))  # noqa: S608 (only our names)


def _update(connection: sqlite3.Connection, table: str, number: int, changes: str, values: Sequence[int | str]) -> None:
    """Changes a row after verifying its checksum, so that damage never gets a valid checksum."""
    sealed(connection, table, "WHERE rowid = ?", (number,))
    connection.execute(f"UPDATE {table} SET {changes} WHERE rowid = ?", (*values, number))  # noqa: S608 (only our names)
    _seal(connection, table, number)


def sealed(connection: sqlite3.Connection, table: str, rest: str, values: Sequence[int | str]) -> list[tuple[Any, ...]]:
    """Returns rows of a table, with the columns of the format's description, after verifying their checksums.

    Raises:
        Damaged: a row is not what was written.
    """
    rows = connection.execute(f"SELECT {_SEALED[table]}, checksum FROM {table} {rest}", values).fetchall()  # noqa: S608 (ours)
    for row in rows:
        if checksum(*row[:-1]) != row[-1]:
            raise Damaged(f"row {row[0]} of its {table} is not what was written there")
    return [row[:-1] for row in rows]


def namespace_id(connection: sqlite3.Connection, name: str) -> int:
    """Returns the id of a namespace, which is added if it is new."""
    added = connection.execute("INSERT OR IGNORE INTO namespaces (name) VALUES (?)", (name,)).rowcount
    found: int = connection.execute("SELECT id FROM namespaces WHERE name = ?", (name,)).fetchone()[0]
    if added:
        _seal(connection, "namespaces", found)
    return found


def stream_id(connection: sqlite3.Connection, namespace: int, stream: Stream) -> int:
    """Returns the id of a stream, which is added if it is new."""
    key = (namespace, stream.log, stream.partition)
    added = connection.execute("INSERT OR IGNORE INTO streams (namespace, log, partition, position, at) VALUES (?, ?, ?, '', 0)", key)
    found: int = connection.execute("SELECT id FROM streams WHERE namespace = ? AND log = ? AND partition = ?", key).fetchone()[0]
    if added.rowcount:
        _seal(connection, "streams", found)
    return found


def marks(connection: sqlite3.Connection) -> dict[str, Marks]:
    """Reads how far the history of each namespace goes.

    Raises:
        Damaged: a row is not what was written, or a namespace is missing.
    """
    found: dict[str, Marks] = {}
    names: dict[int, str] = {}
    for number, name, followed_until, _ in sealed(connection, "namespaces", "", ()):
        names[number], found[name] = name, Marks(followed_until, {})
    for _, namespace, log, partition, position, at, _ in sealed(connection, "streams", "", ()):
        if namespace not in names:
            raise Damaged("one of its namespaces is missing")
        name = names[namespace]
        found[name].streams[log, partition] = Stream(name, log, partition, position, at)
    return found


ROWS = 64
"""How many entries one statement adds: each statement releases the GIL once, and waits to get it back."""


def last_id(connection: sqlite3.Connection) -> int:
    """Returns the greatest id of an entry; 0: there is none."""
    found: int = connection.execute("SELECT coalesce(max(id), 0) FROM entries").fetchone()[0]
    return found


def insert(connection: sqlite3.Connection, rows: Sequence[tuple[int, Row]]) -> None:
    """Adds up to ``ROWS`` entries with their ids. Empty rows pad their number to a power of two, so that few statements are prepared."""
    padded = 1 << (len(rows) - 1).bit_length()
    values = [value for number, row in rows for value in (number, *row, checksum(*row))]
    connection.execute(_insertion(padded), values + [None] * ((len(COLUMNS) + 2) * (padded - len(rows))))


@cache
def _insertion(count: int) -> str:
    row = f"({','.join('?' * (len(COLUMNS) + 2))})"
    rows = ",".join([row] * count)
    return f"INSERT INTO entries (id,{','.join(COLUMNS)},checksum) SELECT * FROM (VALUES {rows}) WHERE column1 IS NOT NULL"  # noqa: S608 (only our names)


def note_stream(connection: sqlite3.Connection, stream: int, position: str, at: int) -> None:
    """Records how far a stream is recorded."""
    _update(connection, "streams", stream, "position = ?, at = ?", (position, at))


def note_followed(connection: sqlite3.Connection, namespace: int, followed: Followed) -> None:
    """Records until when a namespace's log was followed."""
    _update(connection, "namespaces", namespace, "followed_until = max(followed_until, ?)", (followed.until,))


def add_gap(connection: sqlite3.Connection, namespace: int, gap: Gap) -> None:
    """Adds a gap and its holes."""
    row = (namespace, gap.since, gap.until, gap.reason)
    number = connection.execute("INSERT INTO gaps (namespace, since, until, reason) VALUES (?, ?, ?, ?)", row).lastrowid
    _seal(connection, "gaps", number)
    for stream, position in gap.holes:
        hole = (stream.id or stream_id(connection, namespace, stream), position, number)
        _seal(connection, "holes", connection.execute("INSERT INTO holes (stream, position, gap) VALUES (?, ?, ?)", hole).lastrowid)


CLOCK_MS = 1_000
"""By how much the clock may go back, in milliseconds, before entries are marked UNTIMED: times are no more exact than that."""


def set_back(connection: sqlite3.Connection, namespace: int, stream: int, now: int) -> None:
    """Corrects times after the clock went back to ``now`` (ms): events with later times happened before ``now``, at unknown times."""
    columns = ", ".join(COLUMNS)
    at, flags = COLUMNS.index("at"), COLUMNS.index("flags")
    changed = []
    query = f"SELECT id, checksum, {columns} FROM entries INDEXED BY by_position WHERE stream = ? ORDER BY position DESC"  # noqa: S608 (ours)
    for number, sure, *row in connection.execute(query, (stream,)):
        if row[at] <= now:
            break
        check_entry(number, sure, row)
        row[flags] |= UNTIMED * (row[at] > now + CLOCK_MS)
        row[at] = now
        changed.append((now, row[flags], checksum(*row), number))
    connection.executemany("UPDATE entries SET at = ?, flags = ?, checksum = ? WHERE id = ?", changed)
    _update(connection, "streams", stream, "at = min(at, ?)", (now,))
    earlier = "followed_until = min(followed_until, ?), trimmed_until = min(trimmed_until, ?)"
    _update(connection, "namespaces", namespace, earlier, (now, now))
    for number, *_ in sealed(connection, "gaps", "WHERE namespace = ? AND until > ?", (namespace, now)):
        _update(connection, "gaps", number, "since = min(since, ?), until = ?", (now, now))


def check_entry(number: int, sure: int, row: Sequence[Any]) -> None:
    """Compares an entry, given as its ``COLUMNS``, with its checksum.

    Raises:
        Damaged: the entry is not what was written.
    """
    if checksum(*row) != sure:
        raise Damaged(f"the entry {number} is not what was written there")


SLACK_BYTES = 2 << 20
"""How many unused bytes beyond the bound the file keeps, and how many the write-ahead log holds between two commits, at most."""


def _pages(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Returns how many pages the file has, how many of them are unused, and how many bytes a page has."""
    count, free, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size"))
    return count, free, size


def used_bytes(connection: sqlite3.Connection) -> int:
    """Returns how many bytes of the file are in use."""
    count, free, size = _pages(connection)
    return (count - free) * size


def shrink(connection: sqlite3.Connection, path: Path, bound: int) -> None:
    """Gives back to the disk what the file takes beyond ``bound`` unused, and the write-ahead log, but for ``SLACK_BYTES`` of each."""
    count, free, size = _pages(connection)
    surplus = min(free, count - (bound + SLACK_BYTES) // size)
    if surplus > 0:
        give_back(connection, surplus)
        count -= surplus
    file_bytes, journal_bytes = sizes(path)
    if max(file_bytes - count * size, journal_bytes) > SLACK_BYTES:
        checkpoint(connection, truncate=True)


_DROPPABLE = "SELECT id, at, namespace, stream, position FROM entries WHERE +id < (SELECT max(id) FROM entries)"
"""The last entry is never dropped: its id would be given again, and entries of several streams are sent in the order of their ids."""


def trim_by_age(connection: sqlite3.Connection, before: int, most: int) -> int:
    """Drops up to ``most`` entries of each namespace and scope that are older than a time (ms). Returns how many were dropped."""
    dropped = 0
    for (namespace,) in connection.execute("SELECT id FROM namespaces").fetchall():
        for scope in (0, 1, 2):
            query = f"{_DROPPABLE} AND namespace = ? AND scope = ? AND at < ? ORDER BY at LIMIT ?"
            dropped += _drop(connection, connection.execute(query, (namespace, scope, before, most)).fetchall())
        _drop_gaps(connection, namespace, before)
    return dropped


def _drop_gaps(connection: sqlite3.Connection, namespace: int, before: int) -> None:
    """Drops the gaps that ended before a time (ms). What is trimmed reaches to the end of the newest one, so that it stays told."""
    connection.execute(
        "DELETE FROM holes WHERE gap IN (SELECT id FROM gaps WHERE namespace = ? AND until < ?)"
        " AND position <= (SELECT dropped FROM streams WHERE id = stream)",
        (namespace, before),
    )
    chosen = "FROM gaps WHERE namespace = ? AND until < ? AND id NOT IN (SELECT gap FROM holes)"
    (until,) = connection.execute(f"SELECT max(until) {chosen}", (namespace, before)).fetchone()
    if until is not None:
        _update(connection, "namespaces", namespace, "trimmed_until = max(trimmed_until, ?)", (until,))
        connection.execute(f"DELETE {chosen}", (namespace, before))


def trim_to_size(connection: sqlite3.Connection, most_bytes: int, most: int) -> int:
    """Drops entries, the oldest first, until ``most_bytes`` are in use or ``most`` are dropped. Returns how many were dropped."""
    dropped = 0
    while dropped < most and used_bytes(connection) > most_bytes and (few := trim_oldest(connection, ROWS)):
        dropped += few
    return dropped


def trim_oldest(connection: sqlite3.Connection, most: int) -> int:
    """Drops the ``most`` entries that were recorded first. Returns how many were dropped."""
    return _drop(connection, connection.execute(f"{_DROPPABLE} ORDER BY id LIMIT ?", (most,)).fetchall())


def _drop(connection: sqlite3.Connection, rows: Sequence[tuple[int, int, int, int, str]]) -> int:
    connection.executemany("DELETE FROM entries WHERE id = ?", [(number,) for number, *_ in rows])
    until: dict[int, int] = {}
    dropped: dict[int, str] = {}
    for _, at, namespace, stream, position in rows:
        until[namespace] = max(until.get(namespace, 0), at)
        dropped[stream] = max(dropped.get(stream, ""), position)
    for stream, position in dropped.items():
        _update(connection, "streams", stream, "dropped = max(dropped, ?)", (position,))
    for namespace, at in until.items():
        _update(connection, "namespaces", namespace, "trimmed_until = max(trimmed_until, ?)", (at,))
    return len(rows)
