"""Connections that fail because of TLS: the error names the cause and the option that helps, and not gRPC's own message."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from tests.cli.conftest import Terminal
from tests.client.certificates import Authority


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The addresses of a server: without TLS, and with a certificate for another name."""
    identity = Authority(tmp_path, "ours").identity("elsewhere")
    server = grpc.server(ThreadPoolExecutor(1))
    credentials = grpc.ssl_server_credentials([(identity.key.read_bytes(), identity.certificate.read_bytes())])
    ports = {"plain": server.add_insecure_port("127.0.0.1:0"), "tls": server.add_secure_port("127.0.0.1:0", credentials)}
    server.start()
    yield {kind: f"127.0.0.1:{port}" for kind, port in ports.items()}
    server.stop(None).wait()


@pytest.mark.parametrize(
    ("kind", "authority", "options", "message"),
    [
        ("tls", "others", (), "is not trusted: no authority that this client knows has signed its certificate. Say --tls-ca FILE."),
        ("tls", "ours", (), "is for another name. Say --tls-server-name NAME if that is intended."),
        ("tls", "", ("--no-tls",), "closed the connection at once: it may require TLS (--tls), or it is not a gRPC server."),
        ("plain", "", ("--tls",), "does not use TLS. Say --no-tls if the network to it is safe."),
    ],
    ids=["another authority", "another name", "no TLS at a server with it", "TLS at a server without it"],
)
def test_a_connection_that_fails_because_of_tls_is_reported_with_the_cause_and_the_option_that_helps(
    terminal: Terminal, listening: dict[str, str], tmp_path: Path, kind: str, authority: str, options: tuple[str, ...], message: str
) -> None:
    if authority:
        certificate = tmp_path / f"{authority}.pem"
        if not certificate.exists():
            Authority(tmp_path, authority)
        options = ("--tls-ca", str(certificate))
    result = terminal.run("info", "--server", listening[kind], "--timeout", "20", *options)
    assert result.exit_code == 5
    assert result.stderr.startswith("Error: The ") and listening[kind] in result.stderr
    assert result.stderr.endswith(f"{message}\n")


@pytest.mark.parametrize("kept", ["no certificate", ""], ids=["not PEM", "another key"])
def test_tls_files_that_can_not_be_used_are_told(terminal: Terminal, listening: dict[str, str], tmp_path: Path, kept: str) -> None:
    options: tuple[str, ...] = ("--tls-ca", str(tmp_path / "ours.pem"))
    if kept:
        (tmp_path / "ours.pem").write_text(kept)
    else:
        one, other = (Authority(tmp_path, name).identity(name) for name in ("one", "other"))
        options = (*options, "--tls-certificate", str(one.certificate), "--tls-key", str(other.key))
    result = terminal.run("info", "--server", listening["tls"], "--timeout", "20", *options)
    assert result.exit_code == 5
    assert result.stderr.startswith("Error: The files of the TLS options can't be used: ")
