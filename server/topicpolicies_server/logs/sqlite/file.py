"""The log's file: what is stored in it, how it is opened for one process at a time, how it is read, and how damage to it is found.

::

    PRAGMA application_id = "TPLG"   marks the file as a change log
    PRAGMA user_version   = 1        the format
    log         (one row) identity: the permanent name of this file; base: row numbers up to it were assigned in an earlier life
                (``tail_guard``)
    schemas     id, definition, checksum: the Avro schemas that payloads were written with
    namespaces  id, name; compacted: the last row that a compaction may have deleted; kept: how many rows stand up to the floor;
                checksum: of these columns
    events      place (the namespace's id in the high bits, the row number within the namespace in the low ones), published_at, schema,
                checksum, key, properties (JSON), payload (NULL: a tombstone)

The rows of a namespace stand together in the file, in the order of the log, because ``place`` is the table's primary key. There is no other
index: a commit writes the pages of its rows and no others.

Damage is detected: a changed row by its checksum; missing rows at the end by the mark beside the file (``tail_guard``); any other missing
row by the row numbers, which have no gaps above the namespace's *floor*: the last row that a compaction may have deleted, or that may have
been assigned in an earlier life; and up to the floor by the number of rows there.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ... import sqlite_file
from ...core.errors import Kind
from ...core.policies.events import Placed, Position
from ...core.reasons import Reason
from ...sqlite_file import (
    ERRORS,
    Damaged,
    FileError,
    FileLock,
    Format,
    NotOurs,
    checksum,
    create_private,
    flush_wal,
    lacks_room,
    remedy,
    transaction,
    unusable,
)
from ..avro import Codec, UnsupportedSchema
from ..change_log import LogError, Start, anchor_of
from .tail_guard import LEAP, HighWaterMark, Mark, what_is_lost

APPLICATION_ID = int.from_bytes(b"TPLG", "big")
FORMAT = 1
"""The format that is written and read; a file of any other is refused."""
AUTOCHECKPOINT_PAGES = 32_000
"""Pages in the write-ahead log after which SQLite checkpoints by itself; the writer does so long before."""
ROW_BITS = 40
"""How many low bits of a place are the row number; the bits above are the namespace's id."""
PAGE = 64
"""Entries that are read, decoded and delivered at a time: they hold the interpreter's lock, and so the event loop, for some 2 ms."""

_TABLES = (
    "CREATE TABLE log (identity TEXT NOT NULL, base INTEGER NOT NULL)",
    "CREATE TABLE schemas (id INTEGER PRIMARY KEY, definition TEXT NOT NULL, checksum INTEGER NOT NULL)",
    """CREATE TABLE namespaces (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, compacted INTEGER NOT NULL,
    kept INTEGER NOT NULL, checksum INTEGER NOT NULL)""",
    """CREATE TABLE events (place INTEGER PRIMARY KEY, published_at INTEGER NOT NULL, schema INTEGER NOT NULL,
    checksum INTEGER NOT NULL, key TEXT NOT NULL, properties TEXT NOT NULL, payload BLOB)""",
)
_log = logging.getLogger(__name__)


def _create(connection: sqlite3.Connection) -> None:
    for table in _TABLES:
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
connect = partial(sqlite_file.connect, form=FORM)
"""Opens a connection to an existing file (see ``sqlite_file.connect``)."""
prepare = partial(sqlite_file.prepare, form=FORM)
"""Creates the tables in an empty file, or checks any other (see ``sqlite_file.prepare``)."""


def begin_snapshot(connection: sqlite3.Connection) -> None:
    """Begins a read transaction: from now on the connection sees the file as it is at this moment."""
    connection.execute("BEGIN")
    connection.execute("SELECT identity FROM log").fetchone()  # BEGIN is deferred: the first read takes the snapshot


def write_nothing(connection: sqlite3.Connection) -> None:
    """Commits a transaction that changes nothing, over what a failed commit may have left in the write-ahead log.

    A commit that failed may stand there with all its pages. While another connection is open, a new one runs no recovery and does not see
    it; but a recovery after a crash would.
    """
    connection.execute(f"PRAGMA user_version = {FORMAT}")


# Namespaces


