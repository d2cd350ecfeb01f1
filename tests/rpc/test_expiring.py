"""Streams end with CREDENTIALS_EXPIRED when their callers' credentials expire."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from tests.access.signing import SECRET, token
from tests.stubs import AsyncStub
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.access import Caller, Way
from topicpolicies_server.access.caller import expired
from topicpolicies_server.config import (
    AuthenticationConfig,
    AuthorizationConfig,
    EmbeddedLogConfig,
    Limits,
    ServerConfig,
    TokenConfig,
    parse_address,
)
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.rpc import calls
from topicpolicies_server.rpc.calls import LAST_SECONDS, Call
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC, Refusal
from .watching import WatchReader

PATIENCE = 100.0
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
        authorization=AuthorizationConfig(allow_authenticated=True),
    )
    async with Server(config) as running:
        yield running


def bearer(**claims: object) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token(**claims)}"),)  # type: ignore[arg-type]


def reason(error: grpc.aio.AioRpcError) -> str:
    refusal = Refusal(error)
    assert refusal.code is grpc.StatusCode.UNAUTHENTICATED
    return str(refusal.info.reason)


async def test_a_watch_ends_when_its_token_expires_and_other_watches_stay_open(server: Server, stub: AsyncStub) -> None:
    expires_at = math.ceil(time.time() + SOON)
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


async def test_a_stream_ends_if_the_clock_is_set_to_after_its_expiry(monkeypatch: pytest.MonkeyPatch) -> None:
    class Context:
        def invocation_metadata(self) -> tuple[()]:
            """Returns no metadata."""
            return ()

        async def write(self, _: object) -> None:
            """Returns at once."""

    async def stream() -> None:
        call = Call("WatchPolicies", Context())
        call.caller = Caller("alice", Way.CERTIFICATE, expires_at=time.time() + 3600)
        call.ends_with_credentials()
        while True:
            await call.write(b"")
            await asyncio.sleep(0.01)

    monkeypatch.setattr(calls, "_CLOCK_SECONDS", 0.02)
    task, real = asyncio.create_task(stream()), time.time
    await asyncio.sleep(0.1)
    assert not task.done()
    monkeypatch.setattr(time, "time", lambda: real() + 3601)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_stream_whose_peer_does_not_read_ends_without_a_status_after_a_while() -> None:
    class Context:
        def invocation_metadata(self) -> tuple[()]:
            """Returns no metadata."""
            return ()

        async def write(self, _: object) -> None:
            """Never returns."""
            await asyncio.Event().wait()

    async def stream() -> None:
        call = Call("WatchPolicies", Context())
        asyncio.get_running_loop().call_later(0.1, call.end, expired())
        try:
            await call.write(b"")
        except asyncio.CancelledError as error:
            await call.fail(error)

    began = time.monotonic()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(stream())
    assert time.monotonic() >= began + LAST_SECONDS
