"""Telemetry of a server: starts sending the spans of its calls, and its metrics, to a collector (OTLP)."""

from __future__ import annotations

import os
import socket
import uuid
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from ..config import TelemetryConfig
from ..ops.metrics import ServerCollector
from .calls import Calls
from .tracing import Tracing

if TYPE_CHECKING:
    from ..telemetry.sender import Sender

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
