"""A peer that disconnects while the server writes to it is no failure: nothing is logged, and its call counts as given up."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from grpc.aio import InternalError

from topicpolicies.v1.service_pb2 import GetPolicyRequest, WatchPoliciesRequest
from topicpolicies_server.config import EmbeddedLogConfig, ServerConfig, parse_address
from topicpolicies_server.rpc import listening
from topicpolicies_server.rpc.calls import Call
from topicpolicies_server.rpc.server import POLICIES, Server

WATCH = WatchPoliciesRequest(namespaces=["public/default"]).SerializeToString()
WRONG = WatchPoliciesRequest(namespaces=["wrong"]).SerializeToString()


class Gone:
    """gRPC's context of a call whose peer has gone, before gRPC has said so: what is written fails."""

    def invocation_metadata(self) -> tuple[()]:
        return ()

    def time_remaining(self) -> None:
        return None

    async def write(self, _answer: object) -> None:
        raise InternalError("Failed to execute a batch")

    async def abort(self, *_: object) -> None:
        raise InternalError("Failed to execute a batch")


@dataclass
class Details:
    """What gRPC passes to a handler before a call begins."""

    method: str
    invocation_metadata: Any = ()


class Ended:
    """An observer that records the calls that have ended."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def ended(self, call: Call) -> None:
        """Records the end of a call."""
        self.calls.append(call)


def method_of(server: Server, name: str) -> Any:
    """Returns a method's handler, as gRPC calls it."""
    handler: Any = server.services()[0].service(Details(f"/{POLICIES.full_name}/{name}"))
    return handler.unary_unary or handler.unary_stream


@pytest.mark.parametrize(
    ("name", "request_", "refused"),
    [
        ("WatchPolicies", WATCH, False),
        ("WatchPolicies", WRONG, True),
        ("GetPolicy", b"\xff", True),
        ("GetPolicy", GetPolicyRequest(topic="wrong").SerializeToString(), True),
    ],
)
async def test_a_call_whose_peer_disconnects_while_it_is_written_to_is_given_up_without_a_failure(
    server: Server, caplog: pytest.LogCaptureFixture, name: str, request_: Any, refused: bool
) -> None:
    caplog.set_level(logging.WARNING)
    ended = Ended()
    server.calls.observers = (*server.calls.observers, ended.ended)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.create_task(method_of(server, name)(request_, Gone())), 20)
    (call,) = ended.calls
    assert call.given_up
    assert (call.error is not None) == refused
    if call.error is not None:
        assert call.error.kind.name == grpc.StatusCode.INVALID_ARGUMENT.name
    assert [record.getMessage() for record in caplog.records] == []
    assert len(server.calls) == 0


@pytest.mark.parametrize("said", [b"", b"PRI * HTTP/2.0\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
async def test_a_peer_that_makes_no_connection_is_hung_up_on(monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    monkeypatch.setattr(listening, "HANDSHAKE_SECONDS", 0.5)
    async with Server(ServerConfig(log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"))) as server:
        host, _, port = server.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(said)
        async with asyncio.timeout(100):
            while await reader.read(1_000):
                pass
        writer.close()
