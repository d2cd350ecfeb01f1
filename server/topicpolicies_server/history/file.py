"""The history's file: its format, and every statement that reads or writes it.

::

    PRAGMA application_id = "TPHI"   marks the file as a history
    PRAGMA user_version   = 1        the format
    namespaces  one row for each namespace: until when its log was followed, and until when its entries were dropped
    streams     one row for each partition of each log: how far it is recorded, and how far its entries were dropped
    entries     one row for each event (``entries.Entry``); ids grow in the order of recording, and none is given twice
    gaps        where events may be missing: in a time, and in a stream (0: in none) up to a position; one row for each stream of a gap

The last column of each row is the checksum of the others. A row that does not match its checksum raises ``Damaged``, and no answer is given
from it.

An entry's ``at`` never goes back within its stream, so (at, id) is the order of the log for each policy key. Every query reads an index in
that order: by topic or namespace, each with or without an actor, and each by scope (a query for both scopes merges two). So the first page
costs only what is on it, however long the history is. Readers that follow the history read its streams by position.

Commits are not synchronous: a power failure removes entries together with the streams' positions, so that the events are read from the
change log again.
"""

from __future__ import annotations

import logging
import operator
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias, get_type_hints

from .. import sqlite_file
from ..sqlite_file import ERRORS, Damaged, Format, checksum, create_private, flush_wal, give_back, is_empty, sizes, unusable
from .entries import UNTIMED, Entry, Extent, Gap, Stream

_log = logging.getLogger(__name__)

APPLICATION_ID = int.from_bytes(b"TPHI", "big")
FORMAT = 1
"""The format that is written and read; a file of any other is refused."""
Values: TypeAlias = Sequence[int | str | bytes | None]

_COLUMNS = {
    "namespaces": {"id": int, "name": str, "followed_until": int, "trimmed_until": int},
    "streams": {"id": int, "namespace": int, "log": str, "partition": int, "position": str, "at": int, "dropped": str},
    "entries": get_type_hints(Entry),
    "gaps": {"id": int, "namespace": int, "since": int | None, "until": int, "reason": int, "stream": int, "position": str},
}
_NAMES = {table: ", ".join(columns) for table, columns in _COLUMNS.items()}
_TYPES = {int: "INTEGER NOT NULL", str: "TEXT NOT NULL", int | None: "INTEGER", bytes | None: "BLOB"}
_INDEXES = (
    "UNIQUE INDEX by_name ON namespaces (name)",
    "UNIQUE INDEX by_log ON streams (namespace, log, partition)",
    "INDEX by_namespace ON entries (namespace, scope, at)",
    "INDEX by_namespace_and_actor ON entries (namespace, scope, actor, at)",
    "INDEX by_topic ON entries (topic, scope, at)",
    "INDEX by_topic_and_actor ON entries (topic, scope, actor, at)",
    "INDEX by_version ON entries (topic, scope, version)",
    "INDEX by_position ON entries (stream, position)",
    "INDEX gaps_by_time ON gaps (namespace, until)",
    "INDEX gaps_by_position ON gaps (stream, position)",
)


def _create(connection: sqlite3.Connection) -> None:
    for table, columns in _COLUMNS.items():
        declared = [f"{name} {'INTEGER PRIMARY KEY' if name == 'id' else _TYPES[hint]}" for name, hint in columns.items()]
        connection.execute(f"CREATE TABLE {table} ({', '.join(declared)}, checksum INTEGER NOT NULL)")
    for index in _INDEXES:
        connection.execute(f"CREATE {index}")


