"""Who asks for the changes of a call, why, and in which trace: what its metadata says, beside what was verified."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..core.traces import NO_TRACE, PARENT_KEY, STATE_KEY, TraceContext, trace_context
from .call import Call
from .errors import Context
from .requests import ACTOR_KEY, REASON_KEY, Asker

_KEYS = frozenset({ACTOR_KEY, REASON_KEY, PARENT_KEY, STATE_KEY})
_NOBODY = Asker()
_ASKER: Callable[[tuple[str, str, str, str, str, TraceContext]], Asker] = partial(tuple.__new__, Asker)
"""Makes one of all its parts, without a function in Python."""


def asker_of(context: Context) -> Asker:
    """Who asks: who was verified, and what the call's metadata says."""
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
            return _ASKER(("", "", caller.principal, caller.speaks_for or caller.principal, "", trace))
        return _NOBODY
    return Asker(_text(told.get(ACTOR_KEY, "")), _text(told.get(REASON_KEY, "")), caller.principal, caller.role, trace=trace)


def context_of(context: Context | Call) -> TraceContext:
    """In which trace a call is made, as its caller says. More than one ``traceparent`` is none; more of ``tracestate`` is one list."""
    parents, states = [], []
    for key, value in context.metadata:
        if key == PARENT_KEY:
            parents.append(_text(value))
        elif key == STATE_KEY:
            states.append(_text(value))
    return trace_context(parents[0], ",".join(states)) if len(parents) == 1 else NO_TRACE


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="replace")
