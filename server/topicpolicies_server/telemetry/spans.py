"""Spans: of calls, of changes of a batch, and of the stages of a change.

=====================  ======================================  ==================================================
span                   parent                                  from, to
=====================  ======================================  ==================================================
a call                 the caller's span, if it names one      the call comes, it has ended
``change``             the call of its batch                   the change is read, it has its outcome
``waiting``            the call                                the call comes, the namespace gets its change
``sequencing``         the call, or ``change``                 the namespace gets the change, the log its event
``log``                the call, or ``change``                 the log gets the event, the log acknowledges it
``readback``           the call, or ``change``                 the log acknowledges the event, the event counts
=====================  ======================================  ==================================================

The last four are made of times that the stages note anyway (``namespaces/activity``): once the call has ended, and not on the event loop. A
stage that has not ended has no span.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from ..core.traces import StageTimes, TraceContext

CHANGE_SECONDS = 0.1
"""At most one change in so much time gets spans, in each batch: there may be tens of thousands in a second."""
INTERNAL, SERVER = 1, 2
"""Kinds of spans, by the numbers of OTLP."""


class CallSpan:
    """The span of a traced call, while the call is in progress."""

    __slots__ = ("_next", "parent_id", "span_id", "state", "trace_id")

    def __init__(self, trace_id: str, parent_id: str, state: str) -> None:
        """Begins the span. ``trace_id``, ``parent_id``: hexadecimal; "": a trace begins here."""
        self.trace_id = trace_id or f"{_some(128):032x}"
        self.span_id = new_id()
        self.parent_id = parent_id
        self.state = state
        self._next = 0.0

    @property
    def context(self) -> TraceContext:
        """The context for what the call causes."""
        return TraceContext(f"00-{self.trace_id}-{self.span_id}-01", self.state)

    def follows(self, now: float) -> StageTimes | None:
        """Returns the times of the stages of a change of the batch that is read now; None: the change gets no spans."""
        if now < self._next:
            return None
        self._next = now + CHANGE_SECONDS
        return StageTimes(now, self)


class Ended(NamedTuple):
    """A call, or a change of a batch, that has ended; times by ``time.perf_counter``."""

    span: CallSpan
    name: str
    """The method; ``change``: a change of a batch."""
    began: float
    ended: float
    code: str = ""
    """gRPC's status code of the error; "": there was none."""
    reason: str = ""
    """The reason of the error, of ``core/reasons``; "": there was none."""
    given_up: bool = False
    topic: str = ""
    """The topic or namespace that is changed or read, as the caller names it."""
    outcome: str = ""
    request_id: str = ""
    handed_on: float = 0.0
    """When the change was handed to its namespace; 0: it was not, or the call makes no change."""
    stage_times: StageTimes | None = None


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
    """The call or change, whose outcome the span has; None: it is a stage."""


def spans_of(ended: Ended) -> Iterator[Span]:
    """Yields the spans of a call or change that has ended."""
    call, times = ended.span, ended.stage_times
    own = call.span_id
    if ended.name == CHANGE:
        own = new_id()
        yield Span(call.trace_id, own, call.span_id, call.state, CHANGE, INTERNAL, ended.began, ended.ended, ended)
    else:
        yield Span(call.trace_id, own, call.parent_id, call.state, ended.name, SERVER, ended.began, ended.ended, ended)
        if ended.handed_on:
            yield _stage(call, own, "waiting", ended.began, ended.handed_on)
    if times is None or not times.sent:
        return
    if ended.handed_on:
        yield _stage(call, own, "sequencing", ended.handed_on, times.sent)
    if acknowledged := times.acknowledged or times.folded:
        yield _stage(call, own, "log", times.sent, acknowledged)
        if times.folded:
            yield _stage(call, own, "readback", acknowledged, times.folded)


CHANGE = "change"


def _stage(call: CallSpan, parent: str, name: str, began: float, ended: float) -> Span:
    return Span(call.trace_id, new_id(), parent, call.state, name, INTERNAL, began, ended)


def new_id() -> str:
    """Returns a new span id."""
    return f"{_some(64):016x}"


def _some(bits: int) -> int:
    return random.getrandbits(bits) or 1
