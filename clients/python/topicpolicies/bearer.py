"""Bearer tokens in files that another program rewrites before the tokens expire."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from .errors import InvalidArgument, Violation, invalid

LOOK_SECONDS = 1.0
"""Seconds between two checks whether a file has changed: calls are made more often than tokens change."""
MOST_BYTES = 1 << 16
"""How large a file of a token may be. Servers take much less."""


class TokenFile:
    """A bearer token in a file, for a client's ``token``. A changed file is read again; while it can't be read, the last token is used.

    ``Client("policies.example:6680", token=TokenFile("/run/secrets/token"))``. Several clients and threads can share one.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Reads the file.

        Raises:
            OSError: the file can't be read.
            InvalidArgument: there is no token in the file.
        """
        self._path = Path(path)
        self._lock = threading.Lock()
        self._stamp = self._look()
        self._token = self._read()
        self._looked = time.monotonic()

    def __call__(self) -> str:
        """Returns the current token."""
        now = time.monotonic()
        if now >= self._looked + LOOK_SECONDS and self._lock.acquire(blocking=False):
            try:
                self._looked = now
                self._renew()
            finally:
                self._lock.release()
        return self._token

    def _renew(self) -> None:
        stamp = self._look()
        if stamp is None or stamp == self._stamp:
            return
        try:
            self._token = self._read()
        except (OSError, InvalidArgument):
            return  # the next check tries again: the file may be half written
        self._stamp = stamp

    def _look(self) -> tuple[int, int, int, int] | None:
        """Returns the file's inode, its times of modification and of status change in ns, and its size; None: it can't be examined."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size

    def _read(self) -> str:
        with self._path.open("rb") as file:
            read = file.read(MOST_BYTES + 1)
        token = read.decode("ascii", errors="replace").strip() if len(read) <= MOST_BYTES else ""
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise invalid("MALFORMED_TOKEN", Violation("token", "MALFORMED_TOKEN", f'The file "{self._path}" has no bearer token in it.'))
        return token
