"""A collector on loopback that accepts OTLP over HTTP and keeps the spans."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """A collector, which listens while its context is open."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        """The status of its responses; messages are kept only if it is 200."""
        self.spans: list[Span] = []
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
        assert path == "/v1/traces"
        for spans in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.about = {each.key: each.value.string_value for each in spans.resource.attributes}
            self.spans += [span for scope in spans.scope_spans for span in scope.spans]
