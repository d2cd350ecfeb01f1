"""Authentication by tokens over the wire, for every method of every service."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2_grpc

from tests.access.signing import SECRET, token
from tests.stubs import AsyncStub, async_stub
from topicpolicies.v1 import history_pb2, service_pb2
from topicpolicies_server.access import Caller, Way
from topicpolicies_server.config import (
    AuthenticationConfig,
    AuthorizationConfig,
    EmbeddedLogConfig,
    Limits,
    ServerConfig,
    TokenConfig,
    parse_address,
)
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.rpc.calls import Call
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC, Refusal

PATIENCE = 20.0
Metadata = tuple[tuple[str, str], ...]
ALL_PERMITTED = AuthorizationConfig(allow_authenticated=True)
"""Every authenticated caller has every permission."""
UNAUTHENTICATED, DENIED = grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED


class Noting:
    """An observer that records which caller made which call."""

    def __init__(self) -> None:
        self.callers: list[tuple[str, Caller]] = []
        self.over = asyncio.Event()

    def ended(self, call: Call) -> None:
        """Records the end of a call."""
        self.callers.append((call.method, call.caller))
        self.over.set()


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """Returns the file of the secret key with which the brokers verify tokens."""
    path = tmp_path / "secret.key"
    path.write_bytes(SECRET)
    return path


@pytest.fixture
async def server(key: Path, limits: Limits) -> AsyncIterator[Server]:
    """Yields a server that authenticates tokens; ``gateway`` is a proxy."""
    authentication = AuthenticationConfig(token=TokenConfig(secret_key_file=key), proxy_roles=("gateway",))
    config = ServerConfig(
        log=EmbeddedLogConfig(path=None),
        listen=parse_address("127.0.0.1:0"),
        limits=limits,
        authentication=authentication,
        authorization=ALL_PERMITTED,
    )
    async with Server(config) as running:
        yield running


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    """Yields a channel to the server."""
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield channel


def bearer(**claims: object) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token(**claims)}"),)  # type: ignore[arg-type]


def replace(file: Path, content: bytes) -> None:
    """Replaces a file by another one."""
    other = file.with_name("new")
    other.write_bytes(content)
    other.rename(file)


Ask = Callable[[AsyncStub, tuple[tuple[str, str], ...]], Awaitable[object]]


EVERY: dict[str, Ask] = {
    "GetServerInfo": lambda stub, metadata: stub.GetServerInfo(service_pb2.GetServerInfoRequest(), metadata=metadata),
    "GetPolicy": lambda stub, metadata: stub.GetPolicy(service_pb2.GetPolicyRequest(topic=TOPIC), metadata=metadata),
    "GetEffectivePolicy": lambda stub, metadata: stub.GetEffectivePolicy(
        service_pb2.GetEffectivePolicyRequest(topic=TOPIC), metadata=metadata
    ),
    "UpdatePolicy": lambda stub, metadata: stub.UpdatePolicy(service_pb2.UpdatePolicyRequest(topic=TOPIC), metadata=metadata),
    "DeletePolicy": lambda stub, metadata: stub.DeletePolicy(service_pb2.DeletePolicyRequest(topic=TOPIC), metadata=metadata),
    "ListPolicies": lambda stub, metadata: stub.ListPolicies(
        service_pb2.ListPoliciesRequest(namespace="public/default"), metadata=metadata
    ),
    "ListHistory": lambda stub, metadata: stub.ListHistory(history_pb2.ListHistoryRequest(topic=TOPIC), metadata=metadata),
    "GetPolicyAsOf": lambda stub, metadata: stub.GetPolicyAsOf(history_pb2.GetPolicyAsOfRequest(topic=TOPIC), metadata=metadata),
    "WatchHistory": lambda stub, metadata: stub.WatchHistory(
        history_pb2.WatchHistoryRequest(namespaces=["public/default"]), metadata=metadata
    ).read(),
    "WatchPolicies": lambda stub, metadata: stub.WatchPolicies(service_pb2.WatchPoliciesRequest(topics=[TOPIC]), metadata=metadata).read(),
    "BatchUpdatePolicies": lambda stub, metadata: stub.BatchUpdatePolicies(service_pb2.BatchUpdatePoliciesRequest(), metadata=metadata),
}


def test_the_table_of_calls_has_every_method() -> None:
    services = (
        service_pb2.DESCRIPTOR.services_by_name["TopicPoliciesService"],
        history_pb2.DESCRIPTOR.services_by_name["PolicyHistoryService"],
    )
    assert set(EVERY) == {each.name for service in services for each in service.methods}


@pytest.mark.parametrize("method", EVERY)
async def test_every_method_refuses_missing_forged_expired_early_and_repeated_credentials(channel: grpc.aio.Channel, method: str) -> None:
    now = time.time()
    for metadata, reason in [
        ((), Reason.CREDENTIALS_MISSING),
        (bearer(key=bytes(32)), Reason.CREDENTIALS_INVALID),
        (bearer(exp=now - 1), Reason.CREDENTIALS_EXPIRED),
        (bearer(nbf=now + 3600), Reason.CREDENTIALS_INVALID),
        ((*bearer(), *bearer()), Reason.CREDENTIALS_INVALID),
    ]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await EVERY[method](async_stub(channel), metadata)
        refusal = Refusal(caught.value)
        assert (refusal.code, refusal.info.reason) == (UNAUTHENTICATED, reason)


@pytest.mark.parametrize("method", EVERY)
async def test_the_caller_of_every_method_is_identified_by_its_token(server: Server, channel: grpc.aio.Channel, method: str) -> None:
    noting = Noting()
    server.calls.observers = (noting,)
    try:
        await EVERY[method](async_stub(channel), bearer())
    except grpc.aio.AioRpcError as error:
        assert error.code() is not UNAUTHENTICATED  # the request itself may be refused
    await channel.close()
    async with asyncio.timeout(PATIENCE):
        await noting.over.wait()
    assert noting.callers == [(method, Caller("alice", Way.TOKEN))]


async def test_health_is_open_to_callers_without_credentials_and_reflection_is_not(channel: grpc.aio.Channel) -> None:
    health = health_pb2_grpc.HealthStub(channel)
    assert (await health.Check(health_pb2.HealthCheckRequest())).status == health_pb2.HealthCheckResponse.SERVING
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await health.Check(health_pb2.HealthCheckRequest(), metadata=bearer(key=bytes(32)))
    assert caught.value.code() is UNAUTHENTICATED
    asking = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo()  # a message may come too late to be sent
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asking.read()
    assert caught.value.code() is UNAUTHENTICATED


async def test_only_a_proxy_may_name_an_original_principal_and_it_must(server: Server, channel: grpc.aio.Channel) -> None:
    stub, ask = async_stub(channel), EVERY["GetPolicy"]
    noting = Noting()
    server.calls.observers = (noting,)
    original = (("topicpolicies-original-principal", "bob"),)
    await ask(stub, (*bearer(sub="gateway"), *original))
    assert noting.callers == [("GetPolicy", Caller("gateway", Way.TOKEN, "bob"))]
    for metadata, reason in [
        (bearer(sub="gateway"), Reason.PROXY_REFUSED),
        ((*bearer(), *original), Reason.PROXY_REFUSED),
        ((*bearer(sub="gateway"), *original, *original), Reason.CREDENTIALS_INVALID),
    ]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await ask(stub, metadata)
        refusal = Refusal(caught.value)
        assert refusal.info.reason == reason
        assert refusal.code is (UNAUTHENTICATED if reason is Reason.CREDENTIALS_INVALID else DENIED)


@pytest.fixture
def short(key: Path) -> Path:
    """Returns the file of a key that is too short."""
    key.write_bytes(b"short")
    return key


async def test_a_server_with_an_unusable_key_file_does_not_start(short: Path) -> None:
    authentication = AuthenticationConfig(token=TokenConfig(secret_key_file=short))
    config = ServerConfig(
        log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"), authentication=authentication, authorization=ALL_PERMITTED
    )
    with pytest.raises(PolicyError) as caught:
        await Server(config).start()
    assert caught.value.reason is Reason.AUTHORIZATION_UNKNOWN
    assert str(short) in caught.value.message and "5 bytes" in caught.value.message


async def test_a_replaced_key_file_takes_effect_without_a_restart_and_tokens_of_the_old_key_are_refused(
    server: Server, channel: grpc.aio.Channel, key: Path
) -> None:
    stub, ask = async_stub(channel), EVERY["GetPolicy"]
    await ask(stub, bearer())
    replace(key, bytes(32))
    server.reloader.reload_now()
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await ask(stub, bearer(key=bytes(32)))
            except grpc.aio.AioRpcError as error:
                assert Refusal(error).info.reason == Reason.CREDENTIALS_INVALID
                await asyncio.sleep(0.01)
            else:
                break
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ask(stub, bearer())
    assert Refusal(caught.value).info.reason == Reason.CREDENTIALS_INVALID, "a token that was accepted before still is"


async def test_after_a_key_file_becomes_unusable_the_last_key_stays_in_force(server: Server, channel: grpc.aio.Channel, key: Path) -> None:
    stub, ask = async_stub(channel), EVERY["GetPolicy"]
    replace(key, b"short")
    server.reloader.reload_now()
    async with asyncio.timeout(PATIENCE):
        while not server.reloader.problems:
            await ask(stub, bearer())
            await asyncio.sleep(0.01)
    assert "5 bytes" in server.reloader.problems["token secret key"]
    await ask(stub, bearer())