class Identity(NamedTuple):
    """The identity of a file in its present life; positions are valid only under the identity that they were given out with."""

    name: str
    base: int
    """Row numbers up to this one may have been assigned in an earlier life, in any namespace."""


class NamespaceRow(NamedTuple):
    """A namespace of the file."""

    id: int
    name: str
    compacted: int
    """The highest row number that a compaction may have deleted."""
    floor: int
    """The highest row number up to which numbers may have gaps: from compactions, and from the end of a former life."""
    kept: int
    """How many rows there must be up to the floor."""
    last: int
    """The highest row number that was ever assigned, as far as the file can tell."""


_NAMESPACE = f"""SELECT id, name, compacted, kept, checksum,
    (SELECT max(place) FROM events WHERE place > (id << {ROW_BITS}) AND place < ((id + 1) << {ROW_BITS})) FROM namespaces"""  # noqa: S608 (only our names)


def identity(connection: sqlite3.Connection) -> Identity:
    """The identity of the file.

    Raises:
        Damaged: the file has none.
    """
    row = connection.execute("SELECT identity, base FROM log").fetchone()
    if row is None:
        raise Damaged("its identity is missing")
    return Identity(*row)


def namespaces(connection: sqlite3.Connection) -> list[NamespaceRow]:
    """All namespaces, in the order of their ids.

    Raises:
        Damaged: a namespace is missing, or its row is not what was written.
    """
    base = identity(connection).base
    found = connection.execute(f"{_NAMESPACE} ORDER BY id").fetchall()
    (last,) = connection.execute("SELECT coalesce(max(place), 0) >> ? FROM events", (ROW_BITS,)).fetchone()
    if [row[0] for row in found] != list(range(1, len(found) + 1)) or last > len(found):
        raise Damaged("one of its namespaces is missing")
    return [_namespace(base, *row) for row in found]


def namespace(connection: sqlite3.Connection, namespace_id: int) -> NamespaceRow:
    """One namespace.

    Raises:
        Damaged: its row is missing, or not what was written.
    """
    row = connection.execute(f"{_NAMESPACE} WHERE id = ?", (namespace_id,)).fetchone()
    if row is None:
        raise Damaged(f"the row of its namespace {namespace_id} is missing")
    return _namespace(identity(connection).base, *row)


def _namespace(base: int, number: int, name: str, compacted: int, kept: int, sure: int, last: int | None) -> NamespaceRow:
    if sure != checksum(number, name, compacted, kept):
        raise Damaged(f"the row of its namespace {number} is not what was written")
    floor = max(base, compacted)
    return NamespaceRow(number, name, compacted, floor, kept, max(floor, row_at(last or 0)))


def add_namespace(connection: sqlite3.Connection, name: str) -> int:
    """Adds a namespace, unless the file has one of this name; returns its id."""
    known = connection.execute("SELECT id FROM namespaces WHERE name = ?", (name,)).fetchone()
    if known is not None:
        return int(known[0])
    (number,) = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM namespaces").fetchone()
    _store(connection, number, name, 0, 0)
    return int(number)


def _store(connection: sqlite3.Connection, number: int, name: str, compacted: int, kept: int) -> None:
    row = (number, name, compacted, kept)
    connection.execute("INSERT OR REPLACE INTO namespaces VALUES (?, ?, ?, ?, ?)", (*row, checksum(*row)))


def note_compacted(connection: sqlite3.Connection, namespace_id: int, row: int) -> None:
    """Records, in one statement, which commits, that a compaction may delete rows of a namespace up to ``row`` from now on."""
    known = namespace(connection, namespace_id)
    _store(connection, namespace_id, known.name, max(known.compacted, row), known.kept + max(row - known.floor, 0))


def delete_events(connection: sqlite3.Connection, namespace_id: int, places: Sequence[int]) -> None:
    """Deletes events up to the floor of a namespace, and commits; all of ``places`` or none."""
    with transaction(connection):
        deleted = connection.execute(f"DELETE FROM events WHERE place IN ({','.join('?' * len(places))})", places).rowcount  # noqa: S608
        known = namespace(connection, namespace_id)
        _store(connection, namespace_id, known.name, known.compacted, known.kept - deleted)


# Events

EventRow: TypeAlias = tuple[int, int, int, int, str, str, bytes | None]
"""An event's columns: place, published_at, schema, checksum, key, properties (JSON), payload."""
EVENT = "place, published_at, schema, checksum, key, properties, payload"
"""The columns of ``EventRow``."""
COLUMNS = 7

