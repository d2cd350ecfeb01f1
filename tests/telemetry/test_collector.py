"""A collector that hangs, answers nonsense, or can't be reached harms nothing, and its credentials are not told."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.client.certificates import Authority
from tests.telemetry.collector import Collector, wait_until
from tests.telemetry.test_sender import ended, sender
from topicpolicies_server.telemetry import collector as collecting

Answer: TypeAlias = Callable[[socket.socket], None]
ENOUGH = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@contextmanager
def answering(answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[str]:
    """Answers each connection in this way, in a thread of its own; yields the endpoint."""
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            peer = context.wrap_socket(connection, server_side=True) if context is not None else connection
            with peer:
                peer.recv(1 << 16)
                answer(peer)

    def accept() -> None:
        while not over.is_set():
            with suppress(OSError):
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"{'https' if context is not None else 'http'}://127.0.0.1:{listener.getsockname()[1]}"
        over.set()
        thread.join()


def trickling(peer: socket.socket) -> None:
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        peer.sendall(b"x")
        time.sleep(0.05)


def test_a_collector_whose_answer_takes_too_long_is_logged_and_does_not_hold_the_sender_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "topicpolicies_server.telemetry")
    monkeypatch.setattr(collecting, "SECONDS", 0.3)
    with answering(trickling) as endpoint:
        sent = sender(endpoint)
        sent.ended(ended())
        wait_until(lambda: sent.lost == 1)
        with Collector() as well:
            sent._endpoint = well.endpoint
            sent.ended(ended())
            wait_until(lambda: len(well.spans) == 1)
            sent.close()
    assert caplog.messages[0] == f"telemetry can't be sent to {endpoint}: no answer in 0.3 s"


def test_of_an_answer_without_an_end_no_more_than_a_little_is_read() -> None:
    taken = 0

    def endless(peer: socket.socket) -> None:
        nonlocal taken
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while taken < 64 << 20:
            peer.sendall(b"10000\r\n" + bytes(0x10000) + b"\r\n")
            taken += 0x10000

    with answering(endless) as endpoint:
        sent = sender(endpoint)
        sent.ended(ended())
        wait_until(lambda: taken > 0)
        sent.close()
    assert taken < 16 << 20


def test_a_collector_that_accepts_spans_only_is_logged_once_and_gets_the_spans(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "topicpolicies_server.telemetry")
    asked: list[bytes] = []

    def without_metrics(peer: socket.socket) -> None:
        peer.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    with answering(without_metrics) as metrics, Collector() as spans:
        sent = sender(spans.endpoint)
        post = sent._collector.post

        def by_path(url: str, body: bytes) -> None:
            asked.append(body)
            post(f"{metrics}/v1/metrics" if url.endswith("/v1/metrics") else url, body)

        sent._collector.post = by_path  # type: ignore[method-assign]
        for number in range(30):
            sent.ended(ended(number))
            time.sleep(0.02)
        wait_until(lambda: len(spans.spans) == 30)
        sent.close()
    assert caplog.messages == [f"telemetry can't be sent to {spans.endpoint}: it answers 404 to /v1/metrics"]


@pytest.mark.parametrize("endpoint", ["http://a..b:4318", "http://xn--:43"])
def test_a_host_that_can_not_be_looked_up_is_logged_once(endpoint: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "topicpolicies_server.telemetry")
    sent = sender(endpoint)
    for number in range(10):
        sent.ended(ended(number))
        time.sleep(0.02)
    wait_until(lambda: sent.lost > 1)
    sent.close()
    assert [(record.levelname, record.exc_info) for record in caplog.records] == [("WARNING", None)]


@pytest.mark.parametrize("value", ["Bearer%20hidden%0A.", "Bearer hidden\xe9", "hidden%00", "hidden%0D%0Ax: y"])
def test_credentials_that_can_not_be_sent_are_left_out_and_not_told(
    value: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(collecting.HEADERS_VARIABLE, f"authorization={value},x-tenant=acme")
    with Collector() as collector:
        sent = sender(collector.endpoint)
        wait_until(lambda: collector.requests > 0)
        sent.close()
        assert collector.headers["x-tenant"] == "acme"
    assert "the header authorization is left out" in caplog.text
    assert "hidden" not in caplog.text


def test_a_collector_on_this_machine_is_reached_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with Collector() as collector, Collector() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.endpoint)
        sent = sender(collector.endpoint)
        wait_until(lambda: collector.requests + proxy.requests > 0)
        sent.close()
    assert proxy.requests == 0


@pytest.mark.parametrize("trusted", [True, False])
def test_the_certificate_authorities_of_a_collector_are_the_systems_and_not_those_of_a_python_package(
    *, trusted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path, "authority")
    identity = authority.identity("collector", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    monkeypatch.setattr("certifi.where", lambda: str(authority.certificate))
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    else:
        for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
            monkeypatch.delenv(name, raising=False)
    answered = threading.Event()

    def well(peer: socket.socket) -> None:
        peer.sendall(ENOUGH)
        answered.set()

    with answering(well, context) as endpoint:
        sent = sender(endpoint)
        wait_until(lambda: answered.is_set() or bool(caplog.messages))
        sent.close()
    assert answered.is_set() is trusted
    assert ("CERTIFICATE_VERIFY_FAILED" in caplog.text) is not trusted