_PRAGMAS = ("synchronous = NORMAL", "wal_autocheckpoint = 0")  # ``shrink`` moves commits from the write-ahead log
FORM = Format("history", APPLICATION_ID, FORMAT, _create, _PRAGMAS)


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Opens a connection to a file that exists (see ``sqlite_file.connect``)."""
    return sqlite_file.connect(path, FORM, read_only=read_only)


def look(path: Path) -> None:
    """Checks the file that stands at ``path``, if one does. Changes nothing, and leaves no other file beside it.

    Raises:
        FileError: the file is no history, has another format, can't be read, or does not say how far it goes.
    """
    if not path.exists() or path.stat().st_size == 0:
        return
    try:
        alone = not Path(f"{os.path.realpath(path)}-wal").exists()
        with closing(sqlite_file.connect(path, FORM, read_only=True, alone=alone)) as connection:
            if not is_empty(connection, path, FORM):
                extents(connection)
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
        sqlite_file.prepare(connection, path, FORM)
    except BaseException:
        connection.close()
        raise
    return connection


# --- reading ----------------------------------------------------------------------------------------------------------


def rows(connection: sqlite3.Connection, table: str, rest: str, values: Values = ()) -> Iterator[tuple[Any, ...]]:
    """Yields rows of a table, without their checksums, after verifying them. ``rest`` follows the table's name in the statement.

    Raises:
        Damaged: a row is not what was written.
    """
    for row in connection.execute(f"SELECT {_NAMES[table]}, checksum FROM {table} {rest}", values):  # noqa: S608 (only our names)
        if checksum(*row[:-1]) != row[-1]:
            raise Damaged(f"row {row[0]} of its {table} is not what was written there")
        yield row[:-1]


Condition: TypeAlias = tuple[str, str, int | str]
"""A column of the entries, an operator, and the value to compare with."""
_OPERATORS = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def entries(connection: sqlite3.Connection, index: str, conditions: Sequence[Condition], rest: str, values: Values = ()) -> Iterator[Entry]:
    """Yields entries to which an index leads.

    ``conditions`` hold for each entry; they are verified on the entry itself, because an index has no checksums. ``rest`` follows them in
    the statement.

    Raises:
        Damaged: an entry does not belong there, or is not what was written.
    """
    where = " AND ".join(f"{column} {sign} ?" for column, sign, _ in conditions)
    parameters = (*(value for _, _, value in conditions), *values)
    for row in rows(connection, "entries", f"INDEXED BY {index} WHERE {where} {rest}", parameters):
        entry = Entry(*row)
        if not all(_OPERATORS[sign](getattr(entry, column), value) for column, sign, value in conditions):
            raise Damaged(f"one of its indexes leads to the entry {entry.id}, which does not belong there")
        yield entry


def extents(connection: sqlite3.Connection) -> dict[str, Extent]:
    """Returns how far the history of each namespace goes.

    Raises:
        Damaged: a row is not what was written, or a namespace is missing.
    """
    found: dict[str, Extent] = {}
    names: dict[int, str] = {}
    for number, name, followed_until, _ in rows(connection, "namespaces", ""):
        names[number], found[name] = name, Extent(followed_until)
    for _, namespace, log, partition, position, at, _ in rows(connection, "streams", ""):
        if namespace not in names:
            raise Damaged("one of its namespaces is missing")
        name = names[namespace]
        found[name].streams[log, partition] = Stream(name, log, partition, position, at)
    return found


def last_id(connection: sqlite3.Connection, table: str = "entries") -> int:
    """Returns the greatest id of a table; 0: it has no row."""
    found: int = connection.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()[0]  # noqa: S608 (only our names)
    return found


# --- writing ----------------------------------------------------------------------------------------------------------

ROWS = 64
"""How many entries one statement adds: each statement releases the GIL once, and waits to get it back."""


def insert(connection: sqlite3.Connection, table: str, some: Sequence[Values]) -> None:
    """Adds up to ``ROWS`` rows."""
    sqlite_file.insert(connection, table, len(_COLUMNS[table]) + 1, [value for row in some for value in (*row, checksum(*row))])


def _add(connection: sqlite3.Connection, table: str, *values: int | str | None) -> int:
    number = last_id(connection, table) + 1
    insert(connection, table, [(number, *values)])
    return number


def _update(connection: sqlite3.Connection, table: str, changes: str, new: Values, rest: str, values: Values) -> None:
    """Changes rows after verifying their checksums, so that damage never gets a valid checksum.

    ``changes``: the assignments, with the parameters ``new``; ``rest``: the condition, which begins with WHERE, with the parameters
    ``values``.
    """
    found = [row[0] for row in rows(connection, table, rest, values)]
    connection.executemany(f"UPDATE {table} SET {changes} WHERE id = ?", [(*new, number) for number in found])  # noqa: S608 (only our names)
    seal = f"UPDATE {table} SET checksum = checksum({_NAMES[table]}) WHERE id = ?"  # noqa: S608 (only our names)
    connection.executemany(seal, [(number,) for number in found])


def namespace_id(connection: sqlite3.Connection, name: str) -> int:
    """Returns the id of a namespace, which is added if it is new."""
    found = connection.execute("SELECT id FROM namespaces WHERE name = ?", (name,)).fetchone()
    return found[0] if found is not None else _add(connection, "namespaces", name, 0, 0)


def ids_of(connection: sqlite3.Connection, stream: Stream) -> tuple[int, int]:
    """Returns the ids of a stream and of its namespace, which are added if they are new: ids have the order of the first events."""
    namespace = namespace_id(connection, stream.namespace)
    key = (namespace, stream.log, stream.partition)
    found = connection.execute("SELECT id FROM streams WHERE namespace = ? AND log = ? AND partition = ?", key).fetchone()
    return found[0] if found is not None else _add(connection, "streams", *key, "", 0, ""), namespace


def note_stream(connection: sqlite3.Connection, stream: Stream, position: str, at: int) -> None:
    """Records how far a stream is recorded."""
    _update(connection, "streams", "position = ?, at = ?", (position, at), "WHERE id = ?", ids_of(connection, stream)[:1])


def note_followed(connection: sqlite3.Connection, namespace: str, until: int) -> None:
    """Records until when (ms) a namespace's log was followed."""
    number = namespace_id(connection, namespace)
    _update(connection, "namespaces", "followed_until = max(followed_until, ?)", (until,), "WHERE id = ?", (number,))


