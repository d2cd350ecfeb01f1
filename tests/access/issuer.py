"""An issuer of tokens for tests: publishes its discovery document and its keys over HTTP, and records the requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Issuer:
    """What the issuer answers; tests change it."""

    def __init__(self) -> None:
        self.name = ""
        """Its URL."""
        self.keys: list[dict[str, Any]] = []
        self.discovery: dict[str, Any] | None = None
        """Its discovery document; None: the correct one."""
        self.status = 200
        self.body: bytes | None = None
        """The body of the answer, in place of its keys."""
        self.location = ""
        """The URL to which requests for its keys are redirected; "": they are not."""
        self.asked: list[str] = []
        """The paths of all requests."""
        self.answers = threading.Event()
        """Set unless requests are to wait without an answer."""
        self.answers.set()

    def times(self, path: str = "/keys") -> int:
        """Returns how often a path was requested."""
        return self.asked.count(path)

    def answer(self, path: str) -> bytes:
        """Returns the body for a path."""
        if path != "/keys":
            return json.dumps(self.discovery or {"issuer": self.name, "jwks_uri": f"{self.name}/keys"}).encode()
        return json.dumps({"keys": self.keys}).encode() if self.body is None else self.body


@contextmanager
def serving() -> Iterator[Issuer]:
    """Serves an issuer on a free local port for the block."""
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            issuer.answers.wait(30)
            body = issuer.answer(self.path)
            redirected = issuer.location if self.path == "/keys" else ""
            self.send_response(302 if redirected else issuer.status)
            if redirected:
                self.send_header("location", redirected)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with suppress(ConnectionError):  # the client may have gone
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    issuer.name = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        issuer.answers.set()
        server.shutdown()
        thread.join()
        server.server_close()
