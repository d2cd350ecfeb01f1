"""Bytes that are not a message, messages that are too large, and unexpected failures: each gets a status with a reason."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo

from tests.stubs import AsyncStub
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import (
    DESCRIPTOR,
    GetPolicyRequest,
    PolicyChangeRequest,
    PolicyChangeResult,
    UpdatePoliciesRequest,
    UpdatePoliciesResponse,
    UpdatePolicyRequest,
)
from topicpolicies_server.config import Limits
from topicpolicies_server.core.policies.documents import record
from topicpolicies_server.namespaces.deadlines import Deadlines
from topicpolicies_server.rpc import servicer as servicer_module
from topicpolicies_server.rpc.decoding import _salvaged
from topicpolicies_server.rpc.server import Server
from topicpolicies_server.rpc.servicer import SERVICE, Servicer

from .conftest import TOPIC, Refusal

PATIENCE = 20.0
NO_UTF_8 = b"\x0a\x02\xff\xfe"
"""A text that is not UTF-8 as the first field, which the request of GetServerInfo does not have."""
GARBAGE = [b"\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x05ab", NO_UTF_8, b"\x07" * 200]
HEALTH, REFLECTION = "/grpc.health.v1.Health", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
UNARY = [
    f"/{SERVICE}/{name}" for name in ("UpdatePolicy", "DeletePolicy", "GetPolicy", "GetEffectivePolicy", "ListHistory", "ListPolicies")
]
STREAMING = [f"/{SERVICE}/WatchPolicies", f"{HEALTH}/Watch"]
INFO, UPDATES = f"/{SERVICE}/GetServerInfo", f"/{SERVICE}/UpdatePolicies"


@pytest.fixture
def log_path() -> None:
    """Overrides the shared fixture: the log is in memory, because these tests do not concern it."""
    return


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


@pytest.mark.parametrize("raw", GARBAGE)
async def test_bytes_that_are_not_a_message_are_refused_and_not_logged(
    channel: grpc.aio.Channel, log_lines: Callable[[], list[str]], raw: bytes
) -> None:
    with_fields = [*UNARY, f"{HEALTH}/Check"]
    refusals = [await unary(channel, path, raw) for path in (with_fields if raw == NO_UTF_8 else [*with_fields, INFO])]
    refusals += [await streaming(channel, path, raw) for path in STREAMING]
    for refusal in refusals:
        assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED_MESSAGE")
        assert refusal.info.domain == "topicpolicies"
    assert log_lines() == []


async def test_reflection_refuses_bytes_that_are_not_a_message_in_the_same_way(
    channel: grpc.aio.Channel, log_lines: Callable[[], list[str]]
) -> None:
    call: Any = channel.stream_stream(REFLECTION)(timeout=PATIENCE)
    await call.write(b"\xff")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        while await call.read() is not grpc.aio.EOF:
            pass
    refusal = Refusal(caught.value)
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED_MESSAGE")
    assert log_lines() == []


class Updates:
    """An update stream to which bytes are written."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.call: Any = channel.stream_stream(UPDATES)(timeout=PATIENCE)
        self._results: list[PolicyChangeResult] = []

    async def results(self, count: int) -> list[PolicyChangeResult]:
        """Returns the next so many results, sorted by their sequences."""
        while len(self._results) < count:
            self._results += UpdatePoliciesResponse.FromString(await self.call.read()).results
        taken, self._results = self._results[:count], self._results[count:]
        return sorted(taken, key=lambda result: result.sequence)


def change(sequence: int, topic: str = TOPIC) -> PolicyChangeRequest:
    """Returns a valid change."""
    update = UpdatePolicyRequest(topic=topic, policies=TopicPolicies(max_producer_per_topic=sequence))
    return PolicyChangeRequest(sequence=sequence, update=update)


def reason(result: PolicyChangeResult) -> str:
    """Returns why a change was refused."""
    refusal = grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert result.error.code == refusal, result
    info = ErrorInfo()
    assert result.error.details[0].Unpack(info)
    return str(info.reason)


@pytest.mark.parametrize("raw", GARBAGE)
async def test_an_update_stream_stays_open_after_bytes_that_are_not_a_message(
    channel: grpc.aio.Channel, log_lines: Callable[[], list[str]], raw: bytes
) -> None:
    updates = Updates(channel)
    await updates.call.write(raw)
    (failed,) = await updates.results(1)
    assert (failed.sequence, reason(failed)) == (0, "MALFORMED_MESSAGE")
    await updates.call.write(UpdatePoliciesRequest(changes=[change(7)]).SerializeToString())
    (made,) = await updates.results(1)
    assert (made.sequence, made.WhichOneof("result")) == (7, "updated")
    await updates.call.done_writing()
    assert await updates.call.read() is grpc.aio.EOF
    assert log_lines() == []


