"""The HTTP endpoint for probes and metrics: its answers, and that slow clients delay no other client."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter

from tests.plain_http import NO_TLS
from topicpolicies_server.config import parse_address
from topicpolicies_server.ops import http
from topicpolicies_server.ops.http import Endpoint
from topicpolicies_server.readiness import Check, Report

WELL = Report((Check("loop", ""),), (Check("loop", ""), Check("log", "")))
ILL = Report((Check("loop", ""),), (Check("loop", ""), Check("log", "The change log has been out of reach for 4 s: no\nbroker.")))


class Asked:
    """An endpoint, and the report that its probes answer with."""

    def __init__(self) -> None:
        self.report = WELL
        registry = CollectorRegistry()
        Counter("one", "Something.", registry=registry).inc()
        self.endpoint = Endpoint(parse_address("127.0.0.1:0"), registry, lambda: self.report)
        self.port = self.endpoint.address.port

    def ask(self, path: str, method: str = "GET", **rest: float) -> httpx.Response:
        """Sends a request, and returns the answer."""
        return httpx.request(method, f"http://127.0.0.1:{self.port}{path}", trust_env=False, timeout=10, verify=NO_TLS, **rest)  # type: ignore[arg-type]

    def connect(self) -> socket.socket:
        """Opens a connection on which nothing has been sent."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)


@pytest.fixture
def asked() -> Iterator[Asked]:
    """Yields an endpoint that listens."""
    made = Asked()
    yield made
    asyncio.run(made.endpoint.close())


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_probes_of_a_healthy_server_answer_ok(asked: Asked, path: str) -> None:
    answer = asked.ask(path)
    assert (answer.status_code, answer.text, answer.headers["cache-control"]) == (200, "ok", "no-store")


@pytest.mark.parametrize("query", ["verbose", "verbose=", "verbose=1", "x=2&verbose"])
def test_with_verbose_each_check_is_listed(asked: Asked, query: str) -> None:
    assert asked.ask(f"/readyz?{query}").text == "[+]loop ok\n[+]log ok\nreadyz check passed\n"


@pytest.mark.parametrize("query", ["&".join("x" * 20), "verbose&" * 20, "%ff=%00&" * 100, ";" * 50])
def test_probes_answer_whatever_the_query(asked: Asked, query: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert asked.ask(f"/readyz?{query}").status_code == asked.ask(f"/livez?{query}").status_code == 200
    assert capfd.readouterr().err == ""


def test_a_server_that_is_not_ready_says_why_in_one_line_and_is_alive(asked: Asked) -> None:
    asked.report = ILL
    answer = asked.ask("/readyz")
    assert answer.status_code == 503
    assert answer.text == "[+]loop ok\n[-]log failed: The change log has been out of reach for 4 s: no broker.\nreadyz check failed\n"
    assert asked.ask("/livez").text == "ok"
    asked.report = WELL
    assert asked.ask("/readyz").status_code == 200


@pytest.mark.parametrize("path", ["/", "/metric", "/metrics/", "/metrics/x", "/readyz/log", "/..%2fmetrics", "/favicon.ico"])
def test_other_paths_are_not_found(asked: Asked, path: str) -> None:
    assert asked.ask(path).status_code == 404


@pytest.mark.parametrize("accept", ["", "*/*", "text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0"])
def test_all_metrics_are_exposed_in_the_format_that_is_requested_whatever_the_query(asked: Asked, accept: str) -> None:
    url = f"http://127.0.0.1:{asked.port}/metrics?name[]=none&name[]=%00"
    answer = httpx.get(url, headers={"accept": accept}, trust_env=False, verify=NO_TLS)
    assert answer.status_code == 200 and "one_total 1.0" in answer.text
    assert answer.headers["content-type"].startswith("application/openmetrics-text" if "openmetrics" in accept else "text/plain")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_other_methods_are_not_allowed(asked: Asked, method: str) -> None:
    assert asked.ask("/metrics", method).status_code == 405


def test_silent_connections_delay_no_request(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http._Handler, "timeout", 60)  # longer than a request waits for its answer
    silent = [asked.connect() for _ in range(40)]
    for _ in range(5):
        assert asked.ask("/readyz").text == "ok"
    for each in silent:
        each.close()


def test_a_connection_that_stops_in_the_middle_of_a_request_is_closed(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http._Handler, "timeout", 0.2)
    with asked.connect() as peer:
        peer.sendall(b"GET /readyz HTTP/1.1\r\nHost:")
        assert peer.recv(100) == b""


def test_malformed_requests_are_refused_and_the_endpoint_continues(asked: Asked) -> None:
    for nonsense in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"GET " + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", b"\r\n" * 10):
        with asked.connect() as peer:
            peer.sendall(nonsense)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(65536):
                pass
    assert asked.ask("/livez").text == "ok"
