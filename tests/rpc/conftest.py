"""A server on a free loopback port, and a client's stub for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status

from tests.rpc.slow import Slow
from tests.stubs import AsyncStub, async_stub
from topicpolicies_server.config import EmbeddedLogConfig, Limits, ServerConfig, parse_address
from topicpolicies_server.rpc import server as servers
from topicpolicies_server.rpc.server import Server

TOPIC = "persistent://public/default/orders"


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    """Replaces what grants permissions in a test's servers, and is returned to the test."""
    made = Slow()

    monkeypatch.setattr(servers, "open_roles", lambda *_: made.granted)
    return made


@pytest.fixture
def limits() -> Limits:
    """Returns the limits of the server; tests override this fixture."""
    return replace(Limits(), bookmark_interval_seconds=1.0, drain_seconds=2.0)


@pytest.fixture
async def server(limits: Limits) -> AsyncIterator[Server]:
    """Yields a running server, whose log is in memory."""
    config = ServerConfig(log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"), limits=limits)
    async with Server(config) as running:
        yield running


@pytest.fixture
async def stub(server: Server) -> AsyncIterator[AsyncStub]:
    """Yields a stub of the service, on a channel of its own."""
    options = [("grpc.max_send_message_length", 64 << 20)]
    async with grpc.aio.insecure_channel(server.address, options=options) as channel:
        yield async_stub(channel)


class Refusal:
    """The parts of an error that a client receives: code, message, ``ErrorInfo``, and the violations by field."""

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        self.code = error.code()
        self.message = error.details() or ""
        self.info = ErrorInfo()
        self.violations: dict[str, str] = {}
        raw = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
        if raw is None:
            return
        status = Status.FromString(raw if isinstance(raw, bytes) else raw.encode())
        for detail in status.details:
            detail.Unpack(self.info)
            bad = BadRequest()
            if detail.Unpack(bad):
                self.violations |= {each.field: each.reason for each in bad.field_violations}


async def refused(call: Awaitable[Message]) -> Refusal:
    """Awaits a call that must fail, and returns its error."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return Refusal(caught.value)