def add_gap(connection: sqlite3.Connection, gap: Gap) -> None:
    """Adds a gap."""
    namespace = namespace_id(connection, gap.namespace)
    for stream, position in gap.holes or ((None, ""),):
        where = ids_of(connection, stream)[0] if stream is not None else 0
        _add(connection, "gaps", namespace, gap.since, gap.until, int(gap.reason), where, position)


CLOCK_MS = 1_000
"""By how much the clock may go back, in milliseconds, before entries are marked UNTIMED: times are no more exact than that."""


def set_back(connection: sqlite3.Connection, corrected: Stream, now: int) -> None:
    """Corrects times after the clock went back to ``now`` (ms): events with later times happened before ``now``, at unknown times."""
    stream, namespace = ids_of(connection, corrected)
    later = "WHERE stream = ? AND at > ? AND position > coalesce((SELECT position FROM entries WHERE stream = ? AND at <= ?"
    later += " ORDER BY position DESC LIMIT 1), '')"  # reads the index backwards, as far as times are later
    _update(connection, "entries", f"flags = flags | {UNTIMED}", (), later, (stream, now + CLOCK_MS) * 2)
    _update(connection, "entries", "at = ?", (now,), later, (stream, now) * 2)
    _update(connection, "streams", "at = min(at, ?)", (now,), "WHERE id = ?", (stream,))
    earlier = "followed_until = min(followed_until, ?), trimmed_until = min(trimmed_until, ?)"
    _update(connection, "namespaces", earlier, (now, now), "WHERE id = ?", (namespace,))
    _update(connection, "gaps", "since = min(since, ?), until = ?", (now, now), "WHERE namespace = ? AND until > ?", (namespace, now))


# --- its size -----------------------------------------------------------------------------------------------------------

SLACK_BYTES = 2 << 20
"""How many unused bytes beyond the bound the file keeps, and how many the write-ahead log holds between two commits, at most."""


def _pages(connection: sqlite3.Connection) -> tuple[int, int, int]:
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
        flush_wal(connection, truncate=True)


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
    chosen = (
        "FROM gaps WHERE namespace = ? AND until < ? AND (stream = 0 OR position <= (SELECT dropped FROM streams WHERE id = gaps.stream))"
    )
    (until,) = connection.execute(f"SELECT max(until) {chosen}", (namespace, before)).fetchone()
    if until is not None:
        _note_trimmed(connection, namespace, until)
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


def _drop(connection: sqlite3.Connection, found: Sequence[tuple[int, int, int, int, str]]) -> int:
    connection.executemany("DELETE FROM entries WHERE id = ?", [(number,) for number, *_ in found])
    until: dict[int, int] = {}
    dropped: dict[int, str] = {}
    for _, at, namespace, stream, position in found:
        until[namespace] = max(until.get(namespace, 0), at)
        dropped[stream] = max(dropped.get(stream, ""), position)
    for stream, position in dropped.items():
        _update(connection, "streams", "dropped = max(dropped, ?)", (position,), "WHERE id = ?", (stream,))
    for namespace, at in until.items():
        _note_trimmed(connection, namespace, at)
    return len(found)


def _note_trimmed(connection: sqlite3.Connection, namespace: int, until: int) -> None:
    _update(connection, "namespaces", "trimmed_until = max(trimmed_until, ?)", (until,), "WHERE id = ?", (namespace,))
