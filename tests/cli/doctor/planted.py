"""Fake peers in which tests plant faults: admin APIs with given responses, and servers that are not gRPC servers."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.broker.credentials import trusting
from tests.client.certificates import Identity

SCHEMA = Path(__file__).parents[3] / "server" / "topicpolicies_server" / "logs" / "avro"
HEALTHY: Mapping[str, tuple[int, Any]] = {
    "brokers/version": (200, "4.2.4"),
    "brokers/configuration/runtime": (200, {"topicLevelPoliciesEnabled": "true", "systemTopicEnabled": "true"}),
    "clusters": (200, ["standalone"]),
    "tenants": (200, ["public"]),
    "namespaces/public": (200, ["public/default"]),
    "namespaces/public/default": (200, {}),
}
"""The responses of a broker without faults; any other path gets 404."""


class Api:
    """A fake admin API."""

    def __init__(self, answers: Mapping[str, tuple[int, Any]], tls: tuple[Identity, Path] | None = None) -> None:
        self.asked: list[str] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.removeprefix("/admin/v2/")
                api.asked.append(path)
                status, content = answers.get(path, (404, {"reason": "not found"}))
                body = content.encode() if isinstance(content, str) else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            identity, authorities = tls
            context = trusting(authorities, ssl.Purpose.CLIENT_AUTH)
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_cert_chain(identity.certificate, identity.key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = int(self._server.server_address[1])
        self.thread = threading.Thread(target=lambda: self._server.serve_forever(0.01), daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.thread.join(20)


@contextmanager
def admin_api(changed: Mapping[str, tuple[int, Any]] | None = None, *, tls: tuple[Identity, Path] | None = None) -> Iterator[Api]:
    """Runs an admin API with the responses of ``HEALTHY``, except for some.

    Args:
        changed: the responses that differ, by path.
        tls: its certificate, and the authority that must have signed its clients' certificates; None: without TLS.
    """
    api = Api({**HEALTHY, **(changed or {})}, tls)
    api.start()
    try:
        yield api
    finally:
        api.stop()


@contextmanager
def silent() -> Iterator[int]:
    """The port of a server that accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


def free_port() -> int:
    """Returns a port on which no process listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
