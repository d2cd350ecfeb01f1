"""A file that lines are appended to. If it is moved away or deleted, as by logrotate, a new file is created under its name."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from ..lines import Sink

_MODE = 0o600


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
            OSError: the lines can't be written, or not all of them (``lines.UnwrittenError``).
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
