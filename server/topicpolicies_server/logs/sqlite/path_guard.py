"""Checks that the log's file still stands at the path where it was opened.

A file that is moved away, deleted or replaced while it is open goes on taking commits, and the next process that opens the path does not
find them. And if another file stands at the path, a new connection to it would take the open file's write-ahead log for its own.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

CHECK_SECONDS = 0.25
"""How long a check counts for the commits that follow it."""


class PathGuard:
    """The path of an open file. ``check_now_and_then`` belongs to one thread at a time; ``check`` may be called on any."""

    def __init__(self, path: Path) -> None:
        """Remembers the file that stands at ``path`` now as the right one.

        Raises:
            OSError: there is none.
        """
        self._path = path
        self._file = _identity(path)
        self._again = 0.0

    def check(self) -> None:
        """Checks that the same file still stands at the path.

        Raises:
            sqlite3.OperationalError: another file stands there, or none (``SQLITE_READONLY_DBMOVED``).
        """
        try:
            found = _identity(self._path)
        except OSError:
            found = None
        if found != self._file:
            error = sqlite3.OperationalError("its file was moved, deleted or replaced")
            error.sqlite_errorcode = sqlite3.SQLITE_READONLY_DBMOVED
            raise error

    def check_now_and_then(self) -> None:
        """Like ``check``, unless the file was seen there less than ``CHECK_SECONDS`` ago.

        Raises:
            sqlite3.OperationalError: as ``check``.
        """
        now = time.monotonic()
        if now >= self._again:
            self.check()
            self._again = now + CHECK_SECONDS


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino
