"""Calls whose requests do not arrive: strangers can't send any, and nobody keeps others from being served with them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.access.signing import SECRET, token
from tests.stubs import async_stub
from topicpolicies.v1.service_pb2 import GetPolicyRequest, GetServerInfoRequest
from topicpolicies_server.config import (
    AuthenticationConfig,
    AuthorizationConfig,
    EmbeddedLogConfig,
    Limits,
    ServerConfig,
    TokenConfig,
    parse_address,
)
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.rpc import arriving, listening
from topicpolicies_server.rpc.arriving import Arriving
from topicpolicies_server.rpc.call import Call
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC, Refusal

METHODS = ("GetServerInfo", "GetPolicy", "UpdatePolicy", "WatchPolicies")
SERVICE = "/topicpolicies.v1.TopicPoliciesService/"
MOST = 16
PLACES = 2 * MOST
PATIENCE = 20.0


@pytest.fixture
def limits() -> Limits:
    """Few calls."""
    return replace(Limits(), max_concurrent_calls=MOST)


@pytest.fixture
def log_path() -> None:
    """In memory: what is tested here is above the log."""
    return


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arriving, "LOOK_SECONDS", 0.02)


async def never() -> AsyncIterator[bytes]:
    """A request that does not come."""
    await asyncio.Event().wait()
    yield b""


def begun(channel: grpc.aio.Channel, method: str = SERVICE + "GetServerInfo", metadata: Any = (), timeout: float | None = None) -> Any:
    """A call of which only the metadata is sent."""
    to_call: Any = channel.stream_stream(method)
    made: Any = to_call(never(), metadata=metadata, timeout=timeout)
    return made


async def waiting(server: Server, count: int) -> None:
    """Returns once so many calls wait for their requests."""
    while len(server.calls.arriving) != count:  # noqa: ASYNC110 (nobody tells)
        await asyncio.sleep(0.01)


def authenticating(folder: Path, limits: Limits) -> ServerConfig:
    """A server that wants tokens."""
    key = folder / "secret.key"
    key.write_bytes(SECRET)
    return ServerConfig(
        log=EmbeddedLogConfig(path=None),
        listen=parse_address("127.0.0.1:0"),
        limits=limits,
        authentication=AuthenticationConfig(token=TokenConfig(secret_key_file=key)),
        authorization=AuthorizationConfig(allow_authenticated=True),
    )


async def served(channel: grpc.aio.Channel) -> None:
    """Returns once a call is served, and so is a check of the health."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await async_stub(channel).GetServerInfo(GetServerInfoRequest())
                await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                await asyncio.sleep(0.02)
            else:
                return


async def test_calls_whose_requests_do_not_come_keep_nobody_from_being_served(server: Server) -> None:
    async with grpc.aio.insecure_channel(server.address) as stuck, grpc.aio.insecure_channel(server.address, [("x", 1)]) as channel:
        calls = [begun(stuck) for _ in range(PLACES + 8)]
        given_up: list[Any] = []
        async with asyncio.timeout(PATIENCE):
            while len(given_up) < PLACES - MOST // 2 or len(server.calls.arriving) > MOST // 2:
                await asyncio.sleep(0.02)
                over = [call for call in calls if call.done()]
                assert {await call.code() for call in over} <= {grpc.StatusCode.RESOURCE_EXHAUSTED}
                given_up = [call for call in over if str(await call.details()).startswith("The request of this call did not arrive")]
        await served(channel)
        for call in calls:
            call.cancel()


