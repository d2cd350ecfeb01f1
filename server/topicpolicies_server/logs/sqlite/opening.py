"""Opens the log's file: locks it, checks it, and compares it with its mark, before events are read from it or written to it."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...core.errors import Kind
from ...core.reasons import Reason
from ...file_lock import FileLock
from ...sqlite_file import ERRORS, Damaged, FileError, Problem, check_pages, checkpoint, create_private, lacks_room, unusable
from ..avro import Codec
from ..change_log import LogError
from . import events, file
from .loading import Codecs, definition_of
from .mark import LEAP, HighWaterMark, Mark, Verdict, judge
from .refusals import unreadable

_log = logging.getLogger(__name__)

_WHY = {
    Verdict.BEHIND: "events that were acknowledged are missing at its end (a backup was restored, or its write-ahead log was lost)",
    Verdict.FOREIGN: "the mark beside it belongs to another file (perhaps a backup was restored)",
    Verdict.UNMARKED: "the mark beside it is missing or damaged (perhaps this is a copy, whose original went on)",
}


@dataclass(frozen=True, slots=True)
class Opened:
    """A file that was opened and found to be sound."""

    connection: sqlite3.Connection
    """The connection that writes."""
    identity: file.Identity
    schema: int
    codecs: Codecs
    namespaces: list[file.NamespaceRow]
    mark: Mark
    high_water: HighWaterMark


def open_file(path: Path, lock: FileLock, kind: type[sqlite3.Connection], codec: Codec) -> Opened:
    """Opens the file, and creates it if there is none. On failure the lock is released.

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
        connection = file.connect(path, kind)
        file.prepare(connection, path)
        _settle_what_was_written(connection, path)
        mark = Mark(path)
        identity, namespaces, high_water = _compare(connection, mark, path)
        schema = file.schema_id(connection, definition_of(codec))
        return Opened(connection, identity, schema, Codecs(codec, file.schemas(connection)), namespaces, mark, high_water)
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
        if isinstance(error, FileError):
            raise _log_error(error) from error
        if isinstance(error, (*ERRORS, OSError)):
            raise _log_error(unusable(path, error)) from error
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


def _settle_what_was_written(connection: sqlite3.Connection, path: Path) -> None:
    """Moves what an earlier process left in the write-ahead log into the file and to the disk: its own writes may not have got there."""
    try:
        checkpoint(connection, truncate=True)
    except sqlite3.Error as error:
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            raise  # not an operational error: the file can't be read, either
        _log.warning("the write-ahead log of the change log %s could not be moved into its file: %s", path, error)


def _compare(connection: sqlite3.Connection, mark: Mark, path: Path) -> tuple[file.Identity, list[file.NamespaceRow], HighWaterMark]:
    identity, namespaces = file.identity(connection), file.namespaces(connection)
    said, high_water = mark.read(), _high_water(identity, namespaces)
    verdict = judge(said, high_water)
    if verdict is Verdict.GOES_ON:
        mark.note(high_water, 0)
    elif verdict is Verdict.BEGINS:
        mark.begin(high_water)
    else:
        check_pages(connection)  # rows may seem to be missing because pages are damaged: that is not repaired by a new life
        base = max(identity.base, high_water.highest, said.highest if said is not None else 0) + LEAP
        if base + LEAP >= 1 << events.ROW_BITS:
            raise Damaged("it was restored so often that it has no row numbers left")
        identity = file.begin_new_life(connection, base)
        namespaces = file.namespaces(connection)
        high_water = _high_water(identity, namespaces)
        mark.begin(high_water)
        _log.error(
            "%s: %s. The log continues with the present events under another identity: watches begin anew, versions continue after row %d",
            path, _WHY[verdict], base,
        )  # fmt: skip
    return identity, namespaces, high_water


def _high_water(identity: file.Identity, namespaces: list[file.NamespaceRow]) -> HighWaterMark:
    """How far the file has got in its present life; rows of earlier lives are not counted."""
    rows = [row.last for row in namespaces]
    return HighWaterMark(identity.name, sum(row - identity.base for row in rows), max(rows, default=identity.base))


def _log_error(error: FileError) -> LogError:
    match error.problem:
        case Problem.IN_USE:
            return LogError(Reason.LOG_UNAVAILABLE, str(error), kind=Kind.FAILED_PRECONDITION)
        case Problem.UNKNOWN_FORMAT:
            return LogError(Reason.LOG_UNAVAILABLE, str(error), kind=Kind.FAILED_PRECONDITION)
        case Problem.UNUSABLE:
            return LogError(Reason.LOG_FILE_UNUSABLE, str(error))
