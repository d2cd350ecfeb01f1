"""Finds out who makes the changes of a call, and in which trace: from the verified caller and the call's metadata."""

from __future__ import annotations

from ..core.traces import NO_TRACE, PARENT_KEY, STATE_KEY, TraceContext, trace_context
from .calls import Call
from .requests import Author

_NOBODY = Author()


def author_of(context: Call) -> Author:
    """Returns the author of a call: its verified caller, and the trace that its metadata names."""
    caller, trace = context.caller, context.trace
    if trace is None:
        trace = NO_TRACE
        for key, _ in context.metadata:
            if key == PARENT_KEY:
                trace = context_of(context)
                break
    if caller.principal or trace is not NO_TRACE:
        return Author(caller.principal, caller.speaks_for or caller.principal, trace)
    return _NOBODY


def context_of(context: Call) -> TraceContext:
    """Returns the trace context of a call's metadata (W3C Trace Context).

    More than one ``traceparent`` counts as none; several ``tracestate`` are joined to one list.
    """
    parents, states = [], []
    for key, value in context.metadata:
        if key == PARENT_KEY:
            parents.append(_text(value))
        elif key == STATE_KEY:
            states.append(_text(value))
    return trace_context(parents[0], ",".join(states)) if len(parents) == 1 else NO_TRACE


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="replace")
