"""The history's file: its format, and everything that is written to it and read from it.

::

    PRAGMA application_id = "TPHI"   marks the file as a history
    PRAGMA user_version   = 1        the format
    namespaces  one row for each namespace: until when its log was followed, and until when its entries were dropped
    streams     one row for each partition of each log: how far it is recorded, and how far its entries were dropped
    entries     one row for each event (``entries.Entry``); ids grow in the order of recording, and none is given twice
    gaps        where events may be missing: in a time, and in a stream (0: in none) up to a position; one row for each stream of a gap

The last column of each row is the checksum of the others. A row that does not match its checksum raises ``Damaged``, and no answer is given
from it.

An entry's ``at`` never goes back within its stream, so (at, id) is the order of the log for each policy key. A listing has the entries of a
topic or a namespace in that order, and reads one index from where it begins to where it ends. A copy has those of a namespace as they were
recorded, from a place on, across the logs that the namespace has had. A place is a token: a log and a position in each of its partitions.
Watches resume from the same places, so a reader may go on at another server, whose history has the same events at the same positions.

Commits are not synchronous: a power failure removes entries together with the streams' positions, so that the events are read from the
change log again.
"""

from __future__ import annotations

import heapq
import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar, get_type_hints

from .. import sqlite_file
from ..core.names import PolicyKey, Scope
from ..core.policies.events import Position
from ..core.reading.tokens import Token
from ..sqlite_file import ERRORS, Damaged, Format, checksum, create_private, flush_wal, give_back, is_empty, sizes, transaction, unusable
from .entries import Entry, EntryPlace, Extent, Gap, GapReason, Noted, Stream, entry_of

_log = logging.getLogger(__name__)

APPLICATION_ID = int.from_bytes(b"TPHI", "big")
FORMAT = 1
"""The format that is written and read; a file of any other is refused."""
LATEST = 2**62
"""Later than every time, in milliseconds since 1970."""
MOST_GAPS = 100
"""The most gaps that an answer lists."""
MOST_BYTES = 1 << 20
"""A page or stretch ends with the entry that makes it exceed this size, so that every client can receive it."""
SLACK_BYTES = 2 << 20
"""How many unused bytes beyond the bound the file keeps, and how many the write-ahead log holds between two commits, at most."""
BEGINNING = Token("", ())
"""The place before every log."""
_ROWS = 64
"""How many entries one statement adds: each statement releases the GIL once, and waits to get it back."""
_T = TypeVar("_T")
_Values: TypeAlias = Sequence[int | str | bytes | None]

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
    "INDEX by_namespace ON entries (namespace, at)",
    "INDEX by_namespace_and_actor ON entries (namespace, actor, at)",
    "INDEX by_topic ON entries (topic, at)",
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


FORM = Format("history", APPLICATION_ID, FORMAT, _create, ("synchronous = NORMAL", "wal_autocheckpoint = 0"))
_DROPPABLE = "SELECT id, at, namespace, stream, position FROM entries WHERE +id < (SELECT max(id) FROM entries)"
"""The last entry is never dropped: its id would be given again, and entries of several streams are sent in the order of their ids."""


class Query(NamedTuple):
    """Which entries a listing has."""

    namespace: str
    topic: str = ""
    """The topic's full name; "": all topics of the namespace."""
    scopes: frozenset[Scope] = frozenset(Scope)
    start: int = 0
    """The earliest time, in milliseconds since 1970, included."""
    end: int = LATEST
    """The latest time, not included."""
    actor: str | None = None
    """The actor whose entries are wanted; None: those of all actors."""
    newest_first: bool = True
    after: EntryPlace | None = None
    """The place of the last entry of the page before; None: this is the first page."""
    most: int = 100


class Page(NamedTuple):
    """The answer to a query."""

    entries: list[Entry]
    more: bool
    gaps: list[Gap]


class UnknownLog(Exception):
    """Raised for a place in a log that this history does not know."""


class Recorded(NamedTuple):
    """An entry, and the place behind it."""

    entry: Entry
    token: Token


