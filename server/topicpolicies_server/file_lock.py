"""A lock on a file, by means of a second file beside it: one process holds it, and the system releases it when the process ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from .sqlite_file import FileError, Problem


class FileLock:
    """The lock (``flock``) on the file ``path`` + ``.lock``; if ``path`` is a symbolic link, beside the file to which it leads.

    So a file has one lock, whatever links lead to it. The lock file is never removed. It holds the process id of the last holder, if the
    disk had room for it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock_path = Path(f"{os.path.realpath(path)}.lock")
        self._descriptor = -1

    def acquire(self) -> None:
        """Takes the lock, or fails at once; does nothing if this object holds it already.

        Raises:
            FileError: another process holds the lock (``IN_USE``), or the lock file can't be created or locked (``UNUSABLE``).
        """
        if self._descriptor >= 0:
            return
        try:
            descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise FileError(Problem.UNUSABLE, f"{self._lock_path} can't be opened: {error.strerror}.") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            os.close(descriptor)
            if not isinstance(error, BlockingIOError):
                raise FileError(Problem.UNUSABLE, f"{self._lock_path} can't be locked: {error.strerror}.") from error
            by = f"process {holder}" if holder.isdigit() else "another process"
            raise FileError(
                Problem.IN_USE,
                f"{self._path} is in use by {by}. The file belongs to one sidecar at a time: stop the other one, or name another file.",
            ) from error
        self._descriptor = descriptor
        with suppress(OSError):  # on a full disk the process id is missing, but the lock is held all the same
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Releases the lock, if it is held."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
