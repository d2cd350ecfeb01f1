"""Checks that an open SQLite file, and its write-ahead log, still stand where they were opened.

A file that is moved away, deleted or replaced while it is open goes on taking commits, and the next process that opens the path does not
find them. The same holds for a write-ahead log, as far as its commits were not moved into the file. And if another file stands at the path,
a new connection to it would take the open file's write-ahead log for its own, and destroy that file.

So whoever finds that something was moved has the writer move all commits from the write-ahead log into the open file, and leave it empty.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .sqlite_file import checkpoint

CHECK_SECONDS = 0.25
"""How long a check counts for the commits that follow it."""


class PathGuard:
    """The path of an open file. ``check_now_and_then`` belongs to one thread at a time; ``check`` may be called on any."""

    def __init__(self, path: Path, *, journal: bool = True) -> None:
        """Remembers the files that stand there now as the right ones.

        Args:
            path: the file.
            journal: whether its write-ahead log is checked too.

        Raises:
            OSError: there is no file at ``path``.
        """
        self._path = path
        self._journal_path = path.with_name(path.name + "-wal")
        self._file = _identity(path)
        self._journal = _identity_if_there(self._journal_path) if journal else None
        """The identity of the write-ahead log; None: any, or none, is right."""
        self._lock = threading.Lock()
        self._again = 0.0

    def check(self) -> None:
        """Checks that the same files still stand there.

        Raises:
            sqlite3.OperationalError: others stand there, or none (``SQLITE_READONLY_DBMOVED``).
        """
        with self._lock:
            if _identity_if_there(self._path) != self._file:
                raise _moved("file")
            if self._journal is not None and _identity_if_there(self._journal_path) != self._journal:
                raise _moved("write-ahead log")

    def check_now_and_then(self) -> None:
        """Like ``check``, unless the files were seen there less than ``CHECK_SECONDS`` ago.

        Raises:
            sqlite3.OperationalError: as ``check``.
        """
        now = time.monotonic()
        if now >= self._again:
            self.check()
            self._again = now + CHECK_SECONDS

    @contextmanager
    def reopening(self) -> Iterator[None]:
        """Has the write-ahead log that stands there at the end count as the right one; checks wait meanwhile.

        SQLite removes the write-ahead log with the last connection to a file, and the next connection that reads creates another.
        """
        with self._lock:
            self._journal = None
            yield
            self._journal = _identity_if_there(self._journal_path)


def secure(connection: sqlite3.Connection) -> None:
    """Moves all commits into the open file, and leaves the write-ahead log empty, as far as nobody reads it; called when one was moved.

    Raises:
        sqlite3.Error: the file can't be written.
    """
    checkpoint(connection, truncate=True)


def is_moved(error: sqlite3.Error) -> bool:
    """Whether the error is that of ``PathGuard.check``."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY_DBMOVED


def _moved(what: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(f"its {what} was moved, deleted or replaced")
    error.sqlite_errorcode = sqlite3.SQLITE_READONLY_DBMOVED
    return error


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _identity_if_there(path: Path) -> tuple[int, int] | None:
    try:
        return _identity(path)
    except OSError:
        return None
