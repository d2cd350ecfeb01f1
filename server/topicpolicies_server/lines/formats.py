"""How a line is written: as JSON, as logfmt, or for people.

Each line of the first two has ``ts`` (UTC, milliseconds), ``level``, ``logger`` and ``msg``, then what belongs to it alone: whatever
``extra={"fields": {...}}`` has, and ``error``, a traceback in one line. Text beyond ASCII is escaped, so that no character ends a line.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from ..config import LogFormat

TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
"""A line for people."""
_PLAIN = re.compile(r"[!#-<>-~]+")
"""What logfmt need not quote: no blank, no quote, no sign of equality, nothing beyond ASCII."""
_encode = json.JSONEncoder(separators=(",", ":"), default=str).encode

Line: TypeAlias = Callable[[Mapping[str, object]], str]
"""Writes fields as a line, without its end."""


def line_maker(form: LogFormat) -> Line:
    """How lines of fields are written; where lines are for people, as logfmt."""
    return _encode if form is LogFormat.JSON else _logfmt


def moment(seconds: float) -> str:
    """Seconds since 1970 as ISO 8601, UTC, milliseconds."""
    whole, milliseconds = divmod(int(seconds * 1000), 1000)
    return f"{_second(whole)}.{milliseconds:03}Z"


class Structured(logging.Formatter):
    """Formats records as lines of fields."""

    def __init__(self, line: Line) -> None:
        """``line``: writes them."""
        super().__init__()
        self._line = line

    def format(self, record: logging.LogRecord) -> str:
        """A line."""
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
    """A text as the value of a field of logfmt."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


_known = (-1, "")


def _second(whole: int) -> str:
    """A whole second; most lines are of the same one as the line before."""
    global _known  # noqa: PLW0603 (one value, replaced at once)
    known = _known
    if known[0] != whole:
        known = _known = whole, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
    return known[1]
