"""The mark beside the file: how far the log was acknowledged, where the file itself can't forget it.

A file that lost its write-ahead log, or the end of it, and one that was restored from a backup look like files in order that ended earlier.
Were they simply written on, versions and positions that were told before would name other events. So the mark (``NAME-mark``) says
whose file it is and how many rows were given away, and when the file is opened the two are compared:

======================  ==============================  ==============================================================
the mark                the file                        then
======================  ==============================  ==============================================================
there, of this life     has as many rows, or more       it goes on
there, of this life     has fewer                       its end was lost, or it is a backup: a new life
there, of another one   whatever                        it is a backup, or another file: a new life
missing, or damaged     was never told of, or empty     the mark begins
missing, or damaged     has rows                        it may be a copy whose original went on: a new life
======================  ==============================  ==============================================================

A new life has another identity, so that no token and no history of the former one is taken for its own; and its rows begin so far behind
(``LEAP``) that no version is given twice.

The mark is a mapped file: to write it costs no system call and no wait, and what was written outlives the process, however that ends. A
failure of power may take the last of it away, but not more than ``FLUSHED`` rows, because it is brought to the disk so often. It is
written after the commit, so it is never ahead of the file. Of its two slots one is always whole.

It is brought to the disk by ``fdatasync``, which takes what was written through the map too: ``mmap.flush`` keeps the interpreter's lock
while it waits, so a slow disk would hold up the whole process.
"""

from __future__ import annotations

import enum
import fcntl
import logging
import mmap
import os
import struct
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from ...sqlite_file import FileError, Problem

_log = logging.getLogger(__name__)

LEAP = 1 << 32
"""Rows that a new life leaves out: more than a former one can have given away unseen. What that is follows from the disk and ``FLUSHED``,
and there is room for 255 lives: nobody needs another number."""
FLUSHED = 4_096
"""Rows after which the mark is brought to the disk: often enough for ``LEAP``, seldom enough to cost nothing."""
_SLOT = 4_096
_RECORD = struct.Struct("<8s32sQQQ")
_CHECK = struct.Struct("<I")
_MAGIC = b"TPMARK1\n"


class Water(NamedTuple):
    """How far a log was acknowledged."""

    identity: str
    total: int
    """Rows that were given away in this life, of all namespaces together."""
    highest: int
    """The highest row number of any of them."""


class Verdict(enum.Enum):
    """What a mark says about a file."""

    GOES_ON = enum.auto()
    BEGINS = enum.auto()
    BEHIND = enum.auto()
    FOREIGN = enum.auto()
    UNMARKED = enum.auto()


def judge(mark: Water | None, found: Water, *, marked: bool) -> Verdict:
    """Compares a file with its mark (see the table above).

    Args:
        mark: what the mark says; None: there is none, or it can't be read.
        found: what the file has.
        marked: whether the file ever had a mark; those of format 1 had none.
    """
    if mark is None:
        return Verdict.UNMARKED if marked and found.highest else Verdict.BEGINS
    if mark.identity != found.identity:
        return Verdict.FOREIGN
    return Verdict.BEHIND if found.total < mark.total else Verdict.GOES_ON


class Mark:
    """A mark that is open. Its methods are called on one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Opens the mark of the log in ``path``; makes it if there is none. It is locked too, because lock files get removed by hand.

        Raises:
            OSError: it can't be opened, or there is no room for it.
            FileError: another process has it (``IN_USE``).
        """
        self.log = path
        """The log's own file."""
        self.path = path.with_name(path.name + "-mark")
        self._turn = 0
        self._unflushed = 0
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(self._descriptor, path)
            if os.fstat(self._descriptor).st_size != 2 * _SLOT:
                os.ftruncate(self._descriptor, 0)
                os.posix_fallocate(self._descriptor, 0, 2 * _SLOT)  # or writing to the map could find no room, which ends the process
            self._map = mmap.mmap(self._descriptor, 2 * _SLOT)
        except BaseException:
            os.close(self._descriptor)
            raise

    def read(self) -> Water | None:
        """What it says; None: nothing, or nothing that can be relied on."""
        found = sorted(filter(None, map(self._slot, (0, _SLOT))))
        if not found:
            return None
        self._turn, water = found[-1]
        return water

    def begin(self, water: Water) -> None:
        """Forgets what it said, and says this, on the disk too.

        Raises:
            OSError: it did not get to the disk.
        """
        for _ in range(2):
            self._write(water)
        os.fdatasync(self._descriptor)
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def note(self, water: Water, rows: int) -> None:
        """So much is acknowledged now, ``rows`` more than before."""
        self._write(water)
        self._unflushed += rows
        if self._unflushed >= FLUSHED:
            self.flush()

    def flush(self) -> None:
        """Brings it to the disk. Where that fails it is told, and tried again with the next rows."""
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            _log.warning("the mark %s could not be brought to the disk: %s", self.path, error)
        self._unflushed = 0

    def close(self) -> None:
        """Brings it to the disk, and closes it."""
        if not self._map.closed:
            self.flush()
            self._map.close()
            os.close(self._descriptor)

    def _write(self, water: Water) -> None:
        self._turn += 1
        record = _RECORD.pack(_MAGIC, water.identity.encode(), water.total, water.highest, self._turn)
        at = _SLOT * (self._turn % 2)
        self._map[at : at + _RECORD.size + _CHECK.size] = record + _CHECK.pack(crc32(record))

    def _slot(self, at: int) -> tuple[int, Water] | None:
        record = self._map[at : at + _RECORD.size]
        (sure,) = _CHECK.unpack_from(self._map, at + _RECORD.size)
        magic, identity, total, highest, turn = _RECORD.unpack(record)
        if magic != _MAGIC or crc32(record) != sure:
            return None
        return turn, Water(identity.decode("ascii", "replace"), total, highest)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        why = f"{path} is in use by another process, though its lock file was removed. Stop that one, or name another file."
        raise FileError(Problem.IN_USE, why) from error
