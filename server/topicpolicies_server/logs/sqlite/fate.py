"""What became of a transaction that failed, by SQLite's result code."""

from __future__ import annotations

import enum
import sqlite3


class Fate(enum.Enum):
    """What became of a transaction."""

    REFUSED = enum.auto()
    """It certainly is not in the file, nor ever will be."""
    DOUBTFUL = enum.auto()
    """It may be in the file or not: that shows when the file is opened anew."""
    LOST = enum.auto()
    """The same, and the file can't be relied on."""


_REFUSED = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_TOOBIG,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_INTERRUPT,
    }
)
"""Primary result codes of transactions that were refused before their last page, which carries the commit mark, was written. A disk that is
full is among them: the write of a page failed. So did it with ``SQLITE_IOERR_WRITE`` (a file that may not grow, a quota, a bad block)."""
_DOUBTFUL = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOMEM})
"""A commit whose fsync failed, or that did not get into the index of the write-ahead log, may be found by a later recovery."""


def fate(error: sqlite3.Error) -> Fate:
    """What became of the transaction that failed with this error."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    if code & 0xFF in _REFUSED or code == sqlite3.SQLITE_IOERR_WRITE:
        return Fate.REFUSED
    return Fate.DOUBTFUL if code & 0xFF in _DOUBTFUL else Fate.LOST