@pytest.mark.parametrize("method", METHODS)
async def test_a_call_whose_request_does_not_come_ends_with_a_reason(server: Server, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setattr(arriving, "LAST", 3)
    async with grpc.aio.insecure_channel(server.address) as channel:
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await begun(channel, SERVICE + method).__aiter__().__anext__()
        refusal = Refusal(caught.value)
        assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_REACHED")
        assert len(server.calls.arriving) == 0


class Ended:
    """Notes the calls that end."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def ended(self, call: Call) -> None:
        """Notes a call."""
        self.calls.append(call)


@pytest.mark.parametrize("how", ["it cancels", "its connection is lost", "its deadline passes"])
async def test_a_caller_that_goes_before_its_request_has_come_is_not_taken_for_one_without_a_request(server: Server, how: str) -> None:
    ended = Ended()
    server.calls.observers = (*server.calls.observers, ended)
    async with grpc.aio.insecure_channel(server.address) as channel, asyncio.timeout(PATIENCE):
        timeout = 0.5 if how == "its deadline passes" else None
        calls = [begun(channel, SERVICE + method, timeout=timeout) for method in METHODS for _ in range(2)]
        await waiting(server, len(calls))
        if how == "it cancels":
            for call in calls:
                call.cancel()
        elif how == "its connection is lost":
            await channel.close()
        await waiting(server, 0)
        await asyncio.sleep(0.1)
    assert [(call.method, call.error) for call in ended.calls] == []


async def test_a_server_that_stops_tells_calls_whose_requests_have_not_come(server: Server) -> None:
    async with grpc.aio.insecure_channel(server.address) as channel, asyncio.timeout(PATIENCE):
        calls = [begun(channel, SERVICE + method).__aiter__() for method in METHODS]
        await waiting(server, len(calls))
        began = asyncio.get_running_loop().time()
        await server.stop()
        assert asyncio.get_running_loop().time() - began < 1.0, "they do not delay it"
        for call in calls:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call.__anext__()
            assert Refusal(caught.value).info.reason == "SHUTTING_DOWN"


async def test_a_call_without_a_request_is_told_so(server: Server) -> None:
    async def nothing() -> AsyncIterator[bytes]:
        for none in list[bytes]():
            yield none

    async with grpc.aio.insecure_channel(server.address) as channel, asyncio.timeout(PATIENCE):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            method: Any = channel.stream_unary(SERVICE + "GetPolicy")
            await method(nothing())
    assert Refusal(caught.value).violations == {"": "MALFORMED_MESSAGE"}


@pytest.mark.parametrize(
    ("method", "shown"),
    [
        *((SERVICE + method, shown) for method in METHODS for shown in ("", "Bearer nonsense", "Basic abc")),
        ("/grpc.health.v1.Health/Check", "Bearer nonsense"),
    ],
)
async def test_of_whom_the_server_does_not_know_it_takes_no_request(tmp_path: Path, limits: Limits, method: str, shown: str) -> None:
    async with Server(authenticating(tmp_path, limits)) as server, grpc.aio.insecure_channel(server.address) as channel:
        metadata = (("authorization", shown),) if shown else ()
        async with asyncio.timeout(PATIENCE):
            code = await begun(channel, method, metadata).code()  # though nothing of a request was sent
        assert code is grpc.StatusCode.UNAUTHENTICATED
        known = (("authorization", f"Bearer {token(sub='alice')}"),)
        waits = begun(channel, SERVICE + "GetPolicy", known)
        async with asyncio.timeout(PATIENCE):
            while not len(server.calls.arriving):  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0.01)
        waits.cancel()
        answer = await async_stub(channel).GetPolicy(GetPolicyRequest(topic=TOPIC), metadata=known)
        assert answer.version


async def test_callers_that_call_again_as_soon_as_they_are_given_up_keep_no_places(server: Server) -> None:
    async with grpc.aio.insecure_channel(server.address) as stuck, grpc.aio.insecure_channel(server.address, [("x", 1)]) as channel:

        async def calls_again() -> None:
            while True:
                await begun(stuck).code()

        outcomes = Counter[grpc.StatusCode]()
        callers = [asyncio.create_task(calls_again()) for _ in range(2 * PLACES)]
        async with asyncio.timeout(PATIENCE):
            while len(server.calls.arriving) < MOST:  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0.01)
            for _ in range(20):
                for call in (
                    health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest()),
                    async_stub(channel).GetServerInfo(GetServerInfoRequest()),
                ):
                    outcomes[await call.code()] += 1
                assert len(server.calls.arriving) <= MOST
        # A call that comes while very many end at once may be refused by gRPC, which has as many places as there are callers.
        assert outcomes[grpc.StatusCode.OK] >= 30 and outcomes.keys() <= {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
        for caller in callers:
            caller.cancel()
        await asyncio.wait(callers)


async def test_few_health_checks_of_strangers_wait_for_their_requests_and_none_for_long(
    tmp_path: Path, limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arriving, "LOOK_SECONDS", 0.3)
    monkeypatch.setattr(arriving, "STRANGERS", 4)
    check = "/grpc.health.v1.Health/Check"
    known = (("authorization", f"Bearer {token(sub='alice')}"),)
    async with Server(authenticating(tmp_path, limits)) as server, grpc.aio.insecure_channel(server.address) as channel:
        async with asyncio.timeout(PATIENCE):
            patient = begun(channel, SERVICE + "GetPolicy", known)
            await waiting(server, 1)
            strangers = [begun(channel, check) for _ in range(10)]
            await waiting(server, 1 + 4)
            await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            for stranger in strangers:
                assert await stranger.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert len(server.calls.arriving) == 1 and not patient.done(), "few wait: who is known has time"
        patient.cancel()


class Sending:
    """gRPC's context of a call whose request comes when it is told."""

    def __init__(self) -> None:
        self.request: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def read(self) -> bytes:
        return await self.request


async def test_a_process_that_is_busy_gives_up_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arriving, "_ON_TIME_SECONDS", -1.0)  # no look is on time
    calls = Arriving(asyncio.get_running_loop(), MOST)
    contexts = [Sending() for _ in range(MOST)]
    reading = [asyncio.create_task(calls.read(each)) for each in contexts]
    await asyncio.sleep(0.3)
    for each in contexts:
        each.request.set_result(b"a")
    assert await asyncio.gather(*reading) == [b"a"] * MOST


