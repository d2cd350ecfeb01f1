"""Traces calls, and sends their spans to a collector (OTLP over HTTP), with OpenTelemetry's SDK. Imported only if that is wanted.

The caller's trace context (W3C, in the metadata) decides whether a call is traced: a sampled one has a span, a child of the caller's; one
that is not sampled has none, and the caller's context is passed on unchanged. A call without a context begins a trace with the configured
probability.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import uuid
from importlib.metadata import version

import grpc
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from topicpolicies.v1 import history_pb2, service_pb2

from ..config import TelemetryConfig
from ..core.traces import PARENT_KEY, STATE_KEY, TraceContext
from .calls import Call

SERVICE_VARIABLE = "OTEL_SERVICE_NAME"
_SAMPLED = 1
_CONTEXTS = TraceContextTextMapPropagator()
_SECONDS = 10.0
_CLOSE_SECONDS = 2.0
_LONGEST = 300
"""How many characters are sent of a topic's name, which is a caller's text."""
_SERVICES = {
    method.name: service.full_name
    for file in (service_pb2.DESCRIPTOR, history_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
    for method in service.methods
}


class Tracing:
    """Traces calls: ``Calls`` calls it when one begins and when it has ended."""

    def __init__(self, exporter: SpanExporter, ratio: float) -> None:
        """Begins to send spans, on a thread. ``ratio``: the fraction of calls without a context that begin a trace."""
        self._ratio = ratio
        self._exporter = exporter
        self._provider = TracerProvider(ALWAYS_ON, Resource.create(_about()), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("topicpolicies")

    def began(self, call: Call) -> None:
        """Sets the trace of a call that has arrived, and its span if it is traced."""
        trace = call.trace_context()
        parent = trace.parent
        if int(parent[-2:], 16) & _SAMPLED if parent else random.random() < self._ratio:
            caller = {PARENT_KEY: parent, STATE_KEY: trace.state} if parent else {}
            span = call.span = self._tracer.start_span(call.method, _CONTEXTS.extract(caller, Context()), SpanKind.SERVER)
            own = span.get_span_context()
            call.trace = TraceContext(f"00-{own.trace_id:032x}-{own.span_id:016x}-01", trace.state)

    def ended(self, call: Call) -> None:
        """Ends the span of a traced call."""
        span = call.span
        if span is None:
            return
        request, (code, reason) = call.request, call.status
        span.set_attributes(
            {
                "rpc.system": "grpc",
                "rpc.service": _SERVICES.get(call.method, ""),
                "rpc.method": call.method,
                "rpc.grpc.status_code": grpc.StatusCode[code].value[0],
            }
        )
        if topic := request.key.topic if request is not None else call.target:
            span.set_attribute("topicpolicies.topic", topic[:_LONGEST])
        if request is not None:
            span.set_attribute("topicpolicies.request_id", request.request_id)
        if call.outcome is not None:
            span.set_attribute("topicpolicies.outcome", call.outcome.name)
        if reason:
            span.set_attribute("topicpolicies.reason", reason)
            span.set_status(Status(StatusCode.ERROR, reason))
        span.end()

    def close(self) -> None:
        """Sends what waits, for ``_CLOSE_SECONDS`` at the most. It blocks meanwhile."""
        ending = threading.Thread(target=self._provider.shutdown, name="spans", daemon=True)
        ending.start()
        ending.join(_CLOSE_SECONDS)
        self._exporter.shutdown()


def open_tracing(config: TelemetryConfig) -> Tracing:
    """Traces calls to the collector that is configured. ``OTEL_EXPORTER_OTLP_HEADERS`` may have its credentials."""
    return Tracing(OTLPSpanExporter(f"{config.endpoint.rstrip('/')}/v1/traces", timeout=_SECONDS), config.trace_ratio)


def _about() -> dict[str, str]:
    """Returns the resource attributes that identify this process to a collector."""
    name = os.environ.get(SERVICE_VARIABLE, "") or "topicpolicies"
    about = {"service.name": name, "service.version": version("topicpolicies")}
    return {**about, "service.instance.id": str(uuid.uuid4()), "host.name": socket.gethostname()}
