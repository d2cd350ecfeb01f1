"""Certificates, keys and certificate authorities that are replaced while a server runs."""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.broker.credentials import Authority, Identity, trusting
from tests.stubs import AsyncStub, async_stub
from topicpolicies.v1 import service_pb2 as pb
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.config import EmbeddedLogConfig, ServerConfig, TlsConfig, parse_address
from topicpolicies_server.rpc import listening
from topicpolicies_server.rpc.listening import read_pem
from topicpolicies_server.rpc.server import Server

TOPIC = "persistent://public/default/orders"
_SECONDS = 100


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


class Files:
    """The files of a server's TLS configuration."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.certificate, self.key, self.clients = folder / "server.pem", folder / "server.key", folder / "clients.pem"

    def put(self, identity: Identity) -> None:
        """Replaces the certificate and its key, one file after the other."""
        shutil.copyfile(identity.certificate, self.certificate)
        shutil.copyfile(identity.key, self.key)

    def tls(self, *, mutual: bool = False) -> TlsConfig:
        return TlsConfig(certificate_file=self.certificate, key_file=self.key, client_ca_file=self.clients if mutual else None)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "server")


def config(tls: TlsConfig) -> ServerConfig:
    return ServerConfig(log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"), tls=tls)


def serial_of(certificate: Path) -> str:
    decoder: Any = ssl._ssl  # type: ignore[attr-defined]  # Python has no other reader of certificates
    return str(decoder._test_decode_cert(str(certificate))["serialNumber"])


def shown(address: str, trust: Path) -> str:
    """Returns the serial number of the certificate that the server shows on a new connection."""
    context = trusting(trust)
    context.set_alpn_protocols(["h2"])
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=_SECONDS) as plain, context.wrap_socket(plain, server_hostname=host) as tls:
        found = tls.getpeercert()
        assert found is not None
        return str(found["serialNumber"])


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(_SECONDS):
        while not await holds():  # noqa: ASYNC110 (nothing signals it)
            await asyncio.sleep(0.05)


class Connection:
    """A client with a connection of its own."""

    def __init__(self, server: Server, trust: Path, identity: Identity | None = None) -> None:
        pair = (None, None) if identity is None else (identity.key.read_bytes(), identity.certificate.read_bytes())
        credentials = grpc.ssl_channel_credentials(trust.read_bytes(), *pair)
        self._channel = grpc.aio.secure_channel(server.address, credentials, options=[("grpc.use_local_subchannel_pool", 1)])

    async def __aenter__(self) -> AsyncStub:
        return async_stub(self._channel)

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()


def update(number: int) -> pb.UpdatePolicyRequest:
    return pb.UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=number))


@pytest.fixture
def tls_lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO)
    return lambda: [record.message for record in caplog.records if record.message.startswith("TLS of the server")]


@pytest.mark.slow
async def test_certificates_and_keys_are_replaced_under_load_without_a_failed_call(
    files: Files, authority: Authority, tls_lines: Callable[[], list[str]]
) -> None:
    identities = [authority.issue(f"server-{number}") for number in range(4)]
    files.put(identities[0])
    async with Server(config(files.tls())) as server:
        ended = asyncio.Event()

        async def calls(stub: AsyncStub) -> int:
            done = 0
            while not ended.is_set():
                await stub.UpdatePolicy(update(done))
                done += 1
            return done

        async def on_one_connection() -> int:
            async with Connection(server, authority.trust) as stub:
                return await calls(stub)

        async def on_new_connections() -> int:
            done = 0
            while not ended.is_set():
                async with Connection(server, authority.trust) as stub:
                    await stub.UpdatePolicy(update(done))
                done += 1
            return done

        async with Connection(server, authority.trust) as stub, asyncio.TaskGroup() as group:
            watch: Any = stub.WatchPolicies(pb.WatchPoliciesRequest(namespaces=["public/default"]))
            await watch.read()
            load = [group.create_task(each()) for each in (on_one_connection, on_new_connections, on_one_connection)]
            for count, identity in enumerate(identities[1:], 1):
                files.put(identity)
                if count % 2:
                    server.reloader.reload_now()
                serial = serial_of(identity.certificate)

                async def is_shown(serial: str = serial) -> bool:
                    return await asyncio.to_thread(shown, server.address, authority.trust) == serial

                await until(is_shown)
            ended.set()
            done = [await each for each in load]
            assert all(count > 5 for count in done), done
            last = await stub.UpdatePolicy(pb.UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_consumer_per_topic=7)))
            async with asyncio.timeout(_SECONDS):  # the stream is still open
                while True:
                    batch = await watch.read()
                    if any(event.change.document.version == last.document.version for event in batch.events):
                        break
    assert sum("and in force" in line for line in tls_lines()) == 3


async def test_after_the_authority_is_replaced_only_clients_of_the_new_one_can_connect(
    files: Files, authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other")
    old, new = authority.issue("old"), other.issue("new")
    files.put(authority.issue("server"))
    shutil.copyfile(authority.trust, files.clients)
    async with Server(config(files.tls(mutual=True))) as server:

        async def is_accepted(identity: Identity) -> bool:
            async with Connection(server, authority.trust, identity) as stub:
                try:
                    await stub.GetServerInfo(pb.GetServerInfoRequest(), timeout=_SECONDS)
                except grpc.aio.AioRpcError as error:
                    assert error.code() is grpc.StatusCode.UNAVAILABLE
                    return False
                return True

        async with Connection(server, authority.trust, old) as stub:
            await stub.GetServerInfo(pb.GetServerInfoRequest())
            assert (await is_accepted(old), await is_accepted(new)) == (True, False)
            shutil.copyfile(other.trust, files.clients)
            await until(lambda: is_accepted(new))
            assert not await is_accepted(old)


async def test_a_client_of_an_authority_that_was_removed_loses_its_open_connection_when_that_is_old(
    files: Files, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "CONNECTION_SECONDS", 2.0)
    monkeypatch.setattr(listening, "LAST_SECONDS", 1.0)
    other = Authority(tmp_path / "other")
    files.put(authority.issue("server"))
    shutil.copyfile(authority.trust, files.clients)
    async with Server(config(files.tls(mutual=True))) as server, Connection(server, authority.trust, authority.issue("old")) as stub:
        await stub.GetServerInfo(pb.GetServerInfoRequest())
        shutil.copyfile(other.trust, files.clients)
        async with asyncio.timeout(_SECONDS):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                async for _ in stub.WatchPolicies(pb.WatchPoliciesRequest(namespaces=["public/default"])):
                    pass
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE

        async def is_refused() -> bool:
            try:
                await stub.GetServerInfo(pb.GetServerInfoRequest(), timeout=_SECONDS)
            except grpc.aio.AioRpcError as error:
                return error.code() is grpc.StatusCode.UNAVAILABLE
            return False

        await until(is_refused)


async def test_a_key_that_does_not_match_leaves_the_old_pair_in_force_and_is_logged_once(
    files: Files, authority: Authority, tls_lines: Callable[[], list[str]]
) -> None:
    first, second = authority.issue("first"), authority.issue("second")
    files.put(first)
    async with Server(config(files.tls())) as server:
        shutil.copyfile(second.certificate, files.certificate)

        async def is_logged() -> bool:
            return bool(tls_lines())

        await until(is_logged)
        await asyncio.sleep(2.5)  # long enough to check the files more than twice
        assert await asyncio.to_thread(shown, server.address, authority.trust) == serial_of(first.certificate)
        (line,) = tls_lines()
        assert f"the key {files.key} does not belong to the certificate {files.certificate}" in line and "stays in force" in line
        shutil.copyfile(second.key, files.key)

        async def is_shown() -> bool:
            return await asyncio.to_thread(shown, server.address, authority.trust) == serial_of(second.certificate)

        await until(is_shown)
        assert len(tls_lines()) == 2 and "and in force" in tls_lines()[1]


@pytest.mark.parametrize("part", ["certificate", "key", "clients"])
@pytest.mark.parametrize("cut", [0, 10, 200])
def test_a_file_that_is_cut_off_is_refused(files: Files, authority: Authority, part: str, cut: int) -> None:
    files.put(authority.issue("server"))
    shutil.copyfile(authority.trust, files.clients)
    read_pem(files.tls(mutual=True))
    path: Path = getattr(files, part)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(OSError, match=str(path)) as caught:
        read_pem(files.tls(mutual=True))
    assert "BEGIN" not in str(caught.value)


@pytest.mark.parametrize("part", ["certificate", "clients"])
def test_a_chain_that_is_cut_off_is_refused(files: Files, authority: Authority, part: str) -> None:
    files.put(authority.issue("server"))
    shutil.copyfile(authority.trust, files.clients)
    path: Path = getattr(files, part)
    path.write_bytes(path.read_bytes() + authority.trust.read_bytes()[:-40])
    with pytest.raises(OSError, match=str(path)):
        read_pem(files.tls(mutual=True))


async def test_a_server_whose_key_does_not_match_its_certificate_does_not_start(files: Files, authority: Authority) -> None:
    files.put(authority.issue("server"))
    shutil.copyfile(authority.issue("other").key, files.key)
    with pytest.raises(OSError, match="does not belong to the certificate"):
        async with Server(config(files.tls())):
            pass
