"""Whether the file still stands where it was opened.

A file that is moved away, deleted or replaced while it is open goes on taking commits, and whoever opens it next does not find them. And a
connection that is opened by the name of another file would take the open one's write-ahead log for that file's.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

CHECK_SECONDS = 0.25
"""For so long a commit relies on what was seen."""


class Home:
    """The place of an open file. One thread at a time looks now and then; any thread may look at once."""

    def __init__(self, path: Path) -> None:
        """The file that stands there is the right one.

        Raises:
            OSError: there is none.
        """
        self._path = path
        self._file = _identity(path)
        self._again = 0.0

    def check(self) -> None:
        """Looks whether it stands there.

        Raises:
            sqlite3.OperationalError: something else does, or nothing (``SQLITE_READONLY_DBMOVED``).
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
        """The same, if it was not seen there a moment ago."""
        now = time.monotonic()
        if now >= self._again:
            self.check()
            self._again = now + CHECK_SECONDS


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino
