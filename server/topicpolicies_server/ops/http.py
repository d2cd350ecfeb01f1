"""Metrics and probes over HTTP, in threads of their own: ``/livez`` answers even if the event loop is stuck.

``GET /metrics``, ``/livez`` and ``/readyz``, without TLS and without authentication: the answers have numbers, and whether the log can be
reached, but no names of topics or principals. Probes answer as those of Kubernetes' API server: 200 and ``ok``, or 503 and a line for each
check; with ``?verbose`` there is a line for each check in any case.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from socketserver import TCPServer
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import ThreadingWSGIServer, choose_encoder
from prometheus_client.registry import Collector

from ..config import Address
from ..readiness import Check, Report

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS = 0.05
"""How often the thread checks whether it is to end, for which a server that stops waits."""
_SILENT_SECONDS = 5.0
"""How long a peer may send nothing, or read nothing."""
_TEXT = "text/plain; charset=utf-8"


class Endpoint:
    """Answers at one address."""

    def __init__(self, address: Address, collector: Collector, health: Callable[[], Report]) -> None:
        """Listens at once; port 0 lets the system choose. ``health``: returns the report for probes, in any thread.

        Raises:
            OSError: the address can't be listened on.
        """
        self._registry = CollectorRegistry()
        self._registry.register(collector)
        self._health = health
        self._scraping = threading.Lock()
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        kind = type("Server", (_Server,), {"address_family": family})
        self._server: _Server = make_server(address.host, address.port, self._answer, kind, handler_class=_Handler)
        self.address = address._replace(port=int(self._server.server_port))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_LOOK_SECONDS,), name="http", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Stops listening."""
        await asyncio.to_thread(self._server.shutdown)
        self._server.server_close()

    def _answer(self, environment: WSGIEnvironment, respond: StartResponse) -> Iterable[bytes]:
        path, kind, status = environment.get("PATH_INFO", ""), _TEXT, HTTPStatus.OK
        if environment["REQUEST_METHOD"] != "GET":
            status, body = HTTPStatus.METHOD_NOT_ALLOWED, b"Only GET.\n"
        elif path == "/metrics":
            encode, kind = choose_encoder(environment.get("HTTP_ACCEPT", ""))
            with self._scraping:  # several at once would hold up the event loop
                body = encode(self._registry)
        elif path in ("/livez", "/readyz"):
            report = self._health()
            status, body = _probed(path[1:], report.live if path == "/livez" else report.ready, environment.get("QUERY_STRING", ""))
        else:
            status, body = HTTPStatus.NOT_FOUND, b"There are /metrics, /livez, /readyz.\n"
        headers = [("Content-Type", kind), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")]
        respond(f"{status.value} {status.phrase}", headers)
        return [body]


def _probed(name: str, checks: Sequence[Check], query: str) -> tuple[HTTPStatus, bytes]:
    well = not any(check.problem for check in checks)
    if well and not any(field.partition("=")[0] == "verbose" for field in query.split("&")):
        return HTTPStatus.OK, b"ok"
    lines = [*map(_line_of, checks), f"{name} check {'passed' if well else 'failed'}\n"]
    return HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE, "\n".join(lines).encode()


def _line_of(check: Check) -> str:
    said = " ".join((check.problem or check.remark).split())
    return f"[-]{check.name} failed: {said}" if check.problem else f"[+]{check.name} ok" + (f": {said}" if said else "")


class _Handler(WSGIRequestHandler):
    timeout = _SILENT_SECONDS

    def log_message(self, *_: object) -> None:
        """Logs nothing: probes come every few seconds."""


class _Server(ThreadingWSGIServer):
    def server_bind(self) -> None:
        """Binds without resolving the host's name, as ``WSGIServer`` does: that waits if no name server answers."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, *_: object) -> None:
        """Logs the failure of a request: a peer that goes away, or sends nothing."""
        _LOG.debug("a request over HTTP failed: %r", sys.exc_info()[1])
