"""The log of a process that runs a server or a guard: lines on standard error, as text for people, or as JSON for programs.

A line of JSON has ``ts`` (UTC, milliseconds), ``level``, ``logger`` and ``msg``, then the fields of this record: those in
``extra={"fields": {...}}``, and ``error``, a traceback, and ``stack``, each in one line. Text beyond ASCII is escaped, so that no character
ends a line. A line of text for people has unprintable characters escaped, because messages quote what others have written: it is one line,
and a terminal obeys nothing of it. The lines of a traceback are indented, so that none of them looks like one of the log.

The program that reads a process's standard error may pause, and then a write blocks until it reads again. So a thread writes the lines, and
neither the event loop nor any other caller waits. At most ``MOST`` lines wait; further ones are lost, and a line says how many.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from ..config import LogFormat
from ..escaping import printable

_LOG = logging.getLogger(__name__)
MOST = 10_000
_FLUSH_SECONDS, _LOOK_SECONDS = 2.0, 0.005
_TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
in_json = json.JSONEncoder(separators=(",", ":"), default=str).encode


def set_up_logging(level: str, form: LogFormat) -> None:
    """Sets up the log on standard error, for the whole process.

    In JSON, Python's warnings and exceptions that end threads or the process become lines of the log, too.
    """
    logging.getLogger("httpx").setLevel(logging.WARNING)  # at INFO it logs every request to Pulsar's admin API
    handler = Lines(to_standard_error)
    handler.setFormatter(Plain() if form == "text" else Json())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if form != "text":
        logging.captureWarnings(True)
        sys.excepthook = lambda *error: _LOG.critical("the process ends: %s", error[0].__name__, exc_info=error)
        threading.excepthook = lambda what: _LOG.error(
            "%s ends: %s", getattr(what.thread, "name", "a thread"), what.exc_type.__name__, exc_info=what.exc_value
        )


class Lines(logging.Handler):
    """Formats log records, and has a thread write the lines, as many at once as wait.

    A thread that is woken for each line, or writes each by itself, would take as much processor time as the call that the line is about.
    """

    def __init__(self, write: Callable[[bytes], None], most: int = MOST, pause_seconds: float = 0.0) -> None:
        """Starts the thread.

        ``write`` writes lines, and raises nothing; ``most``: how many may wait; ``pause_seconds``: for how long the thread collects lines.
        """
        super().__init__()
        self.lost = 0
        self._write = write
        self._most = most
        self._pause = pause_seconds
        self._waiting = deque[str]()
        self._missing = 0
        """How many were lost since the last one that was queued."""
        self._queued = self._written = 0
        self._wake = threading.Event()
        self._ends = False
        threading.Thread(target=self._run, name="log lines", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queues the line of a record; drops it if as many lines wait as may."""
        if len(self._waiting) >= self._most:
            self.lost += 1
            self._missing += 1
            return
        try:
            line = self.format(record)
            if self._missing:
                words = f"{self._missing} lines are missing here: they were logged faster than they could be written"
                gap = logging.LogRecord(__name__, logging.ERROR, __file__, 0, words, None, None)
                line = f"{self.format(gap)}\n{line}"
                self._missing = 0
        except Exception:  # noqa: BLE001 (what is logged can't be formatted)
            self.handleError(record)
            return
        self._queued += 1
        self._waiting.append(line)
        if not self._wake.is_set():
            self._wake.set()

    def flush(self) -> bool:  # type: ignore[override]
        """Waits until all queued lines are written, ``_FLUSH_SECONDS`` at the most. Returns whether they are."""
        over, queued = time.monotonic() + _FLUSH_SECONDS, self._queued
        while self._written < queued and time.monotonic() < over:
            time.sleep(_LOOK_SECONDS)
        return self._written >= queued

    def stop(self) -> bool:
        """Ends the thread once the lines are written, for which it waits as ``flush``. Returns whether they are written."""
        self._ends = True
        self._wake.set()
        return self.flush()

    def _run(self) -> None:
        while not self._ends or self._waiting:
            self._wake.wait()
            time.sleep(self._pause)
            self._wake.clear()
            while lines := [self._waiting.popleft() for _ in range(len(self._waiting))]:
                self._write("".join(f"{line}\n" for line in lines).encode(errors="backslashreplace"))
                self._written += len(lines)


def write_all(descriptor: int, lines: bytes) -> None:
    """Writes lines to a descriptor; raises OSError."""
    left = memoryview(lines)
    while left:
        left = left[os.write(descriptor, left) :]


def to_standard_error(lines: bytes) -> None:
    """Writes lines to standard error. Those that can't be written are lost: there is no other place to report that."""
    with contextlib.suppress(OSError):
        write_all(2, lines)


class Plain(logging.Formatter):
    """Formats log records as lines for people."""

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the library's name)
        """Formats a record, without its traceback, as one line."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """Formats a traceback as indented lines."""
        return "\n".join(f"  {printable(line)}" for line in super().formatException(ei).split("\n"))


class Json(logging.Formatter):
    """Formats log records as lines of JSON."""

    converter = time.gmtime  # type: ignore[assignment]
    default_time_format, default_msec_format = "%Y-%m-%dT%H:%M:%S", "%s.%03dZ"

    def format(self, record: logging.LogRecord) -> str:
        """Formats a record as a line, without the line end."""
        fields: dict[str, object] = {
            "ts": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        fields |= {name: value for name, value in getattr(record, "fields", {}).items() if name not in fields}
        if record.exc_info and record.exc_info[0] is not None:
            fields["error"] = self.formatException(record.exc_info)
        if record.stack_info:
            fields["stack"] = self.formatStack(record.stack_info)
        return in_json(fields)
