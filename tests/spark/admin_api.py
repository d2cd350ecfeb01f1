"""A fake of a broker's admin API: it gives configured answers, and records its requests."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.client.certificates import Identity


class Elsewhere(NamedTuple):
    """An answer that redirects to another broker."""

    url: str


class Asked(NamedTuple):
    """A request."""

    path: str
    """The path after ``/admin/v2/``."""
    authorization: str


class AdminApi:
    """The answers of one broker, by the path after ``/admin/v2/``; 404 for other paths.

    Attributes:
        answers: JSON values, status codes, and ``Elsewhere``; may be changed at any time.
        asked: the requests so far.
    """

    def __init__(self, url: str, answers: Mapping[str, Any]) -> None:
        self.url = url
        self.answers = dict(answers)
        self.asked: list[Asked] = []

    def answer(self, path: str, authorization: str) -> tuple[int, dict[str, str], bytes]:
        """Records a request, and returns the status, the headers and the body of its answer."""
        name = path.removeprefix("/admin/v2/")
        self.asked.append(Asked(name, authorization))
        match self.answers.get(name, 404):
            case Elsewhere(url):
                return 307, {"Location": url + path}, b""
            case int() as status:
                return status, {}, b'{"reason": "said"}'
            case value:
                return 200, {"Content-Type": "application/json"}, json.dumps(value).encode()


@contextlib.contextmanager
def admin_api(answers: Mapping[str, Any] | None = None, identity: Identity | None = None) -> Iterator[AdminApi]:
    """Serves one broker's admin API on a port of its own, with TLS if there is an identity."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, headers, body = api.answer(self.path, self.headers.get("Authorization", ""))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if identity is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity.certificate, identity.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    api = AdminApi(f"{'https' if identity else 'http'}://127.0.0.1:{server.server_port}", answers or {})
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    serving.start()
    try:
        yield api
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
