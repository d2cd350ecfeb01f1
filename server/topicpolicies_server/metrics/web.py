"""A small HTTP server in threads of its own: each known path has an app, every other path is 404; GET and HEAD only.

Each connection has one request and one answer. At most ``CONNECTIONS`` are open at once; for one more, the oldest is closed. So a peer that
sends or reads slowly delays others only for a short time, if at all.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any, TypeAlias
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer, make_server

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_LOG = logging.getLogger(__name__)
CONNECTIONS = 32
"""How many connections are open at once at most."""
_LOOK_SECONDS = 0.05
"""How often the thread checks whether it is to end, for which a server that stops waits; and a request that waits for its turn, whether its
connection was closed."""
SILENT_SECONDS = 5.0
"""How long a peer may send nothing, or read nothing."""
_PAUSE_SECONDS = 0.2
"""How long nothing is accepted after accepting has failed, for example because no file descriptor is left: trying again at once would keep
a processor busy."""
_LONGEST_LINE = 65_536
_METHODS = ("GET", "HEAD")
_TEXT = ("Content-Type", "text/plain; charset=utf-8")

_HUNG_UP = "topicpolicies.hung_up"
"""In the environment of a request: a function that returns whether its connection was closed for another one."""

App: TypeAlias = "Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]"


def text(respond: StartResponse, status: HTTPStatus, body: str, *headers: tuple[str, str]) -> Iterable[bytes]:
    """Answers with a text."""
    raw = body.encode()
    respond(f"{status.value} {status.phrase}", [_TEXT, ("Content-Length", str(len(raw))), ("Cache-Control", "no-store"), *headers])
    return [raw]


def one_at_a_time(app: App) -> App:
    """Returns an app that answers one request after the other. ``app`` must have produced its answer when it returns.

    A request whose connection is closed for another one while it waits is not answered, so that at most ``CONNECTIONS`` wait.
    """
    turn = threading.Lock()

    def alone(environment: WSGIEnvironment, respond: StartResponse) -> Iterable[bytes]:
        hung_up = environment.get(_HUNG_UP, bool)
        while not turn.acquire(timeout=_LOOK_SECONDS):
            if hung_up():
                raise ConnectionAbortedError
        try:
            if hung_up():
                raise ConnectionAbortedError
            return app(environment, respond)
        finally:
            turn.release()

    return alone


def routed(apps: Mapping[str, App]) -> App:
    """Returns an app that calls one of several apps, by the path."""

    def app(environment: WSGIEnvironment, respond: StartResponse) -> Iterable[bytes]:
        named = apps.get(environment.get("PATH_INFO", ""))
        if named is None:
            return text(respond, HTTPStatus.NOT_FOUND, f"There are {', '.join(apps)}.\n")
        method = environment["REQUEST_METHOD"]
        if method not in _METHODS:
            return text(respond, HTTPStatus.METHOD_NOT_ALLOWED, "Only GET and HEAD.\n", ("Allow", ", ".join(_METHODS)))
        return named(environment, respond) if method == "GET" else _head(named, environment, respond)

    return app


def _head(app: App, environment: WSGIEnvironment, respond: StartResponse) -> Iterable[bytes]:
    """Answers HEAD: as GET, with the length of its body, but without the body."""
    status, headers = "", list[tuple[str, str]]()

    def noted(of: str, told: list[tuple[str, str]], *_: object) -> Callable[[bytes], object]:
        nonlocal status, headers
        status, headers = of, told
        return lambda _: None

    length = sum(map(len, app({**environment, "REQUEST_METHOD": "GET"}, noted)))
    respond(status, [each for each in headers if each[0].lower() != "content-length"] + [("Content-Length", str(length))])
    return []


class Web:
    """The HTTP server."""

    def __init__(self, host: str, port: int, app: App) -> None:
        """Listens at once.

        Args:
            host: the host of the address.
            port: the port of the address; 0 lets the system choose.
            app: answers the requests, in any of several threads.

        Raises:
            OSError: the address can't be listened on.
        """
        kind = type("Server", (_Server,), {"address_family": _family(host, port)})
        self._server: _Server = make_server(host, port, app, server_class=kind, handler_class=_Handler)
        self.port: int = self._server.server_port
        """The port on which it listens."""
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_LOOK_SECONDS,), name="http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops listening, and closes the open connections. Blocks for ``_LOOK_SECONDS``, and hardly longer."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(WSGIRequestHandler):
    timeout = SILENT_SECONDS

    def log_message(self, *_: object) -> None:
        """Logs nothing: probes come every few seconds."""

    def handle(self) -> None:
        """Answers a request, as ``WSGIRequestHandler`` does, but leaves failures to ``_Answering``."""
        self.raw_requestline = self.rfile.readline(_LONGEST_LINE + 1)
        if len(self.raw_requestline) > _LONGEST_LINE:
            self.requestline = self.request_version = self.command = ""
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
            return
        if not self.parse_request():
            return
        environment = self.get_environ()
        environment[_HUNG_UP] = lambda: not self.server.has(self.connection)  # type: ignore[attr-defined]
        answering = _Answering(self.rfile, self.wfile, self.get_stderr(), environment, multithread=True)  # type: ignore[arg-type]
        answering.request_handler = self  # type: ignore[attr-defined]
        application = self.server.get_app()  # type: ignore[attr-defined]
        assert application is not None, "there is one from the beginning"
        answering.run(application)


class _Answering(ServerHandler):
    def log_exception(self, exc_info: Any) -> None:
        """Logs a fault of ours; a peer that goes away, or does not read, is ignored."""
        if not isinstance(exc_info[1], OSError):
            _LOG.error("a request over HTTP failed: %r", exc_info[1], exc_info=exc_info)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._open: OrderedDict[socket.socket, None] = OrderedDict()
        self._lock = threading.Lock()
        super().__init__(*arguments, **options)

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # ``WSGIServer.server_bind`` resolves the host's name, and waits if no name server answers
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            time.sleep(_PAUSE_SECONDS)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            while len(self._open) >= CONNECTIONS:
                _hang_up(self._open.popitem(last=False)[0])
            self._open[request] = None
        super().process_request(request, client_address)

    def has(self, request: Any) -> bool:
        """Whether a connection is open, and was not closed for another one."""
        return request in self._open

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores a peer that goes away during a request."""

    def server_close(self) -> None:
        super().server_close()
        with self._lock:
            for each in self._open:
                _hang_up(each)
            self._open.clear()


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)  # the connection's thread closes it


def _family(host: str, port: int) -> socket.AddressFamily:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