_ESCAPED = bytes((*range(0x20), *b'"\\'))
"""The characters that JSON has to escape."""
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def text_of(properties: Mapping[str, str]) -> str:
    """Returns the properties of an event as JSON. Hardly any has a character to escape, and looking for these is what takes long."""
    texts = "".join([*properties, *properties.values()]).encode("utf-8", "surrogatepass")
    if len(texts.translate(None, _ESCAPED)) < len(texts):
        return _encode(properties)
    return '{"' + '","'.join([f'{name}":"{value}' for name, value in properties.items()]) + '"}' if properties else "{}"


def position_of(row: int) -> Position:
    """The position of a row (1 to 16**15 - 1): its hexadecimal digits, after one that says how many they are.

    The order of positions as strings is the order of the rows.
    """
    digits = f"{row:x}"
    return f"{len(digits):x}{digits}"


def row_of(position: Position) -> int:
    """The row number of a position; 0, which is before every row, for the empty string.

    Raises:
        ValueError: the text is not a position that ``position_of`` makes.
    """
    if not position:
        return 0
    row = int(position[1:], 16)
    if position_of(row) != position or row == 0:
        raise ValueError(f'"{position}" is not the position of a row')
    return row


def directly_follows(earlier: Position, later: Position) -> bool:
    """Whether two positions are those of adjacent rows; ``earlier`` may be "" for the beginning."""
    try:
        return position_of(row_of(earlier) + 1) == later
    except ValueError:
        return False


def place_of(namespace_id: int, row: int) -> int:
    """The place of a namespace's row."""
    return (namespace_id << ROW_BITS) | row


def row_at(place: int) -> int:
    """The row number of a place."""
    return place & ((1 << ROW_BITS) - 1)


def properties_of(text: str) -> dict[str, str]:
    """Decodes the properties of an event.

    Raises:
        ValueError: the text is not a JSON object of strings.
    """
    found = json.loads(text)
    if not isinstance(found, dict) or not all(type(value) is str for value in found.values()):
        raise ValueError("its properties are not strings by name")
    return found


def check_event(row: EventRow) -> None:
    """Compares an event with its checksum.

    Raises:
        Damaged: the row is not what was written.
    """
    place, published_at, schema, sure, key, properties, payload = row
    if checksum(place, published_at, schema, key, properties, payload) != sure:
        raise Damaged(f"the event in row {row_at(place)} of namespace {place >> ROW_BITS} is not what was written there")


class Entries(NamedTuple):
    """The entries of a namespace in a snapshot of the file: entries that a compaction deletes from now on are still read."""

    resumed: bool
    """Whether only the entries behind the given start are read."""
    compacted: int
    """The last row that a compaction may have deleted before the snapshot."""
    pages: Iterator[list[Placed]]
    """Entries that were not read yet. ``sqlite3.Error``: the file can't be read, or is damaged."""
    connection: sqlite3.Connection
    """Is to be closed behind the last page that is read."""


def read(opened: Opened, namespace_id: int, last: int, start: Start | None = None) -> Entries:
    """Reads the entries of a namespace up to the row ``last``. It and its pages are used on one thread at a time, not the event loop's.

    No other process writes the file, so each event must be there and be what was written. A missing or changed one is an error, because
    without it documents older than acknowledged ones would be served.

    ``start``: a point in this very log up to which nothing is read, if the entry there is the same, and nothing behind it was compacted
    away.

    Raises:
        sqlite3.Error: the file can't be read, or is damaged.
    """
    connection = connect(opened.path)
    try:
        begin_snapshot(connection)
        known = namespace(connection, namespace_id)
        row = None if start is None else _row_of(connection, known, last, start, opened.codecs)
    except BaseException:
        connection.close()
        raise
    resumed = row is not None and row >= known.compacted
    return Entries(resumed, known.compacted, _pages(connection, known, last, row if resumed else None, opened.codecs), connection)


