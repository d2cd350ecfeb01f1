"""Messages for the time while the file can't be written, to the callers that are refused and to the server's log.

Each refused caller is told what to do. The server's log gets one line when refusals begin, and another when there has been none for a
while, because a disk that is nearly full takes one commit and refuses the next.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from pathlib import Path

from ...core.reasons import Reason
from ...sqlite_file import ERRORS
from ..change_log import LogError

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
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_log = logging.getLogger(__name__)


def explained(error: sqlite3.Error) -> str:
    """An error as the end of a sentence, followed by what the caller or operator can do about it, if that is known."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    do = _DO.get(code, _DO.get(code & 0xFF))
    return f"{error}. {do}" if do else f"{error}."


def is_damage(error: BaseException) -> bool:
    """Whether an error says that the content of the file is damaged. Only what SQLite itself finds has a code."""
    return isinstance(error, ERRORS) and getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in _DAMAGE


def unreadable(what: str, error: BaseException) -> LogError:
    """The error about a file, or a part of it, that can't be read; ``what`` names it, as the beginning of a sentence."""
    if is_damage(error):
        return LogError(Reason.LOG_FILE_UNUSABLE, f"{what} is damaged: {error}. Restore it from a backup, or name another file.")
    return LogError(Reason.LOG_FILE_UNUSABLE, f"{what} can't be read: {error}.")


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
