"""Sets up the log of a process that runs a server or a guard: its level, its format, and which other output becomes lines of it."""

from __future__ import annotations

import logging
import sys
import threading
from types import TracebackType

from ..config import LogFormat, LogLevel
from . import foreign
from .formats import Plain, Structured, line_maker
from .sink import STANDARD_ERROR, Handler

_LOG = logging.getLogger(__name__)


def set_up_logging(level: LogLevel, form: LogFormat) -> None:
    """Sets up the log on standard error, for the whole process.

    In the formats for programs (JSON, logfmt), these become lines of the log too: Python's warnings, exceptions that end threads or the
    process, and what libraries write to standard error by themselves.
    """
    logging.getLogger("httpx").setLevel(logging.WARNING)  # at INFO it logs every request to Pulsar's admin API
    handler = Handler(STANDARD_ERROR)
    handler.setFormatter(Plain() if form is LogFormat.TEXT else Structured(line_maker(form)))
    logging.basicConfig(level=level.name, handlers=[handler], force=True)
    if form is LogFormat.TEXT:
        return
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    foreign.route()


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _LOG.critical("the process ends: %s", kind.__name__, exc_info=(kind, error, trace))


def _uncaught_in_thread(what: threading.ExceptHookArgs) -> None:
    if what.exc_value is not None:
        name = what.thread.name if what.thread is not None else "a thread"
        _LOG.error("%s ends: %s", name, what.exc_type.__name__, exc_info=(what.exc_type, what.exc_value, what.exc_traceback))
