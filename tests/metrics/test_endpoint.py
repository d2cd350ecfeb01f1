"""The HTTP endpoint for probes and metrics: its answers, and that slow clients delay no other client."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from topicpolicies_server.config import parse_address
from topicpolicies_server.health import Check, Report
from topicpolicies_server.metrics import Endpoint, web

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
        return httpx.request(method, f"http://127.0.0.1:{self.port}{path}", trust_env=False, timeout=10, **rest)  # type: ignore[arg-type]

    def connect(self) -> socket.socket:
        """Opens a connection on which nothing has been sent."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)


@pytest.fixture
def asked() -> Iterator[Asked]:
    """Yields an endpoint that listens."""
    made = Asked()
    yield made
    made.endpoint._close()


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


def test_metrics_are_exposed(asked: Asked) -> None:
    answer = asked.ask("/metrics")
    assert answer.status_code == 200 and "one_total 1.0" in answer.text


@pytest.mark.parametrize(
    "accept",
    [
        "text/plain;version=abc",
        "application/openmetrics-text;version=1.x.0",
        "application/openmetrics-text;version=",
        "text/plain;version=99999999999999999999.0;escaping=zzz",
        ";,;=" * 100,
    ],
)
def test_all_metrics_are_exposed_whatever_the_accept_header_and_the_query(
    asked: Asked, accept: str, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"http://127.0.0.1:{asked.port}/metrics?name[]=none&name[]=%00"
    answer = httpx.get(url, headers={"accept": accept}, trust_env=False)
    assert answer.status_code == 200 and "one_total 1.0" in answer.text
    assert caplog.records == []


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_other_methods_are_not_allowed(asked: Asked, method: str) -> None:
    answer = asked.ask("/metrics", method)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


def test_answers_to_head_have_the_headers_of_get_and_no_body(asked: Asked) -> None:
    for path, status in (("/metrics", 200), ("/readyz", 200), ("/none", 404)):
        answer, whole = asked.ask(path, "HEAD"), asked.ask(path)
        assert (answer.status_code, answer.content) == (status, b"")
        for header in ("content-length", "content-type"):
            assert answer.headers[header] == whole.headers[header] != "0"


def test_silent_connections_delay_no_request_and_the_oldest_are_closed_for_new_ones(asked: Asked) -> None:
    silent = [asked.connect() for _ in range(web.CONNECTIONS + 8)]
    began = time.monotonic()
    for _ in range(5):
        assert asked.ask("/readyz").text == "ok"
    assert time.monotonic() - began < web.SILENT_SECONDS, "a request waited for the silent connections"
    assert silent[0].recv(1) == b"", "the oldest connection is open"
    for each in silent:
        each.close()


def test_a_connection_that_stops_in_the_middle_of_a_request_is_closed(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web._Handler, "timeout", 0.2)
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


class Slow(Collector):
    """A collector that records how many scrapes use it at the same time."""

    def __init__(self) -> None:
        self.at_once = self.most = 0

    def describe(self) -> Iterator[Metric]:
        """Describes nothing."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Collects one metric, slowly."""
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        time.sleep(0.05)
        self.at_once -= 1
        yield GaugeMetricFamily("one", "Something.", value=1)


def test_scrapes_run_one_after_the_other_and_probes_do_not_wait_for_them() -> None:
    slow = Slow()
    endpoint = Endpoint(parse_address("127.0.0.1:0"), slow, lambda: WELL)
    try:
        with ThreadPoolExecutor(9) as threads:
            url = f"http://{endpoint.address}"
            scrapes = [threads.submit(httpx.get, f"{url}/metrics", trust_env=False, timeout=10) for _ in range(8)]
            probed = threads.submit(httpx.get, f"{url}/livez", trust_env=False, timeout=10)
            assert probed.result().text == "ok"
            assert all("one 1.0" in each.result().text for each in scrapes)
    finally:
        endpoint._close()
    assert slow.most == 1, "two scrapes ran at once: each thread that computes delays the event loop"


def test_those_who_ask_and_go_away_leave_no_threads_that_wait_and_delay_nobody() -> None:
    slow = Slow()
    endpoint = Endpoint(parse_address("127.0.0.1:0"), slow, lambda: WELL)
    before = threading.active_count()
    try:
        for _ in range(10 * web.CONNECTIONS):
            with socket.create_connection(("127.0.0.1", endpoint.address.port), timeout=10) as peer:
                peer.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        began = time.monotonic()
        assert "one 1.0" in httpx.get(f"http://{endpoint.address}/metrics", trust_env=False, timeout=20).text
        assert time.monotonic() - began < 2 * web.CONNECTIONS * 0.05 + 2
        assert threading.active_count() - before <= web.CONNECTIONS + 8
    finally:
        endpoint._close()


def test_the_endpoint_does_not_resolve_the_name_of_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> str:
        raise AssertionError("a resolver that does not answer holds up the start")

    monkeypatch.setattr(socket, "getfqdn", asked)
    monkeypatch.setattr(socket, "gethostbyaddr", asked)
    endpoint = Endpoint(parse_address("0.0.0.0:0"), Slow(), lambda: WELL)
    try:
        assert httpx.get(f"http://127.0.0.1:{endpoint.address.port}/livez", trust_env=False).text == "ok"
    finally:
        endpoint._close()


def test_a_client_that_does_not_read_its_answer_causes_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(web._Handler, "timeout", 0.2)
    ended = threading.Event()
    close = web._Server.close_request

    def closed(server: web._Server, request: socket.socket) -> None:
        close(server, request)
        ended.set()

    monkeypatch.setattr(web._Server, "close_request", closed)
    made = web.Web("127.0.0.1", 0, lambda _, respond: (respond("200 OK", []), [b"x" * 50_000_000])[1])
    try:
        with socket.create_connection(("127.0.0.1", made.port), timeout=10) as peer:
            peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert ended.wait(20)
    finally:
        made.close()
    assert "Traceback" not in capfd.readouterr().err and caplog.records == []


def test_a_failure_of_the_endpoint_itself_is_logged_in_one_line(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: object, __: object) -> list[bytes]:
        raise KeyError("a fault")

    made = web.Web("127.0.0.1", 0, broken)
    try:
        assert httpx.get(f"http://127.0.0.1:{made.port}/", trust_env=False).status_code == 500
    finally:
        made.close()
    assert [record.getMessage() for record in caplog.records] == ["a request over HTTP failed: KeyError('a fault')"]
    assert "Traceback" not in capfd.readouterr().err


def test_without_free_file_descriptors_the_endpoint_uses_no_processor_time_and_recovers(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_WITHOUT_DESCRIPTORS)
    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=True)
    seconds, answer = ran.stdout.split()
    assert float(seconds) < 0.5 and answer == "ok", "the endpoint was busy while it could not accept, or does not answer afterwards"


_WITHOUT_DESCRIPTORS = """
import os, resource, socket, time
from topicpolicies_server.metrics.web import Web, text
from http import HTTPStatus
made = Web("127.0.0.1", 0, lambda _, respond: text(respond, HTTPStatus.OK, "ok"))
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
peer, held = socket.socket(), []
try:
    while True:
        held.append(os.dup(1))
except OSError:
    pass
peer.connect(("127.0.0.1", made.port))
before = time.process_time()
time.sleep(2)
used = time.process_time() - before
for each in held:
    os.close(each)
peer.settimeout(20)
peer.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
answer = b""
while more := peer.recv(1000):
    answer += more
print(used, answer.rpartition(b"\\n")[2].decode())
made.close()
"""
