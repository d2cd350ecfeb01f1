"""The context of a trace, as W3C's Trace Context has it: it is only carried along, from a caller to the event of its change.

Anybody may send anything, and it gets into the log: what is not in the form is ignored, as that specification asks for.
"""

from __future__ import annotations

import re
from typing import NamedTuple

PARENT_KEY, STATE_KEY = "traceparent", "tracestate"
"""Metadata of calls, and properties of messages."""
MOST_STATE = 512
"""Characters of a ``tracestate``."""
_MOST_MEMBERS = 32
_LENGTH = 55
_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_MEMBER = re.compile(r"[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")


class TraceContext(NamedTuple):
    """Where in which trace something was asked for."""

    parent: str = ""
    """``traceparent``, 55 characters; empty: it is of no trace."""
    state: str = ""
    """``tracestate``, what tracing systems say of it besides; empty: nothing, or it is of no trace."""


NO_TRACE = TraceContext()


def valid_parent(text: str) -> str:
    """A ``traceparent`` in its form; "": it is none."""
    return text if len(text) == _LENGTH and _PARENT.fullmatch(text) else ""


def valid_state(text: str) -> str:
    """A ``tracestate`` in its form, without blanks between its members; "": it is none, or too long."""
    if len(text) > MOST_STATE:
        return ""
    members = [member for each in text.split(",") if (member := each.strip(" \t"))]
    return ",".join(members) if len(members) <= _MOST_MEMBERS and all(map(_MEMBER.fullmatch, members)) else ""


def trace_context(parent: str, state: str = "") -> TraceContext:
    """The context of two texts, which may be anything."""
    known = valid_parent(parent)
    return TraceContext(known, valid_state(state) if state else "") if known else NO_TRACE


class Trail:
    """When a change that is followed came to its stages, by the clock of whoever notes them; 0: it has not."""

    __slots__ = ("acknowledged", "came", "counts", "of", "sent")

    def __init__(self, came: float, of: object) -> None:
        """``came``: when it was read; ``of``: the span of its call."""
        self.came = came
        self.of = of
        self.sent = 0.0
        """Its event was handed to the log for the first time."""
        self.acknowledged = 0.0
        """The log had acknowledged that."""
        self.counts = 0.0
        """It counted."""
