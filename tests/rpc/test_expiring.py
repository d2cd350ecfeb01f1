"""Streams end with CREDENTIALS_EXPIRED when their callers' credentials expire; changes that were read have their results first."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from tests.access.signing import SECRET
from tests.stubs import AsyncStub, async_stub
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.access import Caller, Way
from topicpolicies_server.config import AuthenticationConfig, EmbeddedLogConfig, Limits, ServerConfig, TokenConfig, parse_address
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.rpc import expiring
from topicpolicies_server.rpc.call import Call, State
from topicpolicies_server.rpc.calls import UNREAD_SECONDS
from topicpolicies_server.rpc.expiring import Expiring
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC, Refusal
from .test_identifying import ALL_PERMITTED, bearer
from .watching import WatchReader

PATIENCE = 20.0
SOON = 1.5
"""Seconds for which tokens are valid here: their expiry is checked to a fraction of a second."""


@pytest.fixture
async def server(tmp_path: Path, limits: Limits) -> AsyncIterator[Server]:
    """Yields a server that authenticates tokens."""
    key = tmp_path / "secret.key"
    key.write_bytes(SECRET)
    authentication = AuthenticationConfig(token=TokenConfig(secret_key_file=key))
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
async def stub(server: Server) -> AsyncIterator[AsyncStub]:
    """Yields a stub of the service."""
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield async_stub(channel)


def reason(error: grpc.aio.AioRpcError) -> str:
    refusal = Refusal(error)
    assert refusal.code is grpc.StatusCode.UNAUTHENTICATED
    return str(refusal.info.reason)


async def test_a_watch_ends_when_its_token_expires_and_other_watches_stay_open(server: Server, stub: AsyncStub) -> None:
    expires_at = time.time() + SOON
    brief = WatchReader(stub, metadata=bearer(exp=expires_at), topics=[TOPIC])
    long = WatchReader(stub, metadata=bearer(), topics=[TOPIC])
    await brief.until_synced()
    await long.until_synced()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await brief.rest()
    assert reason(caught.value) == Reason.CREDENTIALS_EXPIRED
    assert time.time() >= expires_at
    update = service_pb2.UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=1))
    await stub.UpdatePolicy(update, metadata=bearer())
    assert (await long.change()).document.policies.max_producer_per_topic == 1
    long.cancel()


async def test_the_expiry_of_a_streams_credentials_is_not_watched_after_the_stream_has_ended(server: Server, stub: AsyncStub) -> None:
    (expiring_,) = (each for each in server.calls.observers if isinstance(each, Expiring))
    watch = WatchReader(stub, metadata=bearer(exp=time.time() + 3600), topics=[TOPIC])
    await watch.until_synced()
    assert len(expiring_) == 1
    await stub.GetPolicy(service_pb2.GetPolicyRequest(topic=TOPIC), metadata=bearer(exp=time.time() + 3600))
    watch.cancel()
    async with asyncio.timeout(PATIENCE):
        while len(expiring_):
            await stub.GetPolicy(service_pb2.GetPolicyRequest(topic=TOPIC), metadata=bearer())


class Peer:
    """A call whose credentials expire, and how it ends."""

    def __init__(self, expires_at: float) -> None:
        self.now = 0.0
        self.expiring = Expiring(lambda: self.now)
        self.ended_with: Reason | None = None
        self.task = asyncio.get_running_loop().create_task(self._run(expires_at))

    async def _run(self, expires_at: float) -> None:
        self.call = Call("WatchPolicies", None)
        self.call.caller = Caller("alice", Way.TOKEN, expires_at=expires_at)
        self.expiring(self.call)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            why = self.call.why_cancelled()
            self.ended_with = Reason(why.reason) if why is not None else None
        finally:
            self.expiring.ended(self.call)

    async def over(self) -> None:
        """Waits until the call has ended."""
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([self.task])


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the interval."""
    monkeypatch.setattr(expiring, "LOOK_SECONDS", 0.02)


async def test_a_stream_ends_if_the_clock_is_set_to_after_its_expiry() -> None:
    peer = Peer(1_000_000.0)
    await asyncio.sleep(0.1)
    assert not peer.task.done()
    peer.now = 1_000_000.0
    await peer.over()
    assert peer.ended_with is Reason.CREDENTIALS_EXPIRED and len(peer.expiring) == 0


async def test_a_stream_whose_peer_does_not_read_ends_without_a_status_after_a_while() -> None:
    peer = Peer(0.05)
    await asyncio.sleep(0)
    peer.call.goes_to(State.WRITING)
    peer.now = 1.0
    began = asyncio.get_running_loop().time()
    await peer.over()
    assert peer.ended_with is None, "a peer that does not read can't receive a status"
    assert asyncio.get_running_loop().time() >= began + UNREAD_SECONDS - 0.1


@pytest.mark.parametrize(("way", "what"), [(Way.TOKEN, "token"), (Way.CERTIFICATE, "client certificate")])
async def test_the_error_names_the_kind_of_credentials_that_have_expired(way: Way, what: str) -> None:
    call, ending = Call("WatchPolicies", None), Expiring(lambda: 2.0)
    call.caller = Caller("alice", way, expires_at=1.0)
    with pytest.raises(asyncio.CancelledError):
        ending(call)
        await asyncio.sleep(0)
    assert call.expired is not None and call.expired.message == f"The {what} has expired: call with a new one."
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()


async def test_streams_without_an_expiry_and_calls_with_one_answer_are_not_watched(server: Server) -> None:
    call = Call("WatchPolicies", None)
    ending = Expiring(lambda: 0.0)
    for method, expires_at in (("WatchPolicies", math.inf), ("GetPolicy", 1.0)):
        call.method, call.caller = method, Caller("alice", Way.TOKEN, expires_at=expires_at)
        ending(call)
    assert len(ending) == 0
