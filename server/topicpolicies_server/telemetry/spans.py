"""Spans: of calls, of changes on a stream, and of the stages of a change.

=====================  ======================================  ==================================================
span                   its parent                              from, to
=====================  ======================================  ==================================================
a call                 the caller's span, if it names one      it comes, it has ended
``change``             the call of its stream                  it is read, it has its outcome
``waiting``            the call                                it comes, its change is handed to the namespace
``sequencing``         the call, or ``change``                 that, its event is handed to the log
``log``                the call, or ``change``                 that, the log has acknowledged it
``readback``           the call, or ``change``                 that, it counts
=====================  ======================================  ==================================================

The last four are made of times that the stages note anyway (``namespaces/stages``), once the call has ended, and not by the event loop. A
stage that has not ended has no span.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from ..core.traces import TraceContext, Trail

CHANGE_SECONDS = 0.1
"""Of a stream no more than a change in so much time is followed: there may be tens of thousands in a second."""
INTERNAL, SERVER = 1, 2
"""Kinds, by the numbers of OTLP."""


class CallSpan:
    """The span of a call that is traced, while it goes on."""

    __slots__ = ("_next", "parent_id", "span_id", "state", "trace_id")

    def __init__(self, trace_id: str, parent_id: str, state: str) -> None:
        """``trace_id``, ``parent_id``: hexadecimal; "": a trace begins here."""
        self.trace_id = trace_id or f"{_some(128):032x}"
        self.span_id = new_id()
        self.parent_id = parent_id
        self.state = state
        self._next = 0.0

    @property
    def context(self) -> TraceContext:
        """What goes on from it."""
        return TraceContext(f"00-{self.trace_id}-{self.span_id}-01", self.state)

    def follows(self, now: float) -> Trail | None:
        """The trail of a change of its stream that is read now; None: it is not followed."""
        if now < self._next:
            return None
        self._next = now + CHANGE_SECONDS
        return Trail(now, self)


class Ended(NamedTuple):
    """A call, or a change of a stream, that has ended; times by ``time.perf_counter``."""

    span: CallSpan
    name: str
    """The method; ``change``: one of a stream."""
    began: float
    ended: float
    code: str = ""
    """Of an error: gRPC's."""
    reason: str = ""
    """Of an error: ours."""
    given_up: bool = False
    topic: str = ""
    """What is changed or read, as its caller names it; a namespace too."""
    outcome: str = ""
    request_id: str = ""
    handed_on: float = 0.0
    """When its change was handed to its namespace; 0: it was not, or it makes none."""
    trail: Trail | None = None


class Span(NamedTuple):
    """A span, as it is sent; times by ``time.perf_counter``."""

    trace_id: str
    span_id: str
    parent_id: str
    state: str
    name: str
    kind: int
    began: float
    ended: float
    of: Ended | None = None
    """What it tells besides; None: it is a stage."""


def spans_of(ended: Ended) -> Iterator[Span]:
    """The spans of what has ended."""
    call, trail = ended.span, ended.trail
    own = call.span_id
    if ended.name == CHANGE:
        own = new_id()
        yield Span(call.trace_id, own, call.span_id, call.state, CHANGE, INTERNAL, ended.began, ended.ended, ended)
    else:
        yield Span(call.trace_id, own, call.parent_id, call.state, ended.name, SERVER, ended.began, ended.ended, ended)
        if ended.handed_on:
            yield _stage(call, own, "waiting", ended.began, ended.handed_on)
    if trail is None or not trail.sent:
        return
    if ended.handed_on:
        yield _stage(call, own, "sequencing", ended.handed_on, trail.sent)
    if acknowledged := trail.acknowledged or trail.counts:
        yield _stage(call, own, "log", trail.sent, acknowledged)
        if trail.counts:
            yield _stage(call, own, "readback", acknowledged, trail.counts)


CHANGE = "change"


def _stage(call: CallSpan, parent: str, name: str, began: float, ended: float) -> Span:
    return Span(call.trace_id, new_id(), parent, call.state, name, INTERNAL, began, ended)


def new_id() -> str:
    """The id of a span."""
    return f"{_some(64):016x}"


def _some(bits: int) -> int:
    return random.getrandbits(bits) or 1
