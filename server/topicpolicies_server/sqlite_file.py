"""Creates, opens, checks and closes the SQLite files of this server: embedded log, history.

A file is readable for its owner only, also if it was copied to where it is. Its ``application_id`` tells what kind of file it is, and its
``user_version`` its format. It has a write-ahead log. Each row that matters has a checksum, because SQLite has none of its own: it finds
damage only where pages contradict each other.

A file of another format is refused, and nothing in it is changed.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

BUSY_SECONDS = 5.0
"""How long a statement waits while another program, such as an operator's tool, has the file locked."""
JOURNAL_BYTES = 16 << 20
"""The length to which SQLite truncates the write-ahead log's file when it starts over; without this, never."""
_LACKS_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)
"""SQLite's codes of a write that failed, to the file or to the files beside it."""
_CACHED_STATEMENTS = 64
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

_log = logging.getLogger(__name__)


class FileError(Exception):
    """A file can't be created, read or written, or is damaged; the message is one or more sentences that name the file."""


class NotOurs(FileError):
    """Another process has the file, or it is of another kind, or of a format that this release does not know."""


class Damaged(sqlite3.DatabaseError):
    """The content of a file is not what was written there."""


ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""The exceptions that using a damaged file raises: SQLite's message about it can contain bytes that can't be decoded."""


class Format(NamedTuple):
    """A kind of file, and its format."""

    what: str
    """What the file is called in messages."""
    application_id: int
    version: int
    """The format that this release writes and reads."""
    create: Callable[[sqlite3.Connection], None]
    """Creates the tables; called in a transaction."""
    pragmas: tuple[str, ...]
    """The pragmas that are set on each connection, as ``name = value``."""


_TO_BE_WRITTEN = "The server's user must be able to write the file and its folder."


def lacks_room(error: BaseException | None) -> bool:
    """Whether an error is that of a write that failed, as on a full disk: what is in the file is good, and can't be written now."""
    return getattr(error, "sqlite_errorcode", None) in _LACKS_ROOM


def unusable(path: Path, error: Exception) -> FileError:
    """Returns the error of a file that can't be opened or read because of ``error``."""
    if lacks_room(error):
        return FileError(f"{path} can't be opened, as its disk is full or can't be written ({error}): make room.")
    return FileError(f"{path} can't be read: {error}.{remedy(error)}")


def remedy(error: BaseException) -> str:
    """Returns the sentence that follows the text of an error of SQLite's, after a space; "": there is none."""
    return f" {_TO_BE_WRITTEN}" if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY else ""


def create_private(path: Path) -> None:
    """Creates the file, if there is none, readable for its owner only: policies can hold secrets. SQLite's other files inherit this.

    Raises:
        FileError: the file can't be created or written, or is not a regular file: to read a pipe takes for ever.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise FileError(f"{path} can't be opened for writing: {error.strerror}.") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileError(f"{path} is not a regular file: name another one.")
    finally:
        os.close(descriptor)


def connect(
    path: Path, form: Format, kind: type[sqlite3.Connection] = sqlite3.Connection, *, read_only: bool = False, alone: bool = False
) -> sqlite3.Connection:
    """Opens a connection to an existing file. It begins no transactions implicitly, and several threads may use it in turn.

    ``alone``: whether nothing writes meanwhile, and no file must be made beside it: there is no write-ahead log.

    Raises:
        sqlite3.Error: there is no such file, or it can't be read.
    """
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}&immutable={alone:d}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        factory=kind,
        cached_statements=_CACHED_STATEMENTS,
    )
    try:
        connection.execute("PRAGMA cell_size_check = ON")  # SQLite reports a damaged page sooner
        connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_BYTES}")
        for pragma in form.pragmas:
            connection.execute(f"PRAGMA {pragma}")
    except UnicodeDecodeError as error:
        connection.close()
        raise Damaged(f"its tables can't be read ({error})") from error
    except BaseException:
        connection.close()
        raise
    return connection


def is_empty(connection: sqlite3.Connection, path: Path, form: Format) -> bool:
    """Returns whether a file has no tables yet; checks any other file. Changes nothing.

    Raises:
        NotOurs: the file is of another kind or format.
        sqlite3.Error: it can't be read.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables == 0 and application in (0, form.application_id) and found == 0:
        return True
    if application != form.application_id:
        raise NotOurs(f"{path} is an SQLite file, but not a {form.what}: name another file.")
    if found != form.version:
        problem = f"{path} has format {found}, and this release reads format {form.version} only"
        raise NotOurs(f"{problem}: use the release that wrote it, or name another file.")
    return False


def prepare(connection: sqlite3.Connection, path: Path, form: Format) -> None:
    """Creates the tables in an empty file; checks any other file.

    Raises:
        FileError: the file is of another kind or format, damaged, or on a file system on which SQLite has no write-ahead log.
    """
    try:
        if is_empty(connection, path, form):
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # must stand before the first table
            with transaction(connection):
                form.create(connection)
                connection.execute(f"PRAGMA application_id = {form.application_id}")
                connection.execute(f"PRAGMA user_version = {form.version}")
        if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
            raise FileError(f"{path} is on a file system without SQLite's write-ahead log (perhaps a network file system).")
    except ERRORS as error:
        raise unusable(path, error) from error
    _close_to_others(path, form)


