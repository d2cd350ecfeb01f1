"""Clients whose certificate authority is no longer trusted are refused, even on open connections; other clients are not affected."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.access.test_trust import make, with_umlauts
from tests.broker.credentials import Authority, Identity
from tests.rpc.conftest import TOPIC, Refusal
from tests.stubs import async_stub, batch
from topicpolicies.v1 import service_pb2 as pb
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.access.trust import Trust
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.rpc import trusting
from topicpolicies_server.rpc.server import Server

from .test_certificates import Files, config, until
from .watching import WatchReader

PATIENCE = 20.0
LOADS, ROTATIONS = 3, 2


def update(number: int) -> pb.UpdatePolicyRequest:
    """Returns a change."""
    return pb.UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=number % 100))


class TrustFiles:
    """The files of a server that accepts only clients of the certificate authorities in one of them."""

    def __init__(self, folder: Path) -> None:
        self.authorities = {name: Authority(folder / name, name) for name in ("first", "second")}
        self.files = Files(folder / "server")
        self.trust = self.authorities["first"].trust
        """The authority of the server's own certificate, which clients trust."""
        self.files.put(self.authorities["first"].issue("server"))
        self.set_to("first")

    def set_to(self, *names: str) -> None:
        """Replaces the file of trusted authorities by these."""
        self.files.clients.write_bytes(b"".join(self.authorities[name].trust.read_bytes() for name in names))

    def identity(self, authority: str, name: str) -> Identity:
        """Issues a client certificate of an authority."""
        return self.authorities[authority].issue(name)


@pytest.fixture
def trusted(tmp_path: Path) -> TrustFiles:
    return TrustFiles(tmp_path)


@pytest.fixture
async def server(trusted: TrustFiles) -> AsyncIterator[Server]:
    async with Server(config(trusted.files.tls(mutual=True))) as running:
        yield running


