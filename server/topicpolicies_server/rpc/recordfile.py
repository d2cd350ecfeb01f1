"""Where the record of calls is written: standard error, or a file that lines are appended to.

If the file is moved away or deleted, as by logrotate, a new one is created under its name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import stat
import threading
from pathlib import Path

_MODE = 0o600


class UnwrittenError(OSError):
    """Not all of the given lines could be written."""

    def __init__(self, cause: OSError, lines: int) -> None:
        """``lines``: how many lines were written whole."""
        super().__init__(cause.errno, cause.strerror or str(cause))
        self.lines = lines


class Sink:
    """Writes lines to the descriptor of a file or a pipe. It does not close the descriptor."""

    def __init__(self, descriptor: int, *, torn: bool = False) -> None:
        """``torn``: whether the file's present content ends in the middle of a line."""
        self.descriptor = descriptor
        self._torn = torn
        self._lock = threading.Lock()

    def put(self, raw: bytes) -> None:
        """Writes lines, which include their line ends; blocks until they are written.

        If only a part of a line could be written, a line end is written before the next line.

        Raises:
            UnwrittenError: not all of the lines could be written.
        """
        with self._lock:
            torn = self._torn
            whole = b"\n" + raw if torn else raw
            left = memoryview(whole)
            try:
                while left:
                    left = left[_write(self.descriptor, left) :]
            except OSError as error:
                written = whole[: len(whole) - len(left)]
                raise UnwrittenError(error, max(0, written.count(b"\n") - torn)) from error
            finally:
                if done := len(whole) - len(left):
                    self._torn = whole[done - 1 : done] != b"\n"

    def write(self, raw: bytes) -> None:
        """Writes lines like ``put``. Lines that can't be written are lost: there is no other place to report that."""
        with contextlib.suppress(OSError):
            self.put(raw)


def _write(descriptor: int, raw: memoryview) -> int:
    """Writes a part, and returns its length. Waits if the descriptor is non-blocking, which another process that shares it may have set."""
    try:
        return os.write(descriptor, raw)
    except BlockingIOError:
        room = select.poll()
        room.register(descriptor, select.POLLOUT)
        room.poll()
        return 0


STANDARD_ERROR = Sink(2)


class RecordFile:
    """An open file of lines. Only one thread at a time may write to it."""

    def __init__(self, path: Path) -> None:
        """Opens the file, or creates it with the mode 0600.

        Raises:
            OSError: the file can't be opened.
        """
        self._path = path
        self._sink = self._open()

    def write(self, raw: bytes) -> None:
        """Appends lines, which include their line ends.

        Raises:
            OSError: the lines can't be written, or not all of them (``UnwrittenError``).
        """
        if not self._stands_there():
            sink = self._open()
            self.close()
            self._sink = sink
        self._sink.put(raw)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._sink.descriptor)

    def _open(self) -> Sink:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK  # to open a pipe would wait for its reader
        try:
            descriptor = os.open(self._path, flags, _MODE)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            raise OSError(error.errno, "no process reads this pipe", str(self._path)) from None
        os.set_blocking(descriptor, True)
        return Sink(descriptor, torn=self._is_torn(descriptor))

    def _is_torn(self, descriptor: int) -> bool:
        """Returns whether the file ends in the middle of a line, as a process that was killed may have left it."""
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size == 0:
            return False
        try:
            with self._path.open("rb") as file:
                file.seek(-1, os.SEEK_END)
                return file.read(1) != b"\n"
        except OSError:
            return False  # this process may be allowed to write the file, but not to read it

    def _stands_there(self) -> bool:
        try:
            there = self._path.stat()
        except OSError:
            return False
        mine = os.fstat(self._sink.descriptor)
        return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)
