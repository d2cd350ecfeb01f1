"""Messages for the time while the file can't be written, to the callers that are refused and to the server's log.

Each refused caller is told what to do. The server's log gets one line when refusals begin, and another when there has been none for a
while, because a disk that is nearly full takes one commit and refuses the next.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from pathlib import Path

QUIET_SECONDS = 5.0
"""How long no commit must have been refused before the server's log says that the file can be written again."""

_LOCKED = "Another program has the server's file locked: end that program, and repeat the change."
_CLOSED = "Let the server write its file and the file's folder, and repeat the change: the server recovers by itself."
_DO = {
    sqlite3.SQLITE_READONLY_DBMOVED: "Put it back, or restart the server on what is there.",
    sqlite3.SQLITE_FULL: "Make room on the server's disk, and repeat the change: the server recovers by itself.",
    sqlite3.SQLITE_IOERR: "Check the server's disk (room, quota, limits, hardware), and repeat the change: the server recovers by itself.",
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_READONLY: _CLOSED,
    sqlite3.SQLITE_PERM: _CLOSED,
    sqlite3.SQLITE_CANTOPEN: _CLOSED,
}
_log = logging.getLogger(__name__)


def explained(error: sqlite3.Error) -> str:
    """An error as the end of a sentence, followed by what the caller or operator can do about it, if that is known."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    do = _DO.get(code, _DO.get(code & 0xFF))
    return f"{error}. {do}" if do else f"{error}."


class Refusals:
    """Logs the beginning and the end of a period in which commits are refused."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: float | None = None
        """When a commit was refused last (monotonic seconds); None: no period is open."""

    def refused(self, error: sqlite3.Error) -> None:
        """Called when a commit was refused."""
        if self._last is None:
            _log.error("the change log %s can't be written, and updates are refused until it can: %s", self._path, error)
        self._last = time.monotonic()

    def written(self) -> None:
        """Called when a commit succeeded."""
        if self._last is not None and time.monotonic() - self._last >= QUIET_SECONDS:
            _log.warning("the change log %s can be written again", self._path)
            self._last = None