async def test_while_requests_of_later_calls_arrive_those_that_do_not_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arriving, "_ON_TIME_SECONDS", -1.0)
    calls = Arriving(asyncio.get_running_loop(), MOST)
    reading = [asyncio.create_task(calls.read(Sending())) for _ in range(MOST - 1)]
    await asyncio.sleep(0)
    assert len(calls) == MOST - 1
    async with asyncio.timeout(PATIENCE):
        while len(calls) > MOST // 2:
            sending = Sending()
            sending.request.set_result(b"a")
            assert await asyncio.create_task(calls.read(sending)) == b"a"
            await asyncio.sleep(0.005)
    done, left = await asyncio.wait(reading, timeout=0.1)
    assert len(done) == MOST - 1 - MOST // 2
    for each in done:
        error = each.exception()
        assert isinstance(error, PolicyError)
        assert (error.kind, error.reason) == (Kind.RESOURCE_EXHAUSTED, Reason.LIMIT_REACHED)
    for each in left:
        each.cancel()
    await asyncio.wait(left)
    assert len(calls) == 0


async def test_for_a_call_too_many_the_one_that_came_first_is_given_up() -> None:
    calls = Arriving(asyncio.get_running_loop(), MOST)
    contexts = [Sending() for _ in range(MOST + 3)]
    reading = [asyncio.create_task(calls.read(each)) for each in contexts]
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(calls) == MOST
    for context in contexts[3:]:
        context.request.set_result(b"a")
    found = await asyncio.gather(*reading, return_exceptions=True)
    assert found[3:] == [b"a"] * MOST
    assert all(isinstance(each, PolicyError) and each.reason is Reason.LIMIT_REACHED for each in found[:3])


@pytest.mark.parametrize("said", [b"", b"PRI * HTTP/2.0\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
async def test_a_peer_that_makes_no_connection_is_hung_up_on(limits: Limits, monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    monkeypatch.setattr(listening, "HANDSHAKE_SECONDS", 0.5)
    config = ServerConfig(log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"), limits=limits)
    async with Server(config) as server:
        host, _, port = server.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(said)
        async with asyncio.timeout(PATIENCE):
            while await reader.read(1_000):
                pass
        writer.close()
