"""The log's file: what is stored in it, how damage to it is found, and how it is opened for one process at a time.

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
from functools import cache
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ...core.errors import Kind
from ...core.reasons import Reason
from ...sqlite_file import (
    ERRORS,
    Damaged,
    FileError,
    FileLock,
    Format,
    Problem,
    check_pages,
    checkpoint,
    checksum,
    create_private,
    lacks_room,
    transaction,
    unusable,
)
from ...sqlite_file import connect as _connect
from ...sqlite_file import prepare as _prepare
from ..avro import Codec
from ..change_log import LogError
from .tail_guard import LEAP, HighWaterMark, Mark, what_is_lost

APPLICATION_ID = int.from_bytes(b"TPLG", "big")
FORMAT = 1
"""The format that is written and read; a file of any other is refused."""
AUTOCHECKPOINT_PAGES = 32_000
"""Pages in the write-ahead log after which SQLite checkpoints by itself; the writer does so long before."""
ROW_BITS = 40
"""How many low bits of a place are the row number; the bits above are the namespace's id."""
MAX_NAMESPACE_ID = (1 << (63 - ROW_BITS)) - 1

_TABLES = (
    "CREATE TABLE log (identity TEXT NOT NULL, base INTEGER NOT NULL)",
    "CREATE TABLE schemas (id INTEGER PRIMARY KEY, definition TEXT NOT NULL UNIQUE, checksum INTEGER NOT NULL)",
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


def connect(path: Path, kind: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
    """A connection to an existing file (see ``sqlite_file.connect``)."""
    return _connect(path, FORM, kind)


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Creates the tables in an empty file, or checks any other (see ``sqlite_file.prepare``)."""
    _prepare(connection, path, FORM)


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


# The identity, and the schemas of the payloads


class Identity(NamedTuple):
    """The identity of a file in its present life; positions are valid only under the identity that they were given out with."""

    name: str
    base: int
    """Row numbers up to this one may have been assigned in an earlier life, in any namespace."""


def identity(connection: sqlite3.Connection) -> Identity:
    """The identity of the file.

    Raises:
        Damaged: the file has none.
    """
    row = connection.execute("SELECT identity, base FROM log").fetchone()
    if row is None:
        raise Damaged("its identity is missing")
    return Identity(*row)


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


class Codecs:
    """The codecs of the schemas that the file's payloads were written with."""

    def __init__(self, codec: Codec, definitions: Mapping[int, str]) -> None:
        """Keeps the schemas; a codec is made when it is first needed.

        Args:
            codec: the codec that writes.
            definitions: the file's schemas, by id.
        """
        self._definitions = definitions
        self._by_text = {_definition_of(codec): codec}

    def get(self, schema: int) -> Codec:
        """Returns the codec of the schema with this id.

        Raises:
            KeyError: the file has no such schema.
            UnsupportedSchema: the schema is not one of policy events.
        """
        definition = self._definitions[schema]
        codec = self._by_text.get(definition)
        if codec is None:
            codec = self._by_text[definition] = Codec(definition)
        return codec


def _definition_of(codec: Codec) -> str:
    return codec.definition if isinstance(codec.definition, str) else json.dumps(codec.definition)


# Namespaces


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


_NAMESPACE = """SELECT id, name, compacted, kept, checksum,
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
    if number > MAX_NAMESPACE_ID:
        raise OverflowError(f"a file holds {MAX_NAMESPACE_ID} namespaces at most")
    _store(connection, number, name, 0, 0)
    return int(number)


def _store(connection: sqlite3.Connection, number: int, name: str, compacted: int, kept: int) -> None:
    row = (number, name, compacted, kept)
    connection.execute("INSERT OR REPLACE INTO namespaces VALUES (?, ?, ?, ?, ?)", (*row, checksum(*row)))


def note_compacted(connection: sqlite3.Connection, namespace_id: int, row: int, kept: int) -> None:
    """Records that a compaction may delete rows of a namespace up to ``row`` from now on, and how many stand up to the floor then.

    Does so in one statement, which commits.
    """
    known = namespace(connection, namespace_id)
    _store(connection, namespace_id, known.name, max(known.compacted, row), kept)


def delete_events(connection: sqlite3.Connection, namespace_id: int, places: Sequence[int]) -> None:
    """Deletes events up to the floor of a namespace, and commits; all of ``places`` or none.

    Raises:
        Damaged: one of them is missing.
    """
    with transaction(connection):
        chosen = f"place IN ({','.join('?' * len(places))})"
        if connection.execute(f"DELETE FROM events WHERE {chosen}", places).rowcount != len(places):  # noqa: S608 (only question marks)
            raise Damaged("some of the events that were to be deleted are missing")
        known = namespace(connection, namespace_id)
        _store(connection, namespace_id, known.name, known.compacted, known.kept - len(places))


def count_up_to(connection: sqlite3.Connection, namespace_id: int, row: int) -> int:
    """How many events of a namespace stand up to a row."""
    places = place_of(namespace_id, 1), place_of(namespace_id, row)
    (found,) = connection.execute("SELECT count(*) FROM events WHERE place BETWEEN ? AND ?", places).fetchone()
    return int(found)


def _begin_life(connection: sqlite3.Connection, base: int) -> Identity:
    """Gives the file another identity, and lets the rows of every namespace go on behind row ``base``. Commits.

    Raises:
        Damaged: events are missing that no mark knows of.
    """
    found = Identity(uuid.uuid4().hex, base)
    with transaction(connection):
        for row in namespaces(connection):
            kept = count_up_to(connection, row.id, base)
            if count_up_to(connection, row.id, row.floor) != row.kept or kept - row.kept != row.last - row.floor:
                raise Damaged(f"of {row.name} events up to row {row.last} are missing")
            _store(connection, row.id, row.name, row.compacted, kept)
        connection.execute("UPDATE log SET identity = ?, base = ?", found)
    return found


# Events

EventRow: TypeAlias = tuple[int, int, int, int, str, str, bytes | None]
"""An event's columns: place, published_at, schema, checksum, key, properties (JSON), payload."""
EVENT = "place, published_at, schema, checksum, key, properties, payload"
"""The columns of ``EventRow``."""
_VALUES = 7


def place_of(namespace_id: int, row: int) -> int:
    """The place of a namespace's row."""
    return (namespace_id << ROW_BITS) | row


def row_at(place: int) -> int:
    """The row number of a place."""
    return place & ((1 << ROW_BITS) - 1)


def text_of(properties: Mapping[str, str]) -> str:
    """Encodes the properties of an event as compact JSON. Their names need no escaping."""
    return "{" + ",".join([f'"{name}":{encode_basestring_ascii(value)}' for name, value in properties.items()]) + "}"


def properties_of(text: str) -> dict[str, str]:
    """Decodes the properties of an event.

    Raises:
        ValueError: the text is not a JSON object of strings.
    """
    found = json.loads(text)
    if not isinstance(found, dict) or not all(type(value) is str for value in found.values()):
        raise ValueError("its properties are not strings by name")
    return found


def checksum_of(place: int, published_at: int, schema: int, key: str, properties: str, payload: bytes | None) -> int:
    """The checksum of an event's row."""
    return checksum(place, published_at, schema, key, properties, payload)


def check_event(row: EventRow) -> None:
    """Compares an event with its checksum.

    Raises:
        Damaged: the row is not what was written.
    """
    place, published_at, schema, sure, key, properties, payload = row
    if checksum_of(place, published_at, schema, key, properties, payload) != sure:
        raise Damaged(f"the event in row {row_at(place)} of namespace {place >> ROW_BITS} is not what was written there")


def insert_events(connection: sqlite3.Connection, values: list[int | str | bytes | None], rows: int) -> None:
    """Inserts and commits ``rows`` rows, all of them or none; ``values`` are their columns one after the other.

    One statement inserts all rows, so there is one commit and one wait for the interpreter's lock, however many rows there are. The
    statement's size is rounded up to a power of two with empty rows, so that only few statements have to be prepared.
    """
    padded = 1 << (rows - 1).bit_length()
    connection.execute(_insertion(padded), values + [None] * (_VALUES * (padded - rows)))


@cache
def _insertion(rows: int) -> str:
    marks = ",".join([f"({','.join('?' * _VALUES)})"] * rows)
    return f"INSERT INTO events SELECT * FROM (VALUES {marks}) WHERE column1 IS NOT NULL"  # noqa: S608 (only question marks)


def holds_event(connection: sqlite3.Connection, first: int, last: int | None = None) -> bool:
    """Whether an event stands in the place ``first``, or, if ``last`` is given, in any place from ``first`` to ``last``."""
    last = first if last is None else last
    return connection.execute("SELECT 1 FROM events WHERE place BETWEEN ? AND ? LIMIT 1", (first, last)).fetchone() is not None


def event_at(connection: sqlite3.Connection, place: int) -> EventRow | None:
    """The event in a place; None if there is none."""
    found: EventRow | None = connection.execute(f"SELECT {EVENT} FROM events WHERE place = ?", (place,)).fetchone()  # noqa: S608 (ours)
    return found


def event_pages(connection: sqlite3.Connection, first: int, last: int, size: int) -> Iterator[Sequence[EventRow]]:
    """Yields the events from place ``first`` to ``last``, in order, in pages of up to ``size``."""
    cursor = connection.execute(f"SELECT {EVENT} FROM events WHERE place BETWEEN ? AND ? ORDER BY place", (first, last))  # noqa: S608 (ours)
    while page := cursor.fetchmany(size):
        yield page


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
    codecs: Codecs
    namespaces: list[NamespaceRow]
    mark: Mark
    high_water: HighWaterMark
    """What the mark says."""


def open_file(path: Path, lock: FileLock, kind: type[sqlite3.Connection], codec: Codec) -> Opened:
    """Opens the file, and creates it if there is none; compares it with its mark. On failure the lock is released.

    Args:
        path: the file.
        lock: its lock; acquired here, and kept on success.
        kind: the class of the connection.
        codec: the codec that payloads are written with.

    Raises:
        LogError: the file can't be used (see ``SqliteLog.start``).
    """
    connection: sqlite3.Connection | None = None
    mark: Mark | None = None
    try:
        lock.acquire()
        _refuse_emptied(path)
        create_private(path)
        connection = connect(path, kind)
        prepare(connection, path)
        _empty_write_ahead_log(connection, path)
        mark = Mark(path)
        found, rows, high_water = _compare(connection, mark, path)
        schema = schema_id(connection, _definition_of(codec))
        return Opened(path, connection, found, schema, Codecs(codec, schemas(connection)), rows, mark, high_water)
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
            if error.problem is Problem.UNUSABLE:
                raise LogError(Reason.LOG_FILE_UNUSABLE, str(error)) from error
            raise LogError(Reason.LOG_UNAVAILABLE, str(error), kind=Kind.FAILED_PRECONDITION) from error
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
        raise FileError(Problem.UNUSABLE, f"{why} Restore it from a backup, or remove the empty file to begin an empty log.")


def _empty_write_ahead_log(connection: sqlite3.Connection, path: Path) -> None:
    """Moves what an earlier process left in the write-ahead log into the file and to the disk: its own writes may not have got there."""
    try:
        checkpoint(connection, truncate=True)
    except sqlite3.Error as error:
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            raise  # not an operational error: the file can't be read, either
        _log.warning("the write-ahead log of the change log %s could not be moved into its file: %s", path, error)


def _compare(connection: sqlite3.Connection, mark: Mark, path: Path) -> tuple[Identity, list[NamespaceRow], HighWaterMark]:
    """Compares the file with its mark, and begins a new life if events were lost; returns what holds from now on."""
    found, rows = identity(connection), namespaces(connection)
    said, high_water = mark.read(), _high_water(found, rows)
    lost = what_is_lost(said, high_water)
    if lost:
        check_pages(connection)  # rows may seem to be missing because pages are damaged: that is not repaired by a new life
        base = max(found.base, high_water.highest, said.highest if said is not None else 0) + LEAP
        if base + LEAP >= 1 << ROW_BITS:
            raise Damaged("it was restored so often that it has no row numbers left")
        found = _begin_life(connection, base)
        rows = namespaces(connection)
        high_water = _high_water(found, rows)
        _log.error(
            "%s: %s. The log continues with the present events under another identity: watches begin anew, versions continue after row %d",
            path, lost, base,
        )  # fmt: skip
    if lost or said is None:
        mark.begin(high_water)
    else:
        mark.note(high_water, 0)
    return found, rows, high_water


def _high_water(found: Identity, rows: list[NamespaceRow]) -> HighWaterMark:
    """How far the file has got in its present life; rows of earlier lives are not counted."""
    last = [row.last for row in rows]
    return HighWaterMark(found.name, sum(row - found.base for row in last), max(last, default=found.base))


def is_damage(error: BaseException) -> bool:
    """Whether an error says that the content of the file is damaged. Only what SQLite itself finds has a code."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    return isinstance(error, ERRORS) and code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def unreadable(what: str, error: BaseException) -> LogError:
    """The error about a file, or a part of it, that can't be read; ``what`` names it, as the beginning of a sentence."""
    if is_damage(error):
        return LogError(Reason.LOG_FILE_UNUSABLE, f"{what} is damaged: {error}. Restore it from a backup, or name another file.")
    return LogError(Reason.LOG_FILE_UNUSABLE, f"{what} can't be read: {error}.")
