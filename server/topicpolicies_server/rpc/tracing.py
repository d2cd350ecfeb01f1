"""Traces calls, and sends their spans, and the metrics, to a collector (OTLP).

The caller's trace context (W3C, in the metadata) decides whether a call is traced:

============================  ==================================================================
the caller's context          the call
============================  ==================================================================
sampled                       has a span, a child of the caller's
not sampled                   has no span; the caller's context is passed on unchanged
none                          with the configured probability begins a trace, with a span
============================  ==================================================================
"""

from __future__ import annotations

import os
import random
import socket
import uuid
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter
from typing import TYPE_CHECKING

from ..access import Caller
from ..config import TelemetryConfig
from ..core.chains.request import Outcome, Request, Result
from ..core.errors import PolicyError
from ..core.traces import NO_TRACE, PARENT_KEY
from ..ops.metrics import ServerCollector
from ..telemetry.spans import CHANGE, CallSpan, Ended
from .calls import Call, Calls
from .requests import context_of

if TYPE_CHECKING:
    from ..telemetry.sender import Sender

_SAMPLED = 1


class Tracing:
    """Traces calls (``Calls.began``), and observes their ends (``calls.Observer``, ``calls.ChangeObserver``)."""

    def __init__(self, send: Callable[[Ended], None], ratio: float, chance: Callable[[], float] = random.random) -> None:
        """Hands spans to ``send``.

        Args:
            send: takes a call or change that has ended; it must not block.
            ratio: the fraction of calls without a context that begin a trace: 0 to 1.
            chance: returns a random number from 0 to below 1.
        """
        self._send = send
        self._ratio = ratio
        self._chance = chance

    def began(self, call: Call) -> None:
        """Sets the trace of a call that has arrived, and its span if it is traced."""
        trace = NO_TRACE
        for key, _ in call.metadata:
            if key == PARENT_KEY:
                trace = context_of(call)
                break
        parent = trace.parent
        if int(parent[-2:], 16) & _SAMPLED if parent else self._chance() < self._ratio:
            span = call.span = CallSpan(parent[3:35], parent[36:52], trace.state)
            trace = span.context
        call.trace = trace if trace.parent else NO_TRACE

    def ended(self, call: Call) -> None:
        """Hands a traced call that has ended to the sender."""
        span = call.span
        if span is None:
            return
        error, request = call.error, call.request
        code, reason = (error.kind.value, error.reason) if error is not None else ("", "")
        if request is None:
            self._send(Ended(span, call.method, call.started, perf_counter(), code, reason, call.given_up, call.target))
            return
        outcome = call.outcome.name if call.outcome is not None else ""
        said = outcome, request.request_id, request.began, request.stage_times
        self._send(Ended(span, call.method, call.started, perf_counter(), code, reason, call.given_up, request.key.topic, *said))

    def changed(self, _method: str, _caller: Caller, request: Request | None, answer: Result | PolicyError | None, _seconds: float) -> None:
        """Hands a change of a traced batch to the sender, if it was selected for that (see ``calls.ChangeObserver.changed``)."""
        if request is None or (times := request.stage_times) is None or not isinstance(times.span, CallSpan):
            return
        code, reason = (answer.kind.value, answer.reason) if isinstance(answer, PolicyError) else ("", "")
        outcome = _NAMES[answer.outcome] if isinstance(answer, Result) else ""
        said = outcome, request.request_id, request.began, times
        self._send(Ended(times.span, CHANGE, times.began, perf_counter(), code, reason, answer is None, request.key.topic, *said))


_NAMES = {outcome: outcome.name for outcome in Outcome}


SERVICE_VARIABLE = "OTEL_SERVICE_NAME"
"""OpenTelemetry's environment variable for the service name under which a collector knows the server."""


def open_telemetry(config: TelemetryConfig, calls: Calls, collector: ServerCollector) -> Sender:
    """Starts a sender, and adds an observer that traces calls. The caller of this function has to close the sender.

    Args:
        config: the collector, and what is sent.
        calls: the calls that are traced.
        collector: provides the metrics.
    """
    from ..telemetry.sender import Sender  # noqa: PLC0415 - the definitions of OTLP are an extra

    sender = Sender(config.endpoint, collector.collect, _about(), metrics_seconds=config.metrics_seconds)
    tracing = Tracing(sender.ended, config.trace_ratio)
    calls.began = tracing.began
    calls.observers = (*calls.observers, tracing)
    calls.change_observers = (*calls.change_observers, tracing)
    return sender


def _about() -> dict[str, str]:
    """Returns the resource attributes that identify this process to a collector."""
    try:
        release = version("topicpolicies")
    except PackageNotFoundError:
        release = ""
    name = os.environ.get(SERVICE_VARIABLE, "") or "topicpolicies"
    return {"service.name": name, "service.version": release, "service.instance.id": str(uuid.uuid4()), "host.name": socket.gethostname()}
