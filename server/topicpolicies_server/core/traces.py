"""Trace contexts in the form of W3C's Trace Context. The core only carries them, from the call to the event of the change.

A caller may send any text, and a context gets into the log: values without the specified form are ignored, as the specification demands.
"""

from __future__ import annotations

import re
from typing import NamedTuple

PARENT_KEY, STATE_KEY = "traceparent", "tracestate"
"""The names of the two values, in the metadata of calls and in the properties of messages."""
MOST_STATE = 512
"""Most characters of a ``tracestate``."""
_MOST_MEMBERS = 32
_LENGTH = 55
_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_MEMBER = re.compile(r"[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")


class TraceContext(NamedTuple):
    """The trace of a call, and the place of the call in it."""

    parent: str = ""
    """``traceparent``, 55 characters; empty: no trace."""
    state: str = ""
    """``tracestate``, what tracing systems add; empty: nothing, or no trace."""


NO_TRACE = TraceContext()


def trace_context(parent: str, state: str = "") -> TraceContext:
    """Returns the context of two texts as they were received; ``NO_TRACE`` if ``parent`` is not valid."""
    if len(parent) != _LENGTH or _PARENT.fullmatch(parent) is None:
        return NO_TRACE
    members = [member for each in state.split(",") if (member := each.strip(" \t"))] if len(state) <= MOST_STATE else []
    valid = len(members) <= _MOST_MEMBERS and all(map(_MEMBER.fullmatch, members))
    return TraceContext(parent, ",".join(members) if valid else "")