@asynccontextmanager
async def connected(server: Server, trusted: TrustFiles, identity: Identity) -> AsyncIterator[grpc.aio.Channel]:
    """Opens a connection of its own with a client certificate."""
    pair = identity.key.read_bytes(), identity.certificate.read_bytes()
    credentials = grpc.ssl_channel_credentials(trusted.trust.read_bytes(), *pair)
    async with grpc.aio.secure_channel(server.address, credentials, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        yield channel


async def refusal(call: Any) -> Refusal:
    """Returns why a call, or a stream that is read to its end, is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async with asyncio.timeout(PATIENCE):
            if inspect.isawaitable(call):
                await call
            else:
                while await call.read() is not grpc.aio.EOF:
                    pass
    return Refusal(caught.value)


def is_untrusted(found: Refusal) -> bool:
    """Returns whether a refusal says that the authority is not trusted any more."""
    return (
        found.info.reason == Reason.CREDENTIALS_INVALID and found.code is grpc.StatusCode.UNAUTHENTICATED and "authority" in found.message
    )


async def test_when_an_authority_is_removed_its_clients_are_refused_on_open_connections_and_their_streams_end(
    trusted: TrustFiles, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trusting, "_TURN", 2)  # fewer than there are streams
    trusted.set_to("first", "second")
    server.reloader.reload_now()
    async with AsyncExitStack() as stack:
        old = await stack.enter_async_context(connected(server, trusted, trusted.identity("first", "old")))
        new = await stack.enter_async_context(await made(server, trusted))
        watches = [WatchReader(async_stub(old), topics=[TOPIC]) for _ in range(3)]
        kept = [WatchReader(async_stub(new), topics=[TOPIC]) for _ in range(3)]
        for each in (*watches, *kept):
            await each.until_synced()
        health: Any = health_pb2_grpc.HealthStub(old).Watch(health_pb2.HealthCheckRequest())
        assert (await health.read()).status == health_pb2.HealthCheckResponse.SERVING
        await async_stub(old).UpdatePolicy(update(1))
        await asyncio.gather(*(each.change() for each in (*watches, *kept)))

        trusted.set_to("second")  # without ``reload_now``: the server checks its files by itself

        assert all([is_untrusted(await refusal(rest(each))) for each in watches])
        assert is_untrusted(await refusal(health))
        stub = async_stub(old)
        for call in (
            stub.GetServerInfo(pb.GetServerInfoRequest()),
            stub.UpdatePolicy(update(7)),
            stub.BatchUpdatePolicies(batch(update(7))),
        ):
            assert is_untrusted(await refusal(call))
        assert is_untrusted(await refusal(health_pb2_grpc.HealthStub(old).Check(health_pb2.HealthCheckRequest())))
        answer = await async_stub(new).UpdatePolicy(update(9))
        assert answer.document.policies.max_producer_per_topic == 9
        for each in kept:
            assert (await each.change()).document.policies.max_producer_per_topic == 9, "a refused change was made"
            each.cancel()

        trusted.set_to("first", "second")  # a client that is trusted again is served on the same connection

        async def again() -> bool:
            try:
                await stub.GetServerInfo(pb.GetServerInfoRequest())
            except grpc.aio.AioRpcError as error:
                assert is_untrusted(Refusal(error))
                return False
            return True

        await until(again)


async def test_other_certificates_in_a_clients_chain_do_not_keep_streams_of_a_removed_authority_open(
    trusted: TrustFiles, server: Server
) -> None:
    trusted.set_to("first", "second")
    await in_force(server)
    strange = trusted.identity("first", "strange")
    behoerde = make("Bxhxrde", key=ed25519.Ed25519PrivateKey.generate())
    strange.certificate.write_bytes(strange.certificate.read_bytes() + with_umlauts(behoerde, behoerde).pem)
    async with (
        connected(server, trusted, strange) as first,
        connected(server, trusted, trusted.identity("first", "plain")) as second,
        await made(server, trusted) as new,
    ):
        leaving, kept = (
            [WatchReader(async_stub(each), topics=[TOPIC]) for each in (first, second)],
            WatchReader(async_stub(new), topics=[TOPIC]),
        )
        for watch in (*leaving, kept):
            await watch.until_synced()
        trusted.set_to("second")
        assert all([is_untrusted(await refusal(rest(each))) for each in leaving])
        for channel in (first, second):
            assert is_untrusted(await refusal(async_stub(channel).GetServerInfo(pb.GetServerInfoRequest())))
        await async_stub(new).UpdatePolicy(update(9))
        assert (await kept.change()).document.policies.max_producer_per_topic == 9
        kept.cancel()


async def test_a_stream_whose_check_fails_ends_and_the_streams_behind_it_are_checked_too(
    trusted: TrustFiles, server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Trust):
        """Fails at the first check."""

        asked = 0

        def holds(self, certificate: bytes, beside: bytes) -> bool:
            """Raises at the first call, and then checks as its base does."""
            Broken.asked += 1
            if Broken.asked == 1:
                raise RuntimeError("unexpected")
            return super().holds(certificate, beside)

    monkeypatch.setattr(trusting, "Trust", Broken)
    async with connected(server, trusted, trusted.identity("first", "old")) as channel:
        watches = [WatchReader(async_stub(channel), topics=[TOPIC]) for _ in range(2)]
        for watch in watches:
            await watch.until_synced()
        trusted.set_to("second")
        assert all([is_untrusted(await refusal(rest(each))) for each in watches])
    assert caplog.text.count("Checking the authority of an open stream failed: RuntimeError") == 1


async def rest(watch: WatchReader) -> None:
    """Reads a watch to its end."""
    await watch.rest()


async def made(server: Server, trusted: TrustFiles) -> Any:
    """Returns a connection with a certificate of the second authority, once that is trusted."""
    identity = trusted.identity("second", "new")

    async def is_accepted() -> bool:
        async with connected(server, trusted, identity) as channel:
            try:
                await async_stub(channel).GetServerInfo(pb.GetServerInfoRequest(), timeout=PATIENCE)
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAVAILABLE
                return False
            return True

    await until(is_accepted)
    return connected(server, trusted, identity)


async def test_authorities_are_replaced_under_load_without_a_failed_call(trusted: TrustFiles, server: Server) -> None:
    shown, done, ended = trusted.identity("first", "client-0"), [0] * LOADS, False

    async def load(which: int) -> None:
        """Makes calls: load 0 with a new connection for each call, the others with one connection until the certificate is replaced."""
        while not ended:
            identity = shown
            async with connected(server, trusted, identity) as channel:
                while identity is shown and not ended:
                    await async_stub(channel).UpdatePolicy(update(done[which]))
                    done[which] += 1
                    if not which:
                        break

    async def turn() -> None:
        """Waits until each load has made two more calls, so that all calls with an older certificate are over."""
        goal = [count + 2 for count in done]

        async def reached() -> bool:
            return all(count >= wanted for count, wanted in zip(done, goal, strict=True))

        await until(reached)

    refused = 0
    async with asyncio.TaskGroup() as group:
        for which in range(LOADS):
            group.create_task(load(which))
        await turn()
        for number in range(1, ROTATIONS + 1):
            former, next_ = ("first", "second") if number % 2 else ("second", "first")
            leaving = shown
            async with connected(server, trusted, leaving) as channel:
                await async_stub(channel).GetServerInfo(pb.GetServerInfoRequest())
                trusted.set_to(former, next_)
                await in_force(server)
                shown = trusted.identity(next_, f"client-{number}")
                await turn()
                trusted.set_to(next_)
                await in_force(server)
                await turn()
                assert is_untrusted(await refusal(async_stub(channel).GetServerInfo(pb.GetServerInfoRequest())))
                refused += 1
        ended = True
    assert refused == ROTATIONS and all(count >= 4 * ROTATIONS for count in done), done


async def in_force(server: Server) -> None:
    """Waits until the present content of the files is in force."""
    (source,) = (each for each in server.reloader._sources if each.name == "TLS of the server")
    server.reloader.reload_now()

    async def holds() -> bool:
        return bool(source.present == await asyncio.to_thread(source.read))

    await until(holds)