def _pages(
    connection: sqlite3.Connection, known: NamespaceRow, last: int, start: int | None, codecs: Mapping[int, Codec]
) -> Iterator[list[Placed]]:
    at, missing = (0, known.kept) if start is None else (start, 0)
    cursor = _select(connection, known.id, at + 1, last)
    while page := cursor.fetchmany(PAGE):
        entries = []
        for row in page:
            number = row_at(row[0])
            if number > known.floor and number != max(at, known.floor) + 1:
                raise Damaged(f"of {known.name} an event is missing before row {number}")
            missing -= number <= known.floor
            at = number
            entries.append(_placed(row, known.name, codecs))
        yield entries
    if max(at, known.floor) < last:
        raise Damaged(f"of {known.name} the events behind row {at} are missing")
    if missing:
        raise Damaged(f"of {known.name} {missing} events up to row {known.floor} are missing")


def _select(connection: sqlite3.Connection, namespace_id: int, first: int, last: int) -> sqlite3.Cursor:
    places = place_of(namespace_id, first), place_of(namespace_id, last)
    return connection.execute(f"SELECT {EVENT} FROM events WHERE place BETWEEN ? AND ? ORDER BY place", places)  # noqa: S608


def _row_of(connection: sqlite3.Connection, known: NamespaceRow, last: int, start: Start, codecs: Mapping[int, Codec]) -> int | None:
    """The row of a point, if the same event stands there; None if not, or if it is below the floor and not the last event there.

    That one is possible: the last event of an earlier life, which ended at the floor.
    """
    try:
        row = row_of(start.positions[0])
    except ValueError:
        return None
    found = _select(connection, known.id, row, max(row, known.floor)).fetchmany(2)
    if not start.anchors[0] or row > last or len(found) != 1 or row_at(found[0][0]) != row:
        return None
    return row if anchor_of(_placed(found[0], known.name, codecs)) == start.anchors[0] else None


def _placed(row: EventRow, name: str, codecs: Mapping[int, Codec]) -> Placed:
    check_event(row)
    place, published_at, schema, _, key, properties, payload = row
    try:
        event, problem = codecs[schema].read(key, payload, properties_of(properties))
    except (ValueError, KeyError) as error:  # properties or a schema id that can't be read: no codec has looked at the row yet
        event, problem = None, repr(error)
    if event is None:
        raise Damaged(f"the event in row {row_at(place)} of {name} can't be read: {problem}")
    return Placed(0, position_of(row_at(place)), event, published_at, "", problem)


# Opening


@dataclass(frozen=True, slots=True)
class Opened:
    """A file that was opened and found to be sound."""

    path: Path
    connection: sqlite3.Connection
    """The connection that writes."""
    identity: Identity
    schema: int
    """The id of the schema that payloads are written with."""
    codecs: Mapping[int, Codec]
    """The codecs of the file's schemas, by id."""
    namespaces: list[NamespaceRow]
    mark: Mark
    high_water: HighWaterMark
    """What the mark says."""


def open_file(path: Path, lock: FileLock, kind: type[sqlite3.Connection], codec: Codec) -> Opened:
    """Opens the file, and creates it if there is none; compares it with its mark. On failure the lock is released.

    ``lock`` is acquired here, and kept on success.

    Raises:
        LogError: the file can't be used (see ``SqliteLog.start``).
    """
    connection: sqlite3.Connection | None = None
    mark: Mark | None = None
    try:
        lock.acquire()
        _refuse_emptied(path)
        create_private(path)
        connection = connect(path, kind=kind)
        prepare(connection, path)
        mark = Mark(path)
        found, present, high_water = _compare(connection, mark, path)
        schema, codecs = _schemas(connection, codec)
        _settle_write_ahead_log(connection, path)
        return Opened(path, connection, found, schema, codecs, present, mark, high_water)
    except BaseException as error:
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()
        if mark is not None:
            mark.close()
        lock.release()
        cause = error.__cause__ if isinstance(error, FileError) else error
        if isinstance(cause, ERRORS) and not lacks_room(cause):
            raise unreadable(f"The change log {path}", cause) from error
        if isinstance(error, (*ERRORS, OSError)):
            error = unusable(path, error)
        if isinstance(error, FileError):
            if isinstance(error, NotOurs):
                raise LogError(Reason.LOG_UNAVAILABLE, str(error), kind=Kind.FAILED_PRECONDITION) from error
            raise LogError(Reason.LOG_FILE_UNUSABLE, str(error)) from error
        raise


