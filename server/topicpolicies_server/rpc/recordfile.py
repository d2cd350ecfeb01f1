"""A file that lines are added to, and that is begun anew when somebody moves it away, as logrotate does."""

from __future__ import annotations

import os
from pathlib import Path

_MODE = 0o600


class RecordFile:
    """One thread at a time writes it."""

    def __init__(self, path: Path) -> None:
        """Opens it, and makes it if there is none.

        Raises:
            OSError: it can't be opened.
        """
        self._path = path
        self._descriptor = self._open()

    def write(self, raw: bytes) -> None:
        """Adds lines, with their ends.

        Raises:
            OSError: they can't be, or not all of them.
        """
        if not self._stands_there():
            descriptor = self._open()
            os.close(self._descriptor)
            self._descriptor = descriptor
        left = memoryview(raw)
        while left:
            left = left[os.write(self._descriptor, left) :]

    def close(self) -> None:
        """Closes it."""
        os.close(self._descriptor)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)

    def _stands_there(self) -> bool:
        try:
            there = self._path.stat()
        except OSError:
            return False
        mine = os.fstat(self._descriptor)
        return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)
