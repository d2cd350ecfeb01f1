"""How clients connect: by default without TLS to this machine and with TLS to others, and only to servers that they trust."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

import topicpolicies as tp
from tests.client.certificates import Authority
from topicpolicies.addresses import is_local
from topicpolicies.channels import credentials_for
from topicpolicies_server.config import EmbeddedLogConfig, ServerConfig, TlsConfig, parse_address
from topicpolicies_server.rpc.server import Server

TOPIC = "persistent://public/default/orders"


@pytest.mark.parametrize(
    "target",
    [
        "localhost:6680",
        "localhost",
        "127.0.0.1:1",
        "127.8.8.8:1",
        "[::1]:1",
        "::1",
        "unix:/run/s",
        "unix-abstract:s",
        "dns:localhost:1",
        "dns:///localhost:1",
        "ipv4:127.0.0.1:1,127.0.0.2:1",
    ],
)
def test_a_target_on_this_machine_is_connected_to_without_tls_by_default(target: str) -> None:
    assert is_local(target)
    assert credentials_for(target, None) is None
    assert credentials_for(target, False) is None
    assert credentials_for(target, True) is not None


@pytest.mark.parametrize(
    "target",
    [
        "policies:6680",
        "10.0.0.1:1",
        "[2001:db8::1]:1",
        "dns:///policies:1",
        "0.0.0.0:1",
        "localhost.example.org:1",
        "ipv4:127.0.0.1:1,10.0.0.1:1",
    ],
)
def test_a_target_on_another_machine_is_connected_to_with_tls_by_default(target: str) -> None:
    assert not is_local(target)
    assert credentials_for(target, None) is not None
    assert credentials_for(target, False) is None


def config(server: Authority, *, clients: Authority | None = None) -> ServerConfig:
    identity = server.identity("policies.test")
    tls = TlsConfig(
        certificate_file=identity.certificate, key_file=identity.key, client_ca_file=clients.certificate if clients is not None else None
    )
    return ServerConfig(log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"), tls=tls)


def test_calls_to_this_machine_do_not_go_through_a_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        for variable in ("no_proxy", "no_grpc_proxy"):
            monkeypatch.delenv(variable, raising=False)
        for host in ("localhost", "127.0.0.1"):
            target = f"{host}:{server.getsockname()[1]}"
            with tp.Client(target, token="secret", timeout=0.5) as client, pytest.raises(tp.TopicPoliciesError):
                client.get(TOPIC)
            server.settimeout(5)
            server.accept()[0].close()
        proxy.setblocking(False)
        with pytest.raises(BlockingIOError):
            proxy.accept()


async def test_a_client_calls_only_a_server_whose_certificate_it_trusts(tmp_path: Path) -> None:
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    async with Server(config(ours)) as server:
        trusting = tp.Tls(ca_file=ours.certificate, server_name="policies.test")
        async with tp.AsyncClient(server.address, tls=trusting) as client:
            assert (await client.update(TOPIC, max_producer_per_topic=1)).outcome == tp.CHANGE_OUTCOME_APPLIED

        def synchronous() -> tp.PolicyDocument:
            with tp.Client(server.address, tls=trusting) as client:
                return client.get(TOPIC)

        assert (await asyncio.to_thread(synchronous)).HasField("policies")
        for wrong in (
            tp.Tls(ca_file=others.certificate, server_name="policies.test"),
            tp.Tls(ca_file=ours.certificate, server_name="somebody.else"),
            False,
        ):
            async with tp.AsyncClient(server.address, tls=wrong, timeout=10.0) as client:
                with pytest.raises(tp.Unavailable):
                    await client.get(TOPIC)


async def test_a_server_serves_only_clients_whose_certificate_it_trusts(tmp_path: Path) -> None:
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    known, unknown = ours.identity("known"), others.identity("unknown")
    async with Server(config(ours, clients=ours)) as server:

        def tls(certificate: Path | None, key: Path | None) -> tp.Tls:
            return tp.Tls(ca_file=ours.certificate, certificate_file=certificate, key_file=key, server_name="policies.test")

        async with tp.AsyncClient(server.address, tls=tls(known.certificate, known.key)) as client:
            assert not (await client.get(TOPIC)).HasField("policies")
        for certificate, key in ((None, None), (unknown.certificate, unknown.key)):
            async with tp.AsyncClient(server.address, tls=tls(certificate, key), timeout=10.0) as client:
                with pytest.raises(tp.Unavailable):
                    await client.get(TOPIC)
