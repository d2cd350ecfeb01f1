"""The SQLite files of this server, the embedded log and the history: made, opened, checked, brought to the newest format, and closed.

What both have in common stands here: a file is for its owner only, says by its ``application_id`` whose it is and by its ``user_version``
which format it has, has a write-ahead log, and has a checksum with each row that matters, because SQLite has none of its own: it finds
damage only where that makes its pages contradict each other.

A file of a former format is brought to the present one when it is opened, in one transaction: whatever happens, it has one of the two.
"""

from __future__ import annotations

import enum
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

BUSY_SECONDS = 5.0
"""How long a statement waits for an operator's tool that has the file locked."""
_CACHED_STATEMENTS = 64

_log = logging.getLogger(__name__)


class Problem(enum.Enum):
    """What is the matter with a file."""

    UNUSABLE = enum.auto()
    """It can't be made, read or written, or is damaged."""
    UNKNOWN_FORMAT = enum.auto()
    """It is something else's, or of a format that is not known here."""
    IN_USE = enum.auto()
    """Another process has it."""


class FileError(Exception):
    """A file can't be used; its text is a sentence that names the file."""

    def __init__(self, problem: Problem, message: str) -> None:
        super().__init__(message)
        self.problem = problem


class Damaged(sqlite3.DatabaseError):
    """Something in a file is not what was written there."""


ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What using a damaged file raises: SQLite's words about it can carry what no decoder takes."""


class Format(NamedTuple):
    """What a file of ours is."""

    what: str
    """What it is called in messages."""
    application_id: int
    version: int
    """The format that is written, and the newest that can be read."""
    create: Callable[[sqlite3.Connection], None]
    """Makes the tables; in a transaction."""
    migrations: Mapping[int, Callable[[sqlite3.Connection], None]]
    """By former format: what makes the next one of it; in a transaction."""
    pragmas: tuple[str, ...]
    """What is set on each connection, ``name = value``."""
    shrinks: bool = False
    """Whether unused pages can be given back (``incremental_vacuum``)."""


def create_private(path: Path) -> None:
    """Makes the file, if there is none, so that only its owner can read it: policies can carry secrets. SQLite's other files inherit this.

    Raises:
        FileError: it can't be made, or not be written.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise FileError(Problem.UNUSABLE, f"{path} can't be opened for writing: {error.strerror}.") from error


def connect(
    path: Path, form: Format, kind: type[sqlite3.Connection] = sqlite3.Connection, *, read_only: bool = False
) -> sqlite3.Connection:
    """A connection to a file that is there, without transactions of its own making, which several threads may use in turn.

    Raises:
        sqlite3.Error: there is none, or it can't be read.
    """
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        factory=kind,
        cached_statements=_CACHED_STATEMENTS,
    )
    try:
        connection.execute("PRAGMA cell_size_check = ON")  # a damaged page is an error sooner
        for pragma in form.pragmas:
            connection.execute(f"PRAGMA {pragma}")
    except UnicodeDecodeError as error:
        connection.close()
        raise Damaged(f"its tables can't be read ({error})") from error
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(connection: sqlite3.Connection, path: Path, form: Format) -> int:
    """Makes the tables in an empty file; checks any other, and brings one of a former format to the present one.

    Returns:
        The format that was found; 0: the file was empty.

    Raises:
        FileError: it is something else, of a format that is not known here, damaged, or on a file system without write-ahead logs.
    """
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables == 0 and application in (0, form.application_id) and found == 0:
            if form.shrinks:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # must stand before the first table
            _rewrite(connection, form, form.create)
        elif application != form.application_id:
            raise FileError(Problem.UNKNOWN_FORMAT, f"{path} is an SQLite file, but no {form.what}: name another file.")
        elif found != form.version and found not in form.migrations:
            raise FileError(
                Problem.UNKNOWN_FORMAT,
                f"{path} has format {found}, and this release reads up to {form.version}. Use the release that wrote it, or a later one.",
            )
        if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
            raise FileError(Problem.UNUSABLE, f"{path} is on a file system on which SQLite has no write-ahead log (a network's, perhaps).")
        if 0 < found < form.version:
            _rewrite(connection, form, *(form.migrations[version] for version in range(found, form.version)))
            _log.warning("%s %s was brought from format %d to %d", form.what, path, found, form.version)
    except ERRORS as error:
        raise FileError(Problem.UNUSABLE, f"{path} can't be read: {error}.") from error
    return int(found)


def _rewrite(connection: sqlite3.Connection, form: Format, *steps: Callable[[sqlite3.Connection], None]) -> None:
    with transaction(connection):
        for step in steps:
            step(connection)
        connection.execute(f"PRAGMA application_id = {form.application_id}")
        connection.execute(f"PRAGMA user_version = {form.version}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All that is done in it is in the file, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with suppress(sqlite3.Error):  # what was wrong is told by the first error
                connection.execute("ROLLBACK")
        raise


def check_pages(connection: sqlite3.Connection) -> None:
    """Looks at every page of the file, which takes as long as reading it.

    Raises:
        Damaged: they contradict each other.
    """
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise Damaged(f"its pages contradict each other ({' '.join(found.split())})")


def checkpoint(connection: sqlite3.Connection, *, truncate: bool = False) -> bool:
    """Moves what was committed from the write-ahead log into the file, so that it can begin anew; whether all was moved."""
    mode = "TRUNCATE" if truncate else "PASSIVE"
    busy, logged, moved = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    return not busy and logged == moved


def close(connection: sqlite3.Connection, form: Format, path: Path) -> None:
    """Closes a connection, whatever that says."""
    try:
        connection.close()
    except sqlite3.Error as error:
        _log.warning("the %s %s was not closed in good order: %s", form.what, path, error)


def checksum(*values: int | str | bytes | None) -> int:
    """What is kept beside values to find out whether they are still those that were written (CRC-32)."""
    texts, whole = [], 0
    for value in values:
        if type(value) is str:
            texts.append(value)
        elif value is None:
            texts.append("")
        elif isinstance(value, bytes):
            whole = crc32(value, whole)
            texts.append(f"<{len(value)}>")
        else:
            texts.append(str(value))
    return crc32("\x1f".join(texts).encode("utf-8", "surrogatepass"), whole)
