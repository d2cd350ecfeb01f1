"""Bytes that are not a message, messages that are too large, and unexpected failures: each gets a status with a reason."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest

from tests.stubs import batch
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import (
    DESCRIPTOR,
    BatchUpdatePoliciesResponse,
    UpdatePolicyRequest,
)
from topicpolicies_server.config import Limits
from topicpolicies_server.rpc.server import POLICIES, Server

from .conftest import TOPIC, Refusal

PATIENCE = 100.0
HEALTH, REFLECTION = "/grpc.health.v1.Health", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
SERVICE = POLICIES.full_name
UNARY = [f"/{SERVICE}/{name}" for name in ("UpdatePolicy", "DeletePolicy", "GetPolicy", "GetEffectivePolicy", "ListPolicies")]
STREAMING = [f"/{SERVICE}/WatchPolicies", f"{HEALTH}/Watch"]
INFO, BATCH = f"/{SERVICE}/GetServerInfo", f"/{SERVICE}/BatchUpdatePolicies"


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    """Yields a channel that can send very large messages."""
    async with grpc.aio.insecure_channel(server.address, options=[("grpc.max_send_message_length", 256 << 20)]) as opened:
        yield opened


@pytest.fixture
def log_lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Returns a function that returns the lines of the log that operators see, with tracebacks."""
    caplog.set_level(logging.INFO)
    return lambda: "\n".join(map(caplog.handler.format, caplog.records)).splitlines()


async def unary(channel: Any, path: str, raw: bytes) -> Refusal:
    """Sends bytes to a method with one answer, and returns the refusal."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary(path)(raw, timeout=PATIENCE)
    return Refusal(caught.value)


async def streaming(channel: Any, path: str, raw: bytes) -> Refusal:
    """Sends bytes to a method with a stream of answers, and returns the refusal."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async for _ in channel.unary_stream(path)(raw, timeout=PATIENCE):
            pass
    return Refusal(caught.value)


async def test_reflection_refuses_bytes_that_are_not_a_message_in_the_same_way(
    channel: grpc.aio.Channel, log_lines: Callable[[], list[str]]
) -> None:
    call: Any = channel.stream_stream(REFLECTION)(timeout=PATIENCE)
    await call.write(b"\xff")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        while await call.read() is not grpc.aio.EOF:
            pass
    refusal = Refusal(caught.value)
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
    assert log_lines() == []


def change(value: int, topic: str = TOPIC) -> UpdatePolicyRequest:
    """Returns a valid change."""
    return UpdatePolicyRequest(topic=topic, policies=TopicPolicies(max_producer_per_topic=value))


async def test_fields_of_a_newer_batch_have_no_meaning(channel: Any) -> None:
    newer = b"\x12\x01x\x1d\x00\x00\x00\x00\x21\x00\x00\x00\x00\x00\x00\x00\x00\x28\x01"
    """Fields 2 to 5, of all wire types."""
    raw = newer + b"".join(batch(change(value)).SerializeToString() + newer for value in (2, 4))
    results = BatchUpdatePoliciesResponse.FromString(await channel.unary_unary(BATCH)(raw, timeout=PATIENCE)).results
    assert [result.WhichOneof("result") for result in results] == ["success", "success"]


@pytest.mark.parametrize("times", [1, 3])
async def test_a_message_that_is_too_large_is_refused_with_the_name_of_the_limit(
    channel: grpc.aio.Channel, log_lines: Callable[[], list[str]], limits: Limits, times: int
) -> None:
    raw = b"\x0a" * (times * limits.max_message_bytes + 1)
    refusals = [await unary(channel, path, raw) for path in [*UNARY, INFO, BATCH]]
    refusals.append(await streaming(channel, STREAMING[0], raw))
    for refusal in refusals:
        assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE")
        assert dict(refusal.info.metadata) == {"most_bytes": str(limits.max_message_bytes)}
        assert "max_message_bytes" in refusal.message and f"{limits.max_message_bytes:,}" in refusal.message
    assert log_lines() == []


async def test_a_message_of_exactly_the_largest_size_is_read(channel: grpc.aio.Channel, limits: Limits) -> None:
    refusal = await unary(channel, UNARY[2], b"\x0a" * limits.max_message_bytes)
    assert refusal.violations == {"": "MALFORMED_MESSAGE"}, "the message was not read"


async def test_a_message_far_beyond_the_limit_is_refused_by_grpc_itself(channel: grpc.aio.Channel, limits: Limits) -> None:
    refusal = await unary(channel, UNARY[0], bytes(5 * limits.max_message_bytes))
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, ""), "the server was not asked"


METHODS = {
    "UpdatePolicy": "requests.read_change",
    "DeletePolicy": "requests.read_change",
    "GetPolicy": "reads.Problems",
    "GetEffectivePolicy": "reads.Problems",
    "ListPolicies": "reads.Problems",
    "GetServerInfo": "server.info",
    "WatchPolicies": "watching.policy_part.read_watch",
    "BatchUpdatePolicies": "changes.ChangeBatch",
}


class UnforeseenError(Exception):
    """A failure that the server does not expect."""


@pytest.mark.parametrize("method", METHODS)
async def test_an_unexpected_failure_ends_the_call_as_internal_and_its_traceback_is_logged(
    server: Server, channel: grpc.aio.Channel, method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:

    def fail(*_: object, **__: object) -> Any:
        raise UnforeseenError(method)

    monkeypatch.setattr(f"topicpolicies_server.rpc.{METHODS[method]}", fail)
    path = f"/{SERVICE}/{method}"
    refusal = await (streaming if method == "WatchPolicies" else unary)(channel, path, b"")
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert method in caplog.text and "UnforeseenError" in caplog.text and caplog.records[0].exc_info is not None


def test_the_tables_of_these_tests_have_every_method(server: Server) -> None:
    described = DESCRIPTOR.services_by_name["TopicPoliciesService"].methods_by_name
    assert {f"/{SERVICE}/{name}" for name in described} == {*UNARY, INFO, BATCH, STREAMING[0]}
    assert set(METHODS) == set(described)
