"""What is said while the file can't be written: to everybody whose event is refused what to do about it, and to the server's log once.

A disk that is nearly full takes one commit and refuses the next: the server's log is told when that begins, and when it has been over for a
while.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from pathlib import Path

QUIET_SECONDS = 5.0
"""For so long nothing is refused before the server's log is told that it is over."""

_LOCKED = "Another program has the server's file locked: let that end, and send it again."
_CLOSED = "Let the server write its file and the folder of that, and send it again: it goes on by itself."
_DO = {
    sqlite3.SQLITE_READONLY_DBMOVED: "Put it back, or restart the server on what is there.",
    sqlite3.SQLITE_FULL: "Make room on the server's disk, and send it again: it goes on by itself.",
    sqlite3.SQLITE_IOERR: "Look at the server's disk (room, quota, limits, hardware), and send it again: it goes on by itself.",
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_READONLY: _CLOSED,
    sqlite3.SQLITE_PERM: _CLOSED,
    sqlite3.SQLITE_CANTOPEN: _CLOSED,
}
_log = logging.getLogger(__name__)


def explained(error: sqlite3.Error) -> str:
    """An error as a part of a sentence, and what to do about it, for whoever is refused."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    do = _DO.get(code, _DO.get(code & 0xFF))
    return f"{error}. {do}" if do else f"{error}."


class Refusals:
    """Whether events are refused, as far as the server's log was told."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: float | None = None
        """When one was refused last; None: the server's log knows of nothing."""

    def refused(self, error: sqlite3.Error) -> None:
        """Events were refused."""
        if self._last is None:
            _log.error("the change log %s can't be written, and updates are refused until it can: %s", self._path, error)
        self._last = time.monotonic()

    def written(self) -> None:
        """Events were written."""
        if self._last is not None and time.monotonic() - self._last >= QUIET_SECONDS:
            _log.warning("the change log %s can be written again", self._path)
            self._last = None
