"""What became of a transaction that failed, derived from SQLite's result code."""

from __future__ import annotations

import enum
import sqlite3


class Fate(enum.Enum):
    """What became of a transaction that failed."""

    REFUSED = enum.auto()
    """The transaction certainly is not in the file, nor ever will be."""
    DOUBTFUL = enum.auto()
    """The transaction may be in the file or not: opening the file anew tells."""
    LOST = enum.auto()
    """The transaction may be in the file or not, and the file can't be relied on any more."""


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
"""Primary result codes of transactions that failed before their last page, which carries the commit mark, was written. On a full disk the
write of a page failed; so it did with ``SQLITE_IOERR_WRITE`` (a file that may not grow, a quota, a bad block), which ``fate`` adds."""
_DOUBTFUL = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOMEM})
"""Primary result codes of transactions that a later recovery may find: commits whose fsync failed, or that did not get into the index of
the write-ahead log."""


def fate(error: sqlite3.Error) -> Fate:
    """What became of the transaction that failed with ``error``."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    if code & 0xFF in _REFUSED or code == sqlite3.SQLITE_IOERR_WRITE:
        return Fate.REFUSED
    return Fate.DOUBTFUL if code & 0xFF in _DOUBTFUL else Fate.LOST