async def test_of_a_batch_the_decodable_changes_are_made_and_the_others_are_refused_by_their_sequences(
    channel: grpc.aio.Channel, stub: AsyncStub
) -> None:
    updates = Updates(channel)
    damaged = change(3, "persistent://public/default/\x01\x01").SerializeToString().replace(b"\x01\x01", b"\xff\xfe")  # not UTF-8
    records = [change(2).SerializeToString(), damaged, change(4).SerializeToString()]
    await updates.call.write(b"".join(b"\x0a" + bytes([len(each)]) + each for each in records))
    first, second, third = await updates.results(3)
    assert [result.sequence for result in (first, second, third)] == [2, 3, 4]
    assert [result.WhichOneof("result") for result in (first, second, third)] == ["updated", "error", "updated"]
    assert reason(second) == "MALFORMED_MESSAGE"
    await updates.call.write(b"".join(b"\x0a" + bytes([len(each)]) + each for each in records[:1]) + b"\x0a\x7f\x08")
    torn, made = await updates.results(2)
    assert (torn.sequence, reason(torn), made.sequence) == (0, "MALFORMED_MESSAGE", 2), "the undecodable rest of a batch is one result"
    await updates.call.done_writing()
    assert await updates.call.read() is grpc.aio.EOF
    assert (await stub.GetPolicy(GetPolicyRequest(topic=TOPIC))).documents[0].policies.max_producer_per_topic == 2


async def test_the_order_of_the_fields_of_a_damaged_change_and_fields_of_a_newer_batch_have_no_meaning(channel: grpc.aio.Channel) -> None:
    updates = Updates(channel)
    newer = b"\x12\x01x\x1d\x00\x00\x00\x00\x21\x00\x00\x00\x00\x00\x00\x00\x00\x28\x01"
    """Fields 2 to 5, of all wire types."""
    damaged = b"\x12\x03\x0a\x01\xff" + b"\x08\x03"  # an update whose topic is not UTF-8, and then the sequence
    records = [change(2).SerializeToString(), damaged, change(4).SerializeToString()]
    await updates.call.write(newer + b"".join(b"\x0a" + bytes([len(each)]) + each + newer for each in records))
    results = await updates.results(3)
    assert [(result.sequence, result.WhichOneof("result")) for result in results] == [(2, "updated"), (3, "error"), (4, "updated")]
    assert reason(results[1]) == "MALFORMED_MESSAGE"


@pytest.mark.parametrize("field", [b"\x28\x00", b"\x12\x00"])
def test_of_a_damaged_batch_or_change_only_the_first_fields_are_looked_at(field: bytes) -> None:
    flood = field * 1_000_000
    change = flood + b"\x08\x03\xff"
    began = time.thread_time()
    assert [each.sequence for each in _salvaged(flood + b"\xff")] == [0]
    assert [each.sequence for each in _salvaged(record(1, change))] == [0]
    assert time.thread_time() - began < 0.2


