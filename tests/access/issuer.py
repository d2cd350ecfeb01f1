"""An issuer of tokens for tests: tells where its keys are, and which, over HTTP, and counts how often it is asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Issuer:
    """What it tells; tests change it."""

    def __init__(self) -> None:
        self.name = ""
        """Its URL."""
        self.keys: list[dict[str, Any]] = []
        self.discovery: dict[str, Any] | None = None
        """What it tells of itself; None: what is true."""
        self.status = 200
        self.body: bytes | None = None
        """In place of its keys."""
        self.location = ""
        """Where it sends those who ask for its keys."""
        self.encoding = ""
        """How it says that its answers are compressed."""
        self.asked: list[str] = []
        """The paths."""
        self.answers = threading.Event()
        """Not set: it does not answer."""
        self.answers.set()

    def times(self, path: str = "/keys") -> int:
        """How often it was asked for something."""
        return self.asked.count(path)

    def answer(self, path: str) -> bytes:
        """The body for a path."""
        if path != "/keys":
            return json.dumps(self.discovery or {"issuer": self.name, "jwks_uri": f"{self.name}/keys"}).encode()
        return json.dumps({"keys": self.keys}).encode() if self.body is None else self.body


@contextmanager
def serving() -> Iterator[Issuer]:
    """An issuer on a free port of this machine."""
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
            if issuer.encoding:
                self.send_header("content-encoding", issuer.encoding)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with suppress(ConnectionError):  # who asked may have gone
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

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
