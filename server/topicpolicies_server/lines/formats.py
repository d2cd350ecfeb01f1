"""The formats of a log line: JSON, logfmt, or text for people.

A line of JSON or logfmt has ``ts`` (UTC, milliseconds), ``level``, ``logger`` and ``msg``, then the fields of this record: those in
``extra={"fields": {...}}``, and ``error``, a traceback, and ``stack``, each in one line. Text beyond ASCII is escaped, so that no character
ends a line. A line of text for people has unprintable characters escaped, because messages quote what others have written: it is one line,
and a terminal obeys nothing of it. The lines of a traceback are indented, so that none of them looks like one of the log.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ..config import LogFormat
from ..escaping import printable

_TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
"""The format of a line for people."""
_PLAIN = re.compile(r"[!#-<>-~]+")
"""Values that logfmt need not quote: without blanks, quotes, equals signs and characters beyond ASCII."""
_encode = json.JSONEncoder(separators=(",", ":"), default=str).encode

Line: TypeAlias = Callable[[Mapping[str, object]], str]
"""Formats fields as a line, without the line end."""


def line_maker(form: LogFormat) -> Line:
    """Returns the function that formats fields in ``form``; for ``TEXT``, which has no fields, that of logfmt."""
    return _encode if form is LogFormat.JSON else _logfmt


def moment(seconds: float) -> str:
    """Formats seconds since 1970 as ISO 8601, in UTC, with milliseconds."""
    whole, milliseconds = divmod(int(seconds * 1000), 1000)
    return f"{_second(whole)}.{milliseconds:03}Z"


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


class Structured(logging.Formatter):
    """Formats log records as lines of fields."""

    def __init__(self, line: Line) -> None:
        """``line``: formats the fields (``line_maker``)."""
        super().__init__()
        self._line = line

    def format(self, record: logging.LogRecord) -> str:
        """Formats a record as a line, without the line end."""
        fields: dict[str, object] = {
            "ts": moment(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        more = getattr(record, "fields", None)
        if isinstance(more, Mapping):
            fields |= {str(name): value for name, value in more.items() if name not in fields}
        if record.exc_info and record.exc_info[0] is not None:
            fields["error"] = self.formatException(record.exc_info)
        elif record.exc_text:
            fields["error"] = record.exc_text
        if record.stack_info:
            fields["stack"] = self.formatStack(record.stack_info)
        return self._line(fields)


def _logfmt(fields: Mapping[str, object]) -> str:
    return " ".join(f"{name}={logfmt_value(_text(value))}" for name, value in fields.items())


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def logfmt_value(text: str) -> str:
    """Encodes a text as the value of a logfmt field: quoted if need be."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


_known = (-1, "")


def _second(whole: int) -> str:
    """Formats a whole second. The last result is cached, because most lines are written in the same second as the line before."""
    global _known  # noqa: PLW0603 (one value, replaced at once)
    known = _known
    if known[0] != whole:
        known = _known = whole, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
    return known[1]
