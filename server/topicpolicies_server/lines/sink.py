"""Where lines go: a descriptor, to which each is written whole, whichever threads write."""

from __future__ import annotations

import contextlib
import logging
import os
import threading


class Sink:
    """A descriptor of a file or a pipe."""

    def __init__(self, descriptor: int) -> None:
        """It is not closed by this."""
        self.descriptor = descriptor
        self._lock = threading.Lock()

    def write(self, raw: bytes) -> None:
        """Writes lines, with their ends. What can't be written is lost: there is nobody to tell."""
        with self._lock, contextlib.suppress(OSError):
            left = memoryview(raw)
            while left:
                left = left[os.write(self.descriptor, left) :]


STANDARD_ERROR = Sink(2)
"""The process's standard error, as it was when the process began (``foreign``)."""


class Handler(logging.Handler):
    """Writes records to a sink."""

    def __init__(self, sink: Sink) -> None:
        """``sink``: where."""
        super().__init__()
        self._sink = sink

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one."""
        try:
            self._sink.write(self.format(record).encode(errors="backslashreplace") + b"\n")
        except Exception:  # noqa: BLE001 (as every handler)
            self.handleError(record)