def _close_to_others(path: Path, form: Format) -> None:
    """Takes other users' access to a file of ours away: a backup that was put back has the mode that its copier gave it."""
    for beside in ("", "-wal", "-shm"):
        each = Path(os.path.realpath(path) + beside)  # SQLite's other files stand beside the file to which a link leads
        try:
            mode = stat.S_IMODE(each.stat().st_mode)
            if mode & _OTHERS:
                each.chmod(mode & ~_OTHERS)
                _log.warning("the %s %s was open to other users (mode %o), and now is to its owner only", form.what, each, mode)
        except FileNotFoundError:
            continue
        except OSError as error:
            _log.warning("the %s %s is open to other users, and that can't be changed: %s", form.what, each, error.strerror)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Runs its body in a transaction, which is committed at the end, or rolled back if an exception is raised."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


def insert(connection: sqlite3.Connection, table: str, columns: int, values: list[int | str | bytes | None]) -> None:
    """Inserts rows, all of them or none; ``values`` are their columns one after the other, and the first column is never NULL.

    One statement inserts all of them, so there is one wait for the interpreter's lock. Empty rows pad their number to a power of two, so
    that only few statements have to be prepared.
    """
    count = len(values) // columns
    padded = 1 << (count - 1).bit_length()
    connection.execute(_insertion(table, columns, padded), values + [None] * (columns * (padded - count)))


@cache
def _insertion(table: str, columns: int, count: int) -> str:
    rows = ",".join([f"({','.join('?' * columns)})"] * count)
    return f"INSERT INTO {table} SELECT * FROM (VALUES {rows}) WHERE column1 IS NOT NULL"  # noqa: S608 (only our names)


def check_pages(connection: sqlite3.Connection) -> None:
    """Checks every page of the file, which takes as long as reading the file.

    Raises:
        Damaged: pages contradict each other.
    """
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise Damaged(f"its pages contradict each other ({' '.join(found.split())})")


def flush_wal(connection: sqlite3.Connection, *, truncate: bool = False) -> bool:
    """Moves commits from the write-ahead log into the file, so that the log can start over; returns whether all were moved."""
    mode = "TRUNCATE" if truncate else "PASSIVE"
    busy, logged, moved = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    return not busy and logged == moved


def sizes(path: Path) -> tuple[int, int]:
    """The sizes of a file and of its write-ahead log, in bytes."""
    path = Path(os.path.realpath(path))  # SQLite's other files stand beside the file to which a link leads
    beside = path.with_name(path.name + "-wal")
    return path.stat().st_size, beside.stat().st_size if beside.exists() else 0


def unused_pages(connection: sqlite3.Connection) -> int:
    """The number of pages of the file that hold nothing."""
    found: int = connection.execute("PRAGMA freelist_count").fetchone()[0]
    return found


def give_back(connection: sqlite3.Connection, pages_at_most: int) -> None:
    """Removes up to ``pages_at_most`` unused pages from the file, which gets shorter with the next ``flush_wal``."""
    connection.executescript(f"PRAGMA incremental_vacuum({int(pages_at_most)})")  # execute would stop after the first page


def checksum(*values: int | str | bytes | None) -> int:
    """Computes the checksum (CRC-32) that is stored with values to detect later that they have changed."""
    texts, whole = [], 0
    for value in values:
        if isinstance(value, bytes):
            whole = crc32(value, whole)
            texts.append(f"<{len(value)}>")
        elif isinstance(value, str):
            texts.append(value)
        else:
            texts.append("" if value is None else str(value))
    return crc32("\x1f".join(texts).encode("utf-8", "surrogatepass"), whole)


class FileLock:
    """The lock (``flock``) on the file ``path`` + ``.lock``; if ``path`` is a symbolic link, beside the file to which it leads.

    So a file has one lock, whatever links lead to it. The lock file is never removed. It holds the process id of the last holder, if the
    disk had room for it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock_path = Path(f"{os.path.realpath(path)}.lock")
        self._descriptor = -1

    def acquire(self) -> None:
        """Takes the lock, or fails at once; does nothing if this object holds it already.

        Raises:
            NotOurs: another process holds the lock.
            FileError: the lock file can't be created or locked.
        """
        if self._descriptor >= 0:
            return
        try:
            descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise FileError(f"{self._lock_path} can't be opened: {error.strerror}. {_TO_BE_WRITTEN}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            os.close(descriptor)
            if not isinstance(error, BlockingIOError):
                raise FileError(f"{self._lock_path} can't be locked: {error.strerror}.") from error
            by = f"process {holder}" if holder.isdigit() else "another process"
            why = f"{self._path} is in use by {by}. The file belongs to one sidecar at a time: stop the other one, or name another file."
            raise NotOurs(why) from error
        self._descriptor = descriptor
        with suppress(OSError):  # on a full disk the process id is missing, but the lock is held all the same
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Releases the lock, if it is held."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
