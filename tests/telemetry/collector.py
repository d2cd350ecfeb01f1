"""A collector on loopback that accepts OTLP over HTTP and keeps the spans and metrics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

PATIENCE = 20.0


class Collector:
    """A collector, which listens while its context is open."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        """The status of its responses; messages are kept only if it is 200."""
        self.spans: list[Span] = []
        self.metrics: dict[str, Metric] = {}
        """The latest metrics, by name."""
        self.about: dict[str, str] = {}
        """The resource attributes of the latest message."""
        self.headers: dict[str, str] = {}
        self.requests = 0
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector._take(self.path, dict(self.headers), self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """Logs nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.requests += 1
        self.headers = headers
        if self.status != 200:
            return
        if path == "/v1/traces":
            for spans in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.about = texts(spans.resource.attributes)
                self.spans += [span for scope in spans.scope_spans for span in scope.spans]
        else:
            assert path == "/v1/metrics"
            for metrics in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.about = texts(metrics.resource.attributes)
                self.metrics |= {metric.name: metric for scope in metrics.scope_metrics for metric in scope.metrics}


def texts(attributes: Iterable[KeyValue]) -> dict[str, str]:
    """Returns the attributes with string values."""
    return {each.key: each.value.string_value for each in attributes if each.value.HasField("string_value")}


def wait_until(holds: Callable[[], bool]) -> None:
    """Waits until the condition holds, at most ``PATIENCE`` seconds."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "the condition did not hold in time"
        time.sleep(0.01)
