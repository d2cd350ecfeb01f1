"""The current trace context of the program, sent with each call, so that the service can keep it with a change.

The context is that of OpenTelemetry's API, if the package is installed.
"""

from __future__ import annotations

from collections.abc import Callable

from .stubs import Metadata

PARENT_KEY = "traceparent"


def _nothing() -> Metadata:
    return ()


def _of_opentelemetry() -> Callable[[], Metadata]:
    try:
        from opentelemetry import trace  # noqa: PLC0415 - optional
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415
    except ImportError:
        return _nothing
    propagator, current_span = TraceContextTextMapPropagator(), trace.get_current_span

    def current() -> Metadata:
        if not current_span().get_span_context().is_valid:
            return ()
        carrier: dict[str, str] = {}
        propagator.inject(carrier)
        return tuple(carrier.items())

    return current


current: Callable[[], Metadata] = _of_opentelemetry()
"""Returns the current context as metadata of a call (W3C Trace Context); empty outside a span, or without OpenTelemetry's API."""