Piece: TypeAlias = Recorded | Gap


class Stretch(NamedTuple):
    """What follows a place, as far as one answer goes."""

    pieces: list[Piece]
    """Entries and gaps, in order. A gap comes before the first event behind it."""
    token: Token
    """The place behind the last piece, from which the next stretch begins."""
    more: bool
    """Whether the history already has more behind ``token``."""
    whole: bool
    """Whether it is certain that no event is missing between the two places."""


class Division(NamedTuple):
    """A place behind an entry, at which a copy of the history can be divided."""

    id: int
    """The entry's id."""
    token: Token
    full: bool
    """Whether there were as many events as were asked for; otherwise it is behind the last one."""


class _Stream(NamedTuple):
    id: int
    partition: int
    recorded: Position
    dropped: Position
    behind: Position
    """Where the reader stands."""


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
                HistoryFile(path, connection).extents()
    except ERRORS as error:
        raise unusable(path, error) from error


def open_file(path: Path) -> HistoryFile:
    """Opens the file for writing and reading; creates it if there is none, readable by its owner only.

    Raises:
        FileError: the file can't be created or written, is no history, or has another format.
    """
    if path.exists() and path.stat().st_size == 0:
        _log.warning("the history %s is empty: if it had entries before, they are lost, and it begins anew", path)
    create_private(path)
    try:
        connection = sqlite_file.connect(path, FORM)
    except ERRORS as error:
        raise unusable(path, error) from error
    try:
        sqlite_file.prepare(connection, path, FORM)
    except BaseException:
        connection.close()
        raise
    return HistoryFile(path, connection)


def open_to_read(path: Path) -> HistoryFile:
    """Opens a history that another process may write meanwhile, for reading.

    Raises:
        FileError: as ``look``.
        sqlite3.Error: there is no file, or it can't be read.
    """
    look(path)
    return HistoryFile(path, sqlite_file.connect(path, FORM, read_only=True))