async def test_a_damaged_batch_with_too_many_records_ends_the_stream(channel: grpc.aio.Channel, limits: Limits) -> None:
    updates = Updates(channel)
    await updates.call.write(b"\x0a\x01\xff" * (limits.max_message_bytes // 3))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await updates.call.read()
    assert (Refusal(caught.value).code, Refusal(caught.value).info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "TOO_MANY_ELEMENTS")


@pytest.mark.parametrize("method", ["GetServerInfo", "WatchPolicies", "UpdatePolicies"])
async def test_a_call_that_meets_a_cancelled_task_ends_with_internal(
    server: Server, channel: grpc.aio.Channel, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancelled(*_: object, **__: object) -> Any:
        raise asyncio.CancelledError

    name = {"GetServerInfo": "_info", "WatchPolicies": "read_watch", "UpdatePolicies": "UpdateStream"}[method]
    monkeypatch.setattr(server._servicer if name == "_info" else servicer_module, name, cancelled)
    path = f"/{SERVICE}/{method}"
    if method == "UpdatePolicies":
        call: Any = channel.stream_stream(path)(timeout=PATIENCE)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        refusal = Refusal(caught.value)
    else:
        refusal = await (streaming if method == "WatchPolicies" else unary)(channel, path, b"")
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")


@pytest.mark.parametrize("times", [1, 3])
async def test_a_message_that_is_too_large_is_refused_with_the_name_of_the_limit(
    channel: grpc.aio.Channel, log_lines: Callable[[], list[str]], limits: Limits, times: int
) -> None:
    raw = b"\x0a" * (times * limits.max_message_bytes + 1)
    refusals = [await unary(channel, path, raw) for path in [*UNARY, INFO]]
    refusals.append(await streaming(channel, STREAMING[0], raw))
    call: Any = channel.stream_stream(UPDATES)(timeout=PATIENCE)
    await call.write(raw)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    for refusal in [*refusals, Refusal(caught.value)]:
        assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE")
        assert dict(refusal.info.metadata) == {"most_bytes": str(limits.max_message_bytes)}
        assert "max_message_bytes" in refusal.message and f"{limits.max_message_bytes:,}" in refusal.message
    assert log_lines() == []


async def test_a_message_of_exactly_the_largest_size_is_read(channel: grpc.aio.Channel, limits: Limits) -> None:
    refusal = await unary(channel, UNARY[2], b"\x0a" * limits.max_message_bytes)
    assert refusal.info.reason == "MALFORMED_MESSAGE", "the message was not read"


async def test_a_message_far_beyond_the_limit_is_refused_by_grpc_itself(channel: grpc.aio.Channel, limits: Limits) -> None:
    refusal = await unary(channel, UNARY[0], bytes(5 * limits.max_message_bytes))
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, ""), "the server was not asked"


METHODS = {
    "UpdatePolicy": "requests.read_update",
    "DeletePolicy": "requests.read_delete",
    "GetPolicy": "requests.read_get",
    "GetEffectivePolicy": "effective.read",
    "ListHistory": "histories.read_query",
    "ListPolicies": "requests.read_list",
    "GetServerInfo": "_info",
    "WatchPolicies": "read_watch",
    "UpdatePolicies": "UpdateStream",
}


class UnforeseenError(Exception):
    """A failure that the server does not expect."""


@pytest.mark.parametrize("method", METHODS)
async def test_an_unexpected_failure_ends_the_call_as_internal_and_its_traceback_is_logged_once(
    server: Server, channel: grpc.aio.Channel, method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise UnforeseenError(method)

    owner, _, name = METHODS[method].rpartition(".")
    if METHODS[method] == "_info":
        monkeypatch.setattr(server._servicer, "_info", fail)
    else:
        monkeypatch.setattr(getattr(servicer_module, owner) if owner else servicer_module, name, fail)
    path = f"/{SERVICE}/{method}"
    for again in range(3):
        caplog.clear()
        if method == "UpdatePolicies":
            call: Any = channel.stream_stream(path)(timeout=PATIENCE)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call.write(b"")  # raises if the stream has ended by then
                await call.read()
            refusal = Refusal(caught.value)
        else:
            refusal = await (streaming if method == "WatchPolicies" else unary)(channel, path, b"")
        assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert method in caplog.text and "UnforeseenError" in caplog.text
        assert (caplog.records[0].exc_info is not None) == (again == 0), "the traceback is not logged exactly once"


async def test_an_unexpected_failure_of_one_change_fails_only_that_change_and_the_stream_stays_open(
    server: Server, channel: grpc.aio.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = server.registry.get

    def fail(name: str) -> Any:
        if name == "acme/broken":
            raise UnforeseenError(name)
        return real(name)

    monkeypatch.setattr(server.registry, "get", fail)
    updates = Updates(channel)
    topics = [TOPIC, "persistent://acme/broken/one", f"{TOPIC}-2"]
    changes = [change(number, topic) for number, topic in enumerate(topics, 1)]
    await updates.call.write(UpdatePoliciesRequest(changes=changes).SerializeToString())
    first, broken, last = await updates.results(3)
    assert broken.error.code == grpc.StatusCode.INTERNAL.value[0] and first.HasField("updated") and last.HasField("updated")
    await updates.call.done_writing()
    assert await updates.call.read() is grpc.aio.EOF


async def test_changes_whose_submission_fails_unexpectedly_get_results_and_the_stream_stays_open(
    server: Server, channel: grpc.aio.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise UnforeseenError("submission")

    await server.registry.get("public/default").ready()
    updates = Updates(channel)
    topics = [TOPIC, f"{TOPIC}-2", TOPIC]
    with monkeypatch.context() as planted:
        planted.setattr(Deadlines, "add", fail)
        changes = [change(number, topic) for number, topic in enumerate(topics, 1)]
        await updates.call.write(UpdatePoliciesRequest(changes=changes).SerializeToString())
        broken = await updates.results(3)
    assert {result.error.code for result in broken} == {grpc.StatusCode.INTERNAL.value[0]}
    changes = [change(number, topic) for number, topic in enumerate(topics, 4)]
    await updates.call.write(UpdatePoliciesRequest(changes=changes).SerializeToString())
    assert all(result.HasField("updated") for result in await updates.results(3))
    await updates.call.done_writing()
    assert await updates.call.read() is grpc.aio.EOF
    assert not server.registry.get("public/default").busy


def test_the_tables_of_these_tests_have_every_method(server: Server) -> None:
    assert isinstance(server._servicer, Servicer)
    described = DESCRIPTOR.services_by_name["TopicPoliciesService"].methods_by_name
    assert {f"/{SERVICE}/{name}" for name in described} == {*UNARY, INFO, UPDATES, STREAMING[0]}
    assert set(METHODS) == set(described)
