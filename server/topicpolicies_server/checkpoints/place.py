"""Where the file of checkpoints stands, and whose the file is that is found there. Nobody else's is ever removed, or written to.

An SQLite file says by its ``application_id`` whose it is; that stands in the first hundred bytes, which may be damaged as any others are:

==========================================  ====================  =================================================================
how the file begins                         by whom it is named   whose it is
==========================================  ====================  =================================================================
there is none, or it is empty               anybody               FREE: a new one is made
with SQLite's header, and our id            anybody               OURS, of whatever format, and however damaged behind that
with anything; the first page ends with     anybody               OURS: no page of another file ends so
the statement that made our first table,
and the name of its index
with a page of nothing but zeros            this server           OURS: nobody's content is there
with SQLite's name, and ends within the     this server           OURS: it is too short to be anybody's database
header
otherwise                                   anybody               FOREIGN, or not to be told from such a file: it is left alone
==========================================  ====================  =================================================================

This server names the file beside ``data`` unless it is told otherwise.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ..sqlite_file import Damaged, FileError, Problem
from . import file

_BESIDE = ("", "-wal", "-shm", "-journal")
"""What the names of SQLite's files end with."""


class Whose(enum.Enum):
    """Whose a file is."""

    FREE = enum.auto()
    OURS = enum.auto()
    FOREIGN = enum.auto()


def whose(beginning: bytes, *, named_here: bool) -> Whose:
    """Whose a file is (see above).

    Args:
        beginning: its first ``file.PAGE_BYTES`` bytes, or all of them.
        named_here: whether this server gave it its name.
    """
    if not beginning:
        return Whose.FREE
    if file.has_our_id(beginning) or file.has_our_table(beginning):
        return Whose.OURS
    is_lost = not any(beginning) or (beginning.startswith(file.MAGIC) and len(beginning) < file.HEADER_BYTES)
    return Whose.OURS if named_here and is_lost else Whose.FOREIGN


class FilePlace:
    """Where the file stands."""

    def __init__(self, path: Path, *, named_here: bool = False) -> None:
        """``named_here``: whether this server gave it its name."""
        self.path = path
        self._named_here = named_here
        self._opened: dict[str, tuple[int, int]] = {}
        """Which files they were as they were opened, by the endings of their names."""

    def whose(self) -> Whose:
        """Whose the file is that stands there.

        Raises:
            FileError: it can't be read.
        """
        try:
            with self.path.open("rb") as found:
                return whose(found.read(file.PAGE_BYTES), named_here=self._named_here)
        except FileNotFoundError:
            return Whose.FREE
        except OSError as error:
            raise FileError(Problem.UNUSABLE, f"{self.path} can't be read: {error.strerror}.") from error

    @property
    def is_replaceable(self) -> bool:
        """Whether what stands there, and can't be used, may be removed."""
        with suppress(FileError):
            return self.whose() is not Whose.FOREIGN
        return False

    def opened(self) -> None:
        """What stands there now was opened."""
        self._opened = self._there()

    def still_there(self) -> list[str]:
        """The endings of the names at which still stands what was opened."""
        return [ending for ending, found in self._there().items() if self._opened.get(ending) == found]

    def check(self) -> None:
        """Makes sure that the file stands where it was opened.

        Raises:
            Damaged: it does not.
        """
        found = self._there().get("")
        if found is None or found != self._opened.get(""):
            raise Damaged(f"{self.path} was moved, deleted or replaced")

    def clear(self, endings: Sequence[str] = _BESIDE) -> None:
        """Removes the files whose names end so.

        Raises:
            FileError: they can't be removed.
        """
        try:
            for ending in sorted(endings, reverse=True):  # the file itself goes last
                self._beside(ending).unlink(missing_ok=True)
        except OSError as error:
            raise FileError(Problem.UNUSABLE, f"{self.path} can't be removed: {error.strerror}.") from error

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    def _there(self) -> dict[str, tuple[int, int]]:
        """Which files stand there now, by the endings of their names."""
        there = {}
        for ending in _BESIDE:
            with suppress(OSError):
                found = self._beside(ending).stat()
                there[ending] = found.st_dev, found.st_ino
        return there
