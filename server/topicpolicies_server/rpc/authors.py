"""Finds out who makes the changes of a call, why, and in which trace: from the verified caller and the call's metadata."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..core.traces import NO_TRACE, PARENT_KEY, STATE_KEY, TraceContext, trace_context
from .call import Call
from .errors import Context
from .requests import ACTOR_KEY, REASON_KEY, Author

_KEYS = frozenset({ACTOR_KEY, REASON_KEY, PARENT_KEY, STATE_KEY})
_NOBODY = Author()
_AUTHOR: Callable[[tuple[str, str, str, str, str, TraceContext]], Author] = partial(tuple.__new__, Author)
"""Makes an ``Author`` of all its fields without calling a Python function, which costs less."""


def author_of(context: Context) -> Author:
    """Returns the author of a call: its verified caller, and the actor, the reason and the trace that its metadata names."""
    told: dict[str, str | bytes] = {}
    for key, value in context.metadata:
        if key in _KEYS:
            told[key] = value  # noqa: PERF403 (a comprehension is one more function for each call)
    caller = context.caller
    trace = context.trace
    if trace is None:
        trace = context_of(context) if PARENT_KEY in told else NO_TRACE
    if not told:
        if caller.principal or trace is not NO_TRACE:
            return _AUTHOR(("", "", caller.principal, caller.speaks_for or caller.principal, "", trace))
        return _NOBODY
    return Author(_text(told.get(ACTOR_KEY, "")), _text(told.get(REASON_KEY, "")), caller.principal, caller.role, trace=trace)


def context_of(context: Context | Call) -> TraceContext:
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
