"""Where the file of checkpoints is, and whether a file that is found there is ours. A foreign file is never removed or written to.

An SQLite file names its application by its ``application_id``, which is in the first hundred bytes. These may be damaged, too:

==========================================  ====================  =================================================================
how the file begins                         who named the file    whose it is
==========================================  ====================  =================================================================
there is no file, or it is empty            anybody               FREE: a new file is made
as an SQLite file without a table and an    anybody               FREE: a creation that the disk had no room for left it. SQLite tells
id, which has no write-ahead log                                  whether it really holds nothing (``prepare``)
with SQLite's header, and our id            anybody               OURS, of whatever format, and however damaged behind that
with anything; the first page ends with     anybody               OURS: no page of another file ends like this
the statement that made our first table,
and the name of its index
with a page of nothing but zeros            this server           OURS: it has no content that could be somebody else's
with SQLite's magic string, and ends        this server           OURS: it is too short to be a database
within the header
otherwise                                   anybody               FOREIGN, or not to be told from a foreign file: it is left alone
==========================================  ====================  =================================================================

This server names the file, beside ``data``, unless an option names another one.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ..sqlite_file import Damaged, FileError, Problem
from . import file

_BESIDE = ("", "-wal", "-shm", "-journal")
"""What SQLite appends to the file's name for the database and the files beside it."""


class FileOwner(enum.Enum):
    """Whose a file is: FREE, there is none; OURS, checkpoints of this software; FOREIGN, somebody else's, or not known."""

    FREE = enum.auto()
    OURS = enum.auto()
    FOREIGN = enum.auto()


def owner_of(beginning: bytes, *, named_here: bool) -> FileOwner:
    """Decides whose a file is (see the table above).

    Args:
        beginning: the first ``file.PAGE_BYTES`` bytes of the file, or all of them.
        named_here: whether this server chose the file's name.
    """
    if not beginning or file.is_blank(beginning):
        return FileOwner.FREE
    if file.has_our_id(beginning) or file.has_our_table(beginning):
        return FileOwner.OURS
    is_lost = not any(beginning) or (beginning.startswith(file.MAGIC) and len(beginning) < file.HEADER_BYTES)
    return FileOwner.OURS if named_here and is_lost else FileOwner.FOREIGN


class FilePlace:
    """The path of the file, and the files that are found there."""

    def __init__(self, path: Path, *, named_here: bool = False) -> None:
        """``named_here``: whether this server chose the file's name."""
        self.path = path
        self._named_here = named_here
        self._opened: dict[str, tuple[int, int]] = {}
        """Device and inode of the files when they were opened, by what is appended to their names."""

    def owner(self) -> FileOwner:
        """Returns whose the file at this path is.

        Raises:
            FileError: it can't be read.
        """
        try:
            with self.path.open("rb") as found:
                return owner_of(found.read(file.PAGE_BYTES), named_here=self._named_here)
        except FileNotFoundError:
            return FileOwner.FREE
        except OSError as error:
            raise FileError(Problem.UNUSABLE, f"{self.path} can't be read: {error.strerror}.") from error

    @property
    def is_replaceable(self) -> bool:
        """Whether the file at this path, which can't be used, may be removed."""
        with suppress(FileError):
            return self.owner() is not FileOwner.FOREIGN
        return False

    def opened(self) -> None:
        """Notes that the files that are there now have been opened."""
        self._opened = self._there()

    def still_there(self) -> list[str]:
        """Returns the endings of the names at which the opened files still are."""
        return [ending for ending, found in self._there().items() if self._opened.get(ending) == found]

    def check(self) -> None:
        """Checks that the file is still where it was opened.

        Raises:
            Damaged: it is not there, or another one is.
        """
        found = self._there().get("")
        if found is None or found != self._opened.get(""):
            raise Damaged(f"{self.path} was moved, deleted or replaced")

    def clear(self, endings: Sequence[str] = _BESIDE) -> None:
        """Removes the files whose names have these endings.

        Raises:
            FileError: they can't be removed.
        """
        try:
            for ending in sorted(endings, reverse=True):  # the database itself is removed last
                self._beside(ending).unlink(missing_ok=True)
        except OSError as error:
            raise FileError(Problem.UNUSABLE, f"{self.path} can't be removed: {error.strerror}.") from error

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    def _there(self) -> dict[str, tuple[int, int]]:
        """Returns device and inode of the files that are there now, by what is appended to their names."""
        there = {}
        for ending in _BESIDE:
            with suppress(OSError):
                found = self._beside(ending).stat()
                there[ending] = found.st_dev, found.st_ino
        return there