class HistoryFile:
    """An open file. One thread at a time uses it. Each method that reads rows raises ``Damaged`` if one of them is not what was written."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Takes a connection to a file that has the tables."""
        self.path = path
        self.connection = connection

    def close(self) -> None:
        """Closes it, with what is in the write-ahead log."""
        self.connection.close()

    def extents(self) -> dict[str, Extent]:
        """Returns how far the history of each namespace goes."""
        found: dict[str, Extent] = {}
        names: dict[int, str] = {}
        for number, name, followed_until, _ in self._rows("namespaces", ""):
            names[number], found[name] = name, Extent(followed_until)
        for _, namespace, log, partition, position, at, _ in self._rows("streams", ""):
            if namespace not in names:
                raise Damaged("one of its namespaces is missing")
            name = names[namespace]
            found[name].streams[log, partition] = Stream(name, log, partition, position, at)
        return found

    # --- writing ------------------------------------------------------------------------------------------------------

    def write(self, noted: Sequence[Noted], gaps: Iterable[Gap], followed: Mapping[str, int]) -> list[Gap]:
        """Adds events and gaps, and by namespace the time (ms) until which its log was followed: all of it, or nothing.

        Returns the gaps that are new: any other extends one that was written before.

        Raises:
            sqlite3.Error: the file can't be written now.
        """
        with transaction(self.connection):
            self._add_events(noted)
            new = [gap for gap in gaps if self._add_gap(gap)]
            for name, until in followed.items():
                self._change("namespaces", self._namespace_id(name), followed_until=until)
        return new

    def _add_gap(self, gap: Gap) -> bool:
        """Adds a gap, or extends that of the same reason since the same time. Returns whether it is new."""
        namespace, new = self._namespace_id(gap.namespace), True
        earlier = "WHERE stream = ? AND position > '' AND position <= ? AND reason = ? AND since IS ? AND until <= ?"
        for stream, position in gap.holes or ((None, ""),):
            where = self._ids_of(stream)[0] if stream is not None else 0
            found = next(self._rows("gaps", earlier, (where, position, int(gap.reason), gap.since, gap.until)), None)
            if found is None:
                self._add("gaps", namespace, gap.since, gap.until, int(gap.reason), where, position)
            else:
                self._change("gaps", found[0], until=gap.until, position=position)
                new = False
        return new

    def _add_events(self, noted: Sequence[Noted]) -> None:
        """Adds events sorted by topic, which halves the cost of the indexes by topic. Their ids have the order of arrival."""
        wires: dict[int, bytes] = {}
        last = {each.stream: each for each in noted}
        ids = {stream: self._ids_of(stream) for stream in last}
        numbered = sorted(enumerate(noted, self._last_id("entries") + 1), key=_topic_of)
        for start in range(0, len(numbered), _ROWS):
            some = numbered[start : start + _ROWS]
            entries = [entry_of(each, number, *ids[each.stream], wires) for number, each in some]
            try:
                self._insert("entries", entries)
            except UnicodeEncodeError:
                self._insert("entries", [Entry._make(map(_encodable, entry)) for entry in entries])
        for stream, each in last.items():
            self._change("streams", ids[stream][0], position=each.placed.position, at=each.at)

    def _ids_of(self, stream: Stream) -> tuple[int, int]:
        """Returns the ids of a stream and of its namespace, which are added if they are new: ids have the order of the first events."""
        namespace = self._namespace_id(stream.namespace)
        key = (namespace, stream.log, stream.partition)
        found = self.connection.execute("SELECT id FROM streams WHERE namespace = ? AND log = ? AND partition = ?", key).fetchone()
        return found[0] if found is not None else self._add("streams", *key, "", 0, ""), namespace

    def _namespace_id(self, name: str) -> int:
        found = self.connection.execute("SELECT id FROM namespaces WHERE name = ?", (name,)).fetchone()
        return found[0] if found is not None else self._add("namespaces", name, 0, 0)

    # --- its size -----------------------------------------------------------------------------------------------------

    def trim_by_age(self, before: int, most: int) -> int:
        """Drops up to ``most`` entries of each namespace that are older than a time (ms). Returns how many were dropped."""
        dropped = 0
        with transaction(self.connection):
            for (namespace,) in self.connection.execute("SELECT id FROM namespaces").fetchall():
                query = f"{_DROPPABLE} AND namespace = ? AND at < ? ORDER BY at LIMIT ?"
                dropped += self._drop(query, (namespace, before, most))
                self._drop_gaps(namespace, before)
        return dropped

    def trim_to_size(self, most_bytes: int, most: int) -> int:
        """Drops entries, the oldest first, until ``most_bytes`` are in use or ``most`` are dropped. Returns how many were dropped."""
        dropped = 0
        if self._used_bytes() > most_bytes:
            with transaction(self.connection):
                while (
                    dropped < most
                    and self._used_bytes() > most_bytes
                    and (few := self._drop(f"{_DROPPABLE} ORDER BY id LIMIT ?", (min(_ROWS, most - dropped),)))
                ):
                    dropped += few
        return dropped

    def shrink(self, bound: int) -> None:
        """Gives back to the disk what the file takes beyond ``bound`` unused, and the write-ahead log, but for ``SLACK_BYTES`` of each."""
        count, free, size = self._pages()
        surplus = min(free, count - (bound + SLACK_BYTES) // size)
        if surplus > 0:
            give_back(self.connection, surplus)
            count -= surplus
        file_bytes, journal_bytes = sizes(self.path)
        if max(file_bytes - count * size, journal_bytes) > SLACK_BYTES:
            flush_wal(self.connection, truncate=True)

    def _pages(self) -> tuple[int, int, int]:
        names = ("page_count", "freelist_count", "page_size")
        count, free, size = (self.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
        return count, free, size

    def _used_bytes(self) -> int:
        count, free, size = self._pages()
        return (count - free) * size

    def _drop(self, query: str, values: _Values) -> int:
        found = self.connection.execute(query, values).fetchall()
        self.connection.executemany("DELETE FROM entries WHERE id = ?", [(number,) for number, *_ in found])
        until: dict[int, int] = {}
        dropped: dict[int, str] = {}
        for _, at, namespace, stream, position in found:
            until[namespace] = max(until.get(namespace, 0), at)
            dropped[stream] = max(dropped.get(stream, ""), position)
        for stream, position in dropped.items():
            self._change("streams", stream, dropped=position)
        for namespace, at in until.items():
            self._note_trimmed(namespace, at)
        return len(found)

    def _drop_gaps(self, namespace: int, before: int) -> None:
        """Drops the gaps that ended before a time (ms). What is trimmed reaches to the end of the newest one, so that it stays told."""
        done = "(stream = 0 OR position <= (SELECT dropped FROM streams WHERE id = gaps.stream))"
        old = f"FROM gaps WHERE namespace = ? AND until < ? AND {done}"
        (until,) = self.connection.execute(f"SELECT max(until) {old}", (namespace, before)).fetchone()
        if until is not None:
            self._note_trimmed(namespace, until)
            self.connection.execute(f"DELETE {old}", (namespace, before))

    def _note_trimmed(self, namespace: int, until: int) -> None:
        (row,) = self._rows("namespaces", "WHERE id = ?", (namespace,))
        self._change("namespaces", namespace, trimmed_until=max(row[-1], until))

    # --- listings -----------------------------------------------------------------------------------------------------

    def page(self, query: Query) -> Page:
        """Returns the wanted entries, at most ``most``; whether there are more; and the gaps in the wanted time."""
        namespace = self.connection.execute("SELECT id FROM namespaces WHERE name = ?", (query.namespace,)).fetchone()
        if namespace is None:
            return Page([], False, [])
        of, index = ("topic", "by_topic") if query.topic else ("namespace", "by_namespace")
        where = f"WHERE {of} = ? AND at >= ? AND at < ?"
        start, end, order = query.start, query.end, "DESC" if query.newest_first else "ASC"
        after = query.after
        if after is not None:
            start, end = (start, min(end, after.at + 1)) if query.newest_first else (max(start, after.at), end)
        values: list[int | str] = [query.topic or namespace[0], start, end]
        if query.actor is not None:
            where, index = f"{where} AND actor = ?", index if query.topic else "by_namespace_and_actor"
            values.append(query.actor)
        if len(query.scopes) < len(Scope):  # those of all scopes include entries that could not be read
            where += f" AND scope IN ({', '.join(str(int(scope)) for scope in query.scopes)})"
        if after is not None:
            where += f" AND (at, id) {'<' if query.newest_first else '>'} (?, ?)"
            values += after
        entries: list[Entry] = []
        size, more = 0, False
        rows = self._rows("entries", f"INDEXED BY {index} {where} ORDER BY at {order}, id {order} LIMIT ?", [*values, query.most + 1])
        for entry in map(Entry._make, rows):
            if len(entries) == query.most or size >= MOST_BYTES:
                more = True
                break
            entries.append(entry)
            size += entry.size
        return Page(entries, more, [gap for gap in self._gaps(query.namespace, query.start, query.end) if gap.until >= query.start])

    def around(self, namespace: str, key: PolicyKey, at: int) -> tuple[Entry | None, Entry | None, list[Gap]]:
        """Returns what decides which document a policy key had at a time (ms).

        It is the last entry of the key up to that time, the first one after, and the newest gaps between them; with the newest one that was
        over by then and what was trimmed.
        """
        last = self._one(key, "INDEXED BY by_topic WHERE topic = ? AND scope = ? AND at <= ? ORDER BY at DESC, id DESC", at)
        first = self._one(key, "INDEXED BY by_topic WHERE topic = ? AND scope = ? AND at > ? ORDER BY at, id", at)
        start, end = at if last is None else last.at, LATEST if first is None else first.at
        return last, first, self._gaps(namespace, start, end)

    def entry_of_version(self, key: PolicyKey, version: Position) -> Entry | None:
        """Returns an entry at which a policy key had a version; None: there is none."""
        return self._one(key, "INDEXED BY by_version WHERE topic = ? AND scope = ? AND version = ? ORDER BY id", version)

    def _one(self, key: PolicyKey, rest: str, value: int | str) -> Entry | None:
        for entry in map(Entry._make, self._rows("entries", f"{rest} LIMIT 1", (key.topic, int(key.scope), value))):
            if (entry.topic, entry.scope) != (key.topic, key.scope):
                raise Damaged(f"one of its indexes leads to the entry {entry.id}, which does not belong there")
            return entry
        return None

    def _gaps(self, namespace: str, start: int, end: int) -> list[Gap]:
        """Returns the newest gaps of a namespace that overlap a time, ``end`` not included, newest first.

        Then the newest one that was over by ``start``, and what was trimmed, ever.
        """
        known = next(self._rows("namespaces", "WHERE name = ?", (namespace,)), None)
        if known is None:
            return []
        number, _, _, trimmed_until = known
        rest = "WHERE namespace = ? AND until >= ? AND (since IS NULL OR since < ?) ORDER BY until DESC LIMIT ?"
        found = list(self._rows("gaps", rest, (number, start, end, MOST_GAPS)))
        found += self._rows("gaps", "WHERE namespace = ? AND until < ? ORDER BY until DESC LIMIT 1", (number, start))
        gaps = [Gap(namespace, since, until, GapReason(reason)) for _, _, since, until, reason, *_ in found]
        if trimmed_until:
            gaps.append(Gap(namespace, None, trimmed_until, GapReason.TRIMMED))
        return list(dict.fromkeys(gaps))  # a gap in several streams has several rows

    # --- copies -------------------------------------------------------------------------------------------------------

    def stretch(self, namespace: str, place: Token, most: int) -> Stretch:
        """Returns at most ``most`` events behind a place, of all topics of the namespace and all actors.

        Raises:
            UnknownLog: the history knows no such log of the namespace.
        """
        place, streams, successor = self._streams(namespace, place)
        begins = not place.positions
        token = place
        holes = {each.partition: self._holes(namespace, each, begins=begins) for each in streams}
        whole = not any(holes.values())
        pieces: list[Piece] = []
        size, more = 0, False
        found = heapq.merge(*(self._behind(each, most) for each in streams), key=lambda found: found[0].id)
        for count, (entry, partition) in enumerate(found):
            if count == most or size >= MOST_BYTES:
                more = True
                break
            size += entry.size
            waiting = holes[partition]
            while waiting and entry.position > waiting[0][0]:
                pieces.append(waiting.pop(0)[1])
            token = token.at(partition, entry.position)
            pieces.append(Recorded(entry, token))
        if not more:
            for each in streams:
                pieces += [gap for _, gap in holes[each.partition]]
                token = token.at(each.partition, each.recorded)
            if successor:
                return Stretch(pieces, Token(successor, ()), more=True, whole=False)
        return Stretch(pieces, token, more, whole)

    def divisions(self, namespace: str, place: Token, every: int) -> Iterator[Division]:
        """Yields a place behind every so many events behind a place, and one behind the last event. It reads an index, and no events.

        Raises:
            UnknownLog: the history knows no such log of the namespace.
        """
        successor = "first"
        while successor:
            token, streams, successor = self._streams(namespace, place)
            behind: dict[int, Position] = {}
            number = count = 0
            for number, position, partition in heapq.merge(*map(self._ids, streams)):
                behind[partition] = position
                count += 1
                if count % every == 0:
                    yield Division(number, _at(token, behind), full=True)
            if count % every:
                yield Division(number, _at(token, behind), full=False)
            place = Token(successor, ())

    def _streams(self, namespace: str, place: Token) -> tuple[Token, list[_Stream], str]:
        """Returns the place (for that before every log, the first log's beginning), the streams of its log, and the log after it or ""."""
        known = next(self._rows("namespaces", "WHERE name = ?", (namespace,)), None)
        found = list(self._rows("streams", "WHERE namespace = ? ORDER BY id", (known[0],))) if known is not None else []
        logs = [*dict.fromkeys(row[2] for row in found), ""]
        if not place.log:
            place = Token(logs[0], ())
        if place.log not in logs:
            raise UnknownLog(f"the history has no such log of {namespace}")
        streams = [
            _Stream(number, partition, position, dropped, place.positions[partition] if partition < len(place.positions) else "")
            for number, _, log, partition, position, _, dropped in found
            if log == place.log
        ]
        return place, streams, logs[logs.index(place.log) + 1] if streams else ""

    def _behind(self, stream: _Stream, most: int) -> Iterator[tuple[Entry, int]]:
        rest = "INDEXED BY by_position WHERE stream = ? AND position > ? ORDER BY position LIMIT ?"
        return ((Entry(*row), stream.partition) for row in self._rows("entries", rest, (stream.id, stream.behind, most + 1)))

    def _ids(self, stream: _Stream) -> Iterator[tuple[int, Position, int]]:
        ids = "SELECT id, position FROM entries INDEXED BY by_position WHERE stream = ? AND position > ? ORDER BY position"
        return ((number, position, stream.partition) for number, position in self.connection.execute(ids, (stream.id, stream.behind)))

    def _holes(self, namespace: str, stream: _Stream, *, begins: bool) -> list[tuple[Position, Gap]]:
        """Returns the gaps behind the reader in a stream, each with the position up to which events may be missing, in order.

        ``begins``: whether the reader is at the log's beginning, and gets the gap before it too.
        """
        rest = "WHERE stream = ? AND (position > ? OR (? AND position = '')) ORDER BY position, id"
        found = [
            (position, Gap(namespace, since, until, GapReason(reason)))
            for _, _, since, until, reason, _, position in self._rows("gaps", rest, (stream.id, stream.behind, begins))
        ]
        if stream.behind < stream.dropped:
            (until,) = self.connection.execute("SELECT trimmed_until FROM namespaces WHERE name = ?", (namespace,)).fetchone()
            found.insert(0, (stream.dropped, Gap(namespace, None, until, GapReason.TRIMMED)))
            found.sort(key=lambda hole: hole[0])
        return found

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _rows(self, table: str, rest: str, values: _Values = ()) -> Iterator[tuple[Any, ...]]:
        """Yields rows of a table, without their checksums, after verifying them. ``rest`` follows the table's name in the statement."""
        for row in self.connection.execute(f"SELECT {_NAMES[table]}, checksum FROM {table} {rest}", values):  # noqa: S608 (only our names)
            if checksum(*row[:-1]) != row[-1]:
                raise Damaged(f"row {row[0]} of its {table} is not what was written there")
            yield row[:-1]

    def _last_id(self, table: str) -> int:
        found: int = self.connection.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()[0]  # noqa: S608 (only our names)
        return found

    def _insert(self, table: str, some: Sequence[_Values]) -> None:
        values = [value for row in some for value in (*row, checksum(*row))]
        sqlite_file.insert(self.connection, table, len(_COLUMNS[table]) + 1, values)

    def _add(self, table: str, *values: int | str | None) -> int:
        number = self._last_id(table) + 1
        self._insert(table, [(number, *values)])
        return number

    def _change(self, table: str, number: int, **values: int | str) -> None:
        """Changes a row after verifying its checksum, so that damage never gets a valid checksum."""
        (row,) = self._rows(table, "WHERE id = ?", (number,))
        changed = dict(zip(_COLUMNS[table], row, strict=True)) | values
        self.connection.execute(f"DELETE FROM {table} WHERE id = ?", (number,))  # noqa: S608 (only our names)
        self._insert(table, [tuple(changed.values())])


def _topic_of(numbered: tuple[int, Noted]) -> str:
    event = numbered[1].placed.event
    return "" if event is None else event.key.topic


def _encodable(value: _T) -> _T | str:
    """Returns a value with a question mark in place of what can't be encoded: another writer's text may have lone surrogates."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _at(token: Token, positions: Mapping[int, Position]) -> Token:
    for partition, position in positions.items():
        token = token.at(partition, position)
    return token
