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
import queue
import sys
import threading
import time
from logging.handlers import QueueHandler, QueueListener
from typing import Any

from ..config import LogFormat
from ..escaping import printable

_LOG = logging.getLogger(__name__)
MOST = 10_000
_FLUSH_SECONDS = 2.0
_TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
in_json = json.JSONEncoder(separators=(",", ":"), default=str).encode


def set_up_logging(level: str, form: LogFormat) -> None:
    """Sets up the log on standard error, for the whole process.

    In JSON, Python's warnings and exceptions that end threads or the process become lines of the log, too.
    """
    logging.getLogger("httpx").setLevel(logging.WARNING)  # at INFO it logs every request to Pulsar's admin API
    handler = Queued(Writer(2))
    handler.setFormatter(Plain() if form == "text" else Json())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if form != "text":
        logging.captureWarnings(True)
        sys.excepthook = lambda *error: _LOG.critical("the process ends: %s", error[0].__name__, exc_info=error)
        threading.excepthook = _uncaught_in_thread


def _uncaught_in_thread(what: threading.ExceptHookArgs) -> None:
    if what.exc_value is not None:
        name = what.thread.name if what.thread is not None else "a thread"
        _LOG.error("%s ends: %s", name, what.exc_type.__name__, exc_info=(what.exc_type, what.exc_value, what.exc_traceback))


class Queued(QueueHandler):
    """Formats log records, and has a thread hand the lines to another handler."""

    def __init__(self, handler: logging.Handler, most: int = MOST) -> None:
        """Starts the thread, which has ``handler`` write the lines; ``most`` may wait."""
        self._waiting = queue.Queue[logging.LogRecord](most)
        super().__init__(self._waiting)
        self.lost = 0
        self._missing = 0
        """How many of them since the last one that was queued."""
        self._listener = QueueListener(self._waiting, handler)
        self._listener.start()

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queues a formatted record; drops it if as many lines wait as may."""
        try:
            if self._missing:
                words = "%d lines are missing here: they were logged faster than they could be written"
                missing = logging.LogRecord(__name__, logging.ERROR, __file__, 0, words, (self._missing,), None)
                self._waiting.put_nowait(self.prepare(missing))
                self._missing = 0
            self._waiting.put_nowait(record)
        except queue.Full:
            self.lost += 1
            self._missing += 1

    def flush(self) -> bool:  # type: ignore[override]
        """Waits until all queued lines are written, ``_FLUSH_SECONDS`` at the most. Returns whether they are."""
        waiting = self._waiting
        with waiting.all_tasks_done:
            return waiting.all_tasks_done.wait_for(lambda: not waiting.unfinished_tasks, _FLUSH_SECONDS)

    def stop(self) -> bool:
        """Ends the thread, if the lines can be written, for which it waits as ``flush``. Returns whether they are written."""
        written = self.flush()
        if written:
            self._listener.stop()
        return written


class Writer(logging.Handler):
    """Writes records to a descriptor, on one thread, without locks: a write that blocks must not delay the end of the process."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def createLock(self) -> None:  # noqa: N802 (the library's name)
        """Makes no lock: the end of a process would wait for it."""
        self.lock = None

    def handle(self, record: logging.LogRecord) -> bool:
        """Writes a record. The library's own method needs a lock since Python 3.13."""
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a record. A line that can't be written is lost: there is no other place to report that."""
        left = f"{self.format(record)}\n".encode(errors="backslashreplace")
        with contextlib.suppress(OSError):
            while left:
                left = left[os.write(self._descriptor, left) :]


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

    def format(self, record: logging.LogRecord) -> str:
        """Formats a record as a line, without the line end."""
        fields: dict[str, object] = {
            "ts": moment(record.created),
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


def moment(seconds: float) -> str:
    """Formats seconds since 1970 as ISO 8601, in UTC, with milliseconds."""
    whole, milliseconds = divmod(int(seconds * 1000), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{milliseconds:03}Z"