def _refuse_emptied(path: Path) -> None:
    """Refuses a file that lost all its content, before SQLite takes it for a new one and removes its write-ahead log.

    Raises:
        FileError: the file is empty, and its mark knows of rows.
        OSError: the mark can't be read.
    """
    if not path.exists() or path.stat().st_size:
        return
    mark = Mark(path)
    try:
        said = mark.read()
    finally:
        mark.close()
    if said is not None and said.highest:
        why = f"{path} is empty, but events were acknowledged from it (its mark says so): it has lost its content."
        raise FileError(f"{why} Restore it from a backup, or remove the empty file to begin an empty log.")


def _settle_write_ahead_log(connection: sqlite3.Connection, path: Path) -> None:
    """Moves what was left in the write-ahead log into the file and to the disk: the writes to that log may not have got there.

    Raises:
        sqlite3.Error: the file can't be read, or what it holds can't be brought to the disk. A full disk is no such error: all is read.
    """
    try:
        flush_wal(connection, truncate=True)
        write_nothing(connection)
    except sqlite3.Error as error:
        if not lacks_room(error):
            raise
        _log.warning("the write-ahead log of the change log %s could not be moved into its file: %s", path, error)


def _schemas(connection: sqlite3.Connection, codec: Codec) -> tuple[int, dict[int, Codec]]:
    """Returns the id of the codec's schema, which is added to the file if it is new, and the codecs of all its schemas.

    A damaged schema is left out, so that payloads written with it can't be read.
    """
    own = codec.definition
    codecs: dict[int, Codec] = {}
    for number, definition, sure in connection.execute("SELECT id, definition, checksum FROM schemas ORDER BY id").fetchall():
        if sure == checksum(number, definition):
            with suppress(UnsupportedSchema):
                codecs[number] = codec if definition == own else Codec(definition)
    known = next((number for number, each in codecs.items() if each is codec), None)
    if known is None:
        (known,) = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM schemas").fetchone()
        connection.execute("INSERT INTO schemas VALUES (?, ?, ?)", (known, own, checksum(known, own)))
        codecs[known] = codec
    return known, codecs


def _compare(connection: sqlite3.Connection, mark: Mark, path: Path) -> tuple[Identity, list[NamespaceRow], HighWaterMark]:
    """Compares the file with its mark, and begins a new life if events were lost; returns what holds from now on."""
    found, present = identity(connection), namespaces(connection)
    said, high_water = mark.read(), _high_water(found, present)
    lost = what_is_lost(said, high_water)
    if lost:
        sqlite_file.check_pages(connection)  # rows may seem to be missing because pages are damaged: a new life does not repair that
        base = max(found.base, high_water.highest, said.highest if said is not None else 0) + LEAP
        found = Identity(uuid.uuid4().hex, base)
        with transaction(connection):
            for row in present:  # above the floor there were no gaps
                _store(connection, row.id, row.name, row.compacted, row.kept + row.last - row.floor)
            connection.execute("UPDATE log SET identity = ?, base = ?", found)
        present = namespaces(connection)
        high_water = _high_water(found, present)
        _log.error(
            "%s: %s. The log continues with the present events under another identity: watches begin anew, versions continue after row %d",
            path, lost, base,
        )  # fmt: skip
    if lost or said is None:
        mark.begin(high_water)
    else:
        mark.note(high_water, 0)
    return found, present, high_water


def _high_water(found: Identity, present: Sequence[NamespaceRow]) -> HighWaterMark:
    """How far the file has got in its present life; rows of earlier lives are not counted."""
    last = [row.last for row in present]
    return HighWaterMark(found.name, sum(row - found.base for row in last), max(last, default=found.base))


def is_damage(error: BaseException) -> bool:
    """Whether an error says that the content of the file is damaged. Only what SQLite itself finds has a code."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    return isinstance(error, ERRORS) and code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def unreadable(what: str, error: BaseException) -> LogError:
    """The error about a file, or a part of it, that can't be read; ``what`` names it, as the beginning of a sentence."""
    if is_damage(error):
        return LogError(Reason.LOG_FILE_UNUSABLE, f"{what} is damaged: {error}. Restore it from a backup, or name another file.")
    return LogError(Reason.LOG_FILE_UNUSABLE, f"{what} can't be read: {error}.{remedy(error)}")
