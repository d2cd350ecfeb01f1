"""What gRPC's own retries, as ``clients/service_config.json`` has them, make of refusals."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from topicpolicies.errors import from_rpc_error
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.rpc import errors
from topicpolicies_server.rpc.calls import Call

_SERVICE = "topicpolicies.v1.TopicPoliciesService"
_CONFIG = Path(__file__).parents[2] / "clients" / "service_config.json"
LOST = LogError(Reason.LOG_UNAVAILABLE, "Nothing was done.")


class Refusing(grpc.GenericRpcHandler):
    """A server that refuses every attempt."""

    def __init__(self, error: PolicyError) -> None:
        self.error = error
        self.attempts: list[float] = []

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        """Returns the handler of every method."""
        method = handler_call_details.method

        async def handle(_: bytes, context: Any) -> bytes:
            self.attempts.append(time.monotonic())
            await Call(method.rpartition("/")[2], context).fail(self.error)
            return b""

        return grpc.unary_unary_rpc_method_handler(handle)


@pytest_asyncio.fixture
async def channel() -> AsyncIterator[tuple[Refusing, grpc.aio.Channel]]:
    """A server that refuses calls, and a channel to it with the service config."""
    refusing, server = Refusing(LOST), grpc.aio.server()
    server.add_generic_rpc_handlers((refusing,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    options = [("grpc.service_config", _CONFIG.read_text())]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as made:
        yield refusing, made
    await server.stop(None)


async def refused(channel: grpc.aio.Channel, method: str) -> PolicyError:
    """Makes a call, and returns what its last attempt was refused with."""
    attempt: Any = channel.unary_unary(f"/{_SERVICE}/{method}")
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await attempt(b"", timeout=20)
    error = errors.received(from_rpc_error(refusal.value))
    assert error is not None and refusal.value.code().name == error.kind.value
    return error


async def test_a_read_is_repeated_and_refused_with_its_reason(channel: tuple[Refusing, grpc.aio.Channel]) -> None:
    server, caller = channel
    assert (await refused(caller, "GetPolicy")).reason is Reason.LOG_UNAVAILABLE
    assert len(server.attempts) == 5


@pytest.mark.parametrize("method", ["UpdatePolicy", "DeletePolicy", "BatchUpdatePolicies"])
async def test_the_second_refusal_of_a_change_does_not_say_that_nothing_happened(
    channel: tuple[Refusing, grpc.aio.Channel], method: str
) -> None:
    server, caller = channel
    error = await refused(caller, method)
    assert (error.kind, error.reason) == (Kind.DEADLINE_EXCEEDED, Reason.OUTCOME_UNKNOWN)
    assert len(server.attempts) == 2


async def test_a_refusal_says_when_it_may_be_repeated(channel: tuple[Refusing, grpc.aio.Channel]) -> None:
    server, caller = channel
    server.error = PolicyError(Kind.UNAVAILABLE, Reason.AUTHORIZATION_UNKNOWN, "Later.", retry_seconds=0.6)
    assert (await refused(caller, "ListPolicies")).retry_seconds == 0.6
    pauses = [later - earlier for earlier, later in zip(server.attempts, server.attempts[1:], strict=False)]
    assert len(pauses) == 4 and min(pauses) >= 0.59, "the first pause of gRPC itself would have at most 0.12 s"


async def test_a_change_that_was_refused_for_good_is_not_repeated(channel: tuple[Refusing, grpc.aio.Channel]) -> None:
    server, caller = channel
    server.error = PolicyError(Kind.ABORTED, Reason.CONTENTION, "Again.")
    assert (await refused(caller, "UpdatePolicy")).reason is Reason.CONTENTION
    assert len(server.attempts) == 1
