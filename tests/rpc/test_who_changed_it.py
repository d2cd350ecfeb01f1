"""The actor of a change in the history and in watches: the verified principal, and separately what the caller only claims."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from tests.access.signing import SECRET
from tests.stubs import AsyncStub, async_stub
from topicpolicies.v1 import events_pb2, history_pb2, service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.config import (
    AuthenticationConfig,
    AuthorizationConfig,
    CheckpointsConfig,
    EmbeddedLogConfig,
    HistoryConfig,
    ServerConfig,
    TokenConfig,
    parse_address,
)
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC
from .test_identifying import bearer
from .watching import WatchReader

UNKNOWN, CLAIMED, VERIFIED = (
    events_pb2.ACTOR_STANDING_UNKNOWN,
    events_pb2.ACTOR_STANDING_UNAUTHENTICATED,
    events_pb2.ACTOR_STANDING_AUTHENTICATED,
)
GATEWAY = (*bearer(sub="gateway"), ("topicpolicies-original-principal", "bob"))
Metadata = tuple[tuple[str, str], ...]
Actor = tuple[str, int, str, str]


@pytest.fixture
def asked() -> bool:
    """Returns whether the server authenticates its callers."""
    return True


@pytest.fixture
def configuration(tmp_path: Path, asked: bool) -> ServerConfig:
    """Returns the configuration of a server with a history; ``gateway`` is a proxy."""
    key = tmp_path / "secret.key"
    key.write_bytes(SECRET)
    authentication = AuthenticationConfig(token=TokenConfig(secret_key_file=key), proxy_roles=("gateway",))
    return ServerConfig(
        log=EmbeddedLogConfig(path=tmp_path / "policies.db"),
        history=HistoryConfig(path=tmp_path / "history.db"),
        checkpoints=CheckpointsConfig(path=tmp_path / "checkpoints"),
        listen=parse_address("127.0.0.1:0"),
        authentication=authentication if asked else AuthenticationConfig(),
        authorization=AuthorizationConfig(allow_authenticated=asked),
    )


@pytest.fixture
async def server(configuration: ServerConfig) -> AsyncIterator[Server]:
    """Yields a running server."""
    async with Server(configuration) as running:
        yield running


@pytest.fixture
async def stub(server: Server) -> AsyncIterator[AsyncStub]:
    """Yields a stub of the service."""
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield async_stub(channel)


async def update(stub: AsyncStub, value: int, metadata: Metadata, actor: str = "") -> str:
    request = service_pb2.UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=value), actor=actor)
    return (await stub.UpdatePolicy(request, metadata=metadata)).document.version


def actor_of(origin: events_pb2.ChangeOrigin) -> Actor:
    return origin.actor, origin.actor_standing, origin.principal, origin.claimed_actor


async def history(stub: AsyncStub, metadata: Metadata, **question: str) -> list[Actor]:
    request = history_pb2.ListHistoryRequest(topic=TOPIC, oldest_first=True, **question)  # type: ignore[arg-type]
    return [actor_of(each.origin) for each in (await stub.ListHistory(request, metadata=metadata)).entries]


async def history_of(stub: AsyncStub, entries: int) -> list[Actor]:
    """Returns the history, once it has so many entries."""
    deadline = time.monotonic() + 20
    while len(answered := await history(stub, bearer())) < entries:
        assert time.monotonic() < deadline, answered
        await asyncio.sleep(0.01)
    return answered


async def test_the_history_has_the_verified_principal_and_what_the_caller_claimed(stub: AsyncStub) -> None:
    await update(stub, 1, bearer(sub="alice"))
    await update(stub, 2, bearer(sub="alice"), actor="ceo")
    await update(stub, 3, bearer(sub="alice"), actor="ceo")
    await update(stub, 4, bearer(sub="alice"), actor="alice")
    await update(stub, 5, GATEWAY, actor="robert")
    await stub.DeletePolicy(service_pb2.DeletePolicyRequest(topic=TOPIC, actor="ceo"), metadata=bearer(sub="alice"))
    alice = ("alice", VERIFIED, "alice", "")
    ceo = ("alice", VERIFIED, "alice", "ceo")
    tombstone = ("", UNKNOWN, "", "")  # written by the server itself, some time after the deletion
    answered = await history_of(stub, 7)
    assert answered == [alice, ceo, ceo, alice, ("bob", VERIFIED, "gateway", "robert"), ceo, tombstone]
    assert len(await history(stub, bearer(), actor="alice")) == 5, "the history is not filtered by the verified actor"
    assert await history(stub, bearer(), actor="ceo") == [], "the history is filtered by the claimed actor"


async def test_a_watch_has_the_verified_principal_and_what_the_caller_claimed(stub: AsyncStub) -> None:
    await update(stub, 1, GATEWAY, actor="robert")
    for mode in (service_pb2.WATCH_MODE_LATEST, service_pb2.WATCH_MODE_EVERY):
        watch = WatchReader(stub, metadata=bearer(), topics=[TOPIC], mode=mode)
        await watch.until_synced()
        await update(stub, 10 + mode, bearer(sub="alice"), actor="ceo")
        assert actor_of((await watch.change()).origin) == ("alice", VERIFIED, "alice", "ceo")
        watch.cancel()


async def test_the_changes_of_a_batch_have_the_principal_of_the_call(stub: AsyncStub) -> None:
    change = service_pb2.UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=1), actor="carol")
    batch = service_pb2.BatchUpdatePoliciesRequest(changes=[service_pb2.PolicyChangeRequest(update=change)])
    await stub.BatchUpdatePolicies(batch, metadata=GATEWAY)
    assert await history(stub, bearer()) == [("bob", VERIFIED, "gateway", "carol")]


@pytest.mark.parametrize("asked", [False])
async def test_without_authentication_the_actor_is_only_claimed(stub: AsyncStub) -> None:
    await update(stub, 1, bearer(sub="alice"), actor="ceo")
    await update(stub, 2, GATEWAY)
    assert await history(stub, ()) == [("ceo", CLAIMED, "", ""), ("", UNKNOWN, "", "")]


async def test_after_a_restart_the_history_and_watches_have_the_same_actor(configuration: ServerConfig) -> None:
    for restarted in (False, True):
        async with Server(configuration) as server, grpc.aio.insecure_channel(server.address) as channel:
            if not restarted:
                await update(async_stub(channel), 1, GATEWAY, actor="robert")
            assert await history(async_stub(channel), bearer()) == [("bob", VERIFIED, "gateway", "robert")]
            watch = WatchReader(async_stub(channel), metadata=bearer(), topics=[TOPIC])
            assert actor_of((await watch.change()).origin) == ("bob", VERIFIED, "gateway", "robert")
            watch.cancel()
