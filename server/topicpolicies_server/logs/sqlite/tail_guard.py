"""No acknowledged event is lost unnoticed: a second file, the mark, records how far the log was acknowledged.

A file that lost its write-ahead log, or the end of it, looks like a sound file that ended earlier, and so does one that was restored from a
backup. If such a file were simply appended to, versions and positions that clients already have would name other events. So the mark
(``NAME-mark``) holds the file's identity and how many row numbers were assigned. When the file is opened, it is compared with its mark, and
goes on as it is or begins a *new life*:

=========================  ==============================  ===========================================================
the mark                   the file                        then
=========================  ==============================  ===========================================================
has the file's identity    has as many rows, or more       the file goes on
has the file's identity    has fewer rows                  its end was lost, or it is a backup: a new life
has another identity       has any number of rows          it is a backup, or another file: a new life
knows of rows              is there, and is empty          all its content was lost: it is refused (``file``)
is missing or damaged      has no rows                     the mark begins
is missing or damaged      has rows                        it may be a copy whose original went on: a new life
=========================  ==============================  ===========================================================

A new life has a new identity, so that no token and no history of the former life is taken for one of its own. Its row numbers begin so far
behind the former ones (``LEAP``) that no version is given out twice.

The mark is a memory-mapped file: writing to it costs no system call and no wait, and what was written outlives the process, however the
process ends. A power failure may undo the last writes, but those of not more than ``FLUSHED`` rows, because the mark is flushed to the disk
that often. It is written after the commit, so it is never ahead of the file. It has two slots, written in turn, so one is always whole.

The flush is an ``fdatasync``, which includes what was written through the map. ``mmap.flush`` would hold the interpreter's lock while it
waits, so a slow disk would hold up the whole process.
"""

from __future__ import annotations

import fcntl
import logging
import mmap
import os
import struct
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from ...sqlite_file import NotOurs

_log = logging.getLogger(__name__)

LEAP = 1 << 32
"""Row numbers that a new life skips: far more than the former life can have assigned without a trace in the file or the mark (see
``FLUSHED``). The row numbers of a place suffice for 255 lives, so this need not be an option."""
FLUSHED = 4_096
"""Rows after which the mark is flushed to the disk: often enough for ``LEAP``, rarely enough to cost nothing."""
_SLOT = 4_096
_RECORD = struct.Struct("<8s32sQQQ")
_CHECK = struct.Struct("<I")
_MAGIC = b"TPMARK1\n"


class HighWaterMark(NamedTuple):
    """A high-water mark: how far a log was acknowledged."""

    identity: str
    total: int
    """The number of rows that were assigned in this life, over all namespaces."""
    highest: int
    """The highest row number of any namespace."""


def what_is_lost(mark: HighWaterMark | None, found: HighWaterMark) -> str:
    """Compares a file with its mark (see the table above); returns why a new life has to begin, or "" if the file goes on as it is.

    ``mark`` is None if there is none, or it can't be read.
    """
    if mark is None:
        return "the mark beside it is missing or damaged (perhaps this is a copy, whose original went on)" if found.highest else ""
    if mark.identity != found.identity:
        return "the mark beside it belongs to another file (perhaps a backup was restored)"
    if found.total < mark.total:
        return "events that were acknowledged are missing at its end (a backup was restored, or its write-ahead log was lost)"
    return ""


class Mark:
    """An open mark. Its methods are called on one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Opens and locks the mark of the log file ``path``; creates it if there is none.

        The mark is locked in addition to the log's lock file, because lock files get removed by hand.

        Raises:
            OSError: the mark can't be opened, or there is no room for it.
            NotOurs: another process has the mark.
        """
        self.path = path.with_name(path.name + "-mark")
        self._turn = 0
        self._unflushed = 0
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(self._descriptor, path)
            if os.fstat(self._descriptor).st_size != 2 * _SLOT:
                os.ftruncate(self._descriptor, 0)
                os.posix_fallocate(self._descriptor, 0, 2 * _SLOT)  # else a write to the map could find the disk full: SIGBUS
            self._map = mmap.mmap(self._descriptor, 2 * _SLOT)
        except BaseException:
            os.close(self._descriptor)
            raise

    def read(self) -> HighWaterMark | None:
        """Returns the newer of the valid slots; None if there is none."""
        found = sorted(filter(None, map(self._slot, (0, _SLOT))))
        if not found:
            return None
        self._turn, high_water = found[-1]
        return high_water

    def begin(self, high_water: HighWaterMark) -> None:
        """Overwrites both slots with ``high_water``, and flushes the mark and its directory entry to the disk.

        Raises:
            OSError: the flush failed.
        """
        for _ in range(2):
            self._write(high_water)
        os.fdatasync(self._descriptor)
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def note(self, high_water: HighWaterMark, rows: int) -> None:
        """Records that the log is acknowledged up to ``high_water``, ``rows`` rows more than before; flushes now and then."""
        self._write(high_water)
        self._unflushed += rows
        if self._unflushed >= FLUSHED:
            self.flush()

    def flush(self) -> None:
        """Flushes the mark to the disk. A failure is logged, and the flush is tried again after ``FLUSHED`` more rows."""
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            _log.warning("the mark %s could not be written to the disk: %s", self.path, error)
        self._unflushed = 0

    def close(self) -> None:
        """Flushes the mark to the disk, and closes it."""
        if not self._map.closed:
            self.flush()
            self._map.close()
            os.close(self._descriptor)

    def _write(self, high_water: HighWaterMark) -> None:
        self._turn += 1
        record = _RECORD.pack(_MAGIC, high_water.identity.encode(), high_water.total, high_water.highest, self._turn)
        at = _SLOT * (self._turn % 2)
        self._map[at : at + _RECORD.size + _CHECK.size] = record + _CHECK.pack(crc32(record))

    def _slot(self, at: int) -> tuple[int, HighWaterMark] | None:
        record = self._map[at : at + _RECORD.size]
        (sure,) = _CHECK.unpack_from(self._map, at + _RECORD.size)
        magic, identity, total, highest, turn = _RECORD.unpack(record)
        if magic != _MAGIC or crc32(record) != sure:
            return None
        return turn, HighWaterMark(identity.decode("ascii", "replace"), total, highest)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        why = f"{path} is in use by another process, though its lock file was removed. Stop that one, or name another file."
        raise NotOurs(why) from error
