"""The tests' own client of the admin API, used by several threads."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from .admin import Admin

THREADS, CALLS = 4, 20


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    connections: ClassVar[defaultdict[str, set[int]]] = defaultdict(set)
    """By path: the client ports of its requests."""

    def do_GET(self) -> None:
        self.connections[self.path].add(self.client_address[1])
        self.send_response(200)
        self.send_header("Content-Length", "1")
        self.end_headers()
        self.wfile.write(b"1")

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 (http.server's name)
        del format, arguments


@pytest.fixture
def url() -> Iterator[str]:
    _Handler.connections.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_each_thread_of_an_admin_client_keeps_one_connection_of_its_own(url: str) -> None:
    met, turn = threading.Barrier(THREADS), threading.Lock()

    def ask(number: int) -> None:
        met.wait(10)
        with turn:  # one thread after the other: a shared pool would give all of them its one connection
            for _ in range(CALLS):
                assert admin.call("GET", str(number)) == 1

    with Admin(url) as admin, ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(ask, range(THREADS)))
    ports = list(_Handler.connections.values())
    assert len(ports) == THREADS and all(len(each) == 1 for each in ports)
    assert len(set.union(*ports)) == THREADS
