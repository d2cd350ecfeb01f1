"""Bearer tokens that stand in files, which somebody else writes anew before they expire."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from .errors import InvalidArgument, Violation, invalid

LOOK_SECONDS = 1.0
"""Between two looks at a file: calls are made more often than tokens change."""


class TokenFile:
    """The token in a file, as a client's ``token``. It is read anew when the file changes; while it can't be, the token before stays.

    ``Client("policies.example:6680", token=TokenFile("/run/secrets/token"))``. Several clients, and threads, can share one.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Reads it.

        Raises:
            OSError: it can't be read.
            InvalidArgument: there is no token in it.
        """
        self._path = Path(path)
        self._lock = threading.Lock()
        self._stamp = self._look()
        self._token = self._read()
        self._looked = time.monotonic()

    def __call__(self) -> str:
        """The present token."""
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
            return  # it is looked at again: who writes it may be in the middle of it
        self._stamp = stamp

    def _look(self) -> tuple[int, int, int, int] | None:
        """Which file it is, when it was written, or anything about it changed, and how long it is; None if that can't be told."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size

    def _read(self) -> str:
        token = self._path.read_bytes().decode("ascii", errors="replace").strip()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise invalid("MALFORMED_TOKEN", Violation("token", "MALFORMED_TOKEN", f'The file "{self._path}" has no bearer token in it.'))
        return token
