"""The spans of a server: one for each traced call, a child of the caller's span, with the stages of the call's change as its children."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from prometheus_client.metrics_core import Metric

from tests.stubs import AsyncStub, async_stub, batch
from tests.telemetry.collector import Collector
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, ServerConfig, TelemetryConfig, parse_address
from topicpolicies_server.ops.metrics import ServerCollector
from topicpolicies_server.rpc.server import Server
from topicpolicies_server.rpc.tracing import Tracing
from topicpolicies_server.telemetry.spans import Ended, Span, spans_of

from .conftest import TOPIC
from .test_traces import PARENT, STATE, TRACE, history, update

UNSAMPLED = PARENT[:-2] + "00"


@pytest.fixture
def ratio() -> float:
    """Returns the fraction of calls without a trace that begin one."""
    return 0.0


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """Yields a running server with a history."""
    config = ServerConfig(
        log=EmbeddedLogConfig(path=tmp_path / "policies.db"),
        history=HistoryConfig(path=tmp_path / "history.db"),
        listen=parse_address("127.0.0.1:0"),
    )
    async with Server(config) as running:
        yield running


@pytest.fixture
def ended(server: Server, ratio: float) -> list[Ended]:
    """Returns the traced calls and changes of the server that have ended."""
    found: list[Ended] = []
    tracing = Tracing(found.append, ratio)
    server.calls.began = tracing.began
    server.calls.observers = (*server.calls.observers, tracing)
    server.calls.change_observers = (*server.calls.change_observers, tracing)
    return found


@pytest.fixture
async def stub(server: Server) -> AsyncIterator[AsyncStub]:
    """Yields a stub of the service."""
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield async_stub(channel)


async def until(ended: list[Ended], count: int) -> None:
    """Waits until so many have ended: a call ends a moment after its answer."""
    deadline = time.monotonic() + 20
    while len(ended) < count:
        assert time.monotonic() < deadline, ended
        await asyncio.sleep(0.01)


def spans(ended: list[Ended]) -> dict[str, Span]:
    """Returns the spans by name."""
    return {span.name: span for each in ended for span in spans_of(each)}


async def test_the_span_of_a_change_is_a_child_of_its_callers_and_its_stages_are_children_of_it(
    ended: list[Ended], stub: AsyncStub
) -> None:
    await update(stub, 1)
    await until(ended, 1)
    found = spans(ended)
    assert list(found) == ["UpdatePolicy", "waiting", "sequencing", "log", "readback"]
    call = found.pop("UpdatePolicy")
    assert (call.trace_id, call.parent_id, call.state) == (PARENT[3:35], PARENT[36:52], STATE)
    assert {(span.trace_id, span.parent_id) for span in found.values()} == {(call.trace_id, call.span_id)}
    times = [call.began, *(span.ended for span in found.values()), call.ended]
    assert times == sorted(times)
    assert [span.began for span in list(found.values())[1:]] == [span.ended for span in list(found.values())[:-1]]
    assert call.of is not None and (call.of.topic, call.of.outcome) == (TOPIC, "APPLIED")


async def test_the_trace_parent_of_an_event_is_the_span_of_its_call(ended: list[Ended], stub: AsyncStub) -> None:
    await update(stub, 1)
    await until(ended, 1)
    assert await history(stub, 1) == [f"00-{PARENT[3:35]}-{ended[0].span.span_id}-01"]


async def test_a_call_of_an_unsampled_trace_has_no_span_and_its_event_has_the_callers_trace_parent(
    ended: list[Ended], stub: AsyncStub
) -> None:
    await update(stub, 1, (("traceparent", UNSAMPLED),))
    assert await history(stub, 1) == [UNSAMPLED]
    assert ended == []


@pytest.mark.parametrize(("ratio", "traced"), [(0.0, False), (1.0, True)])
async def test_a_call_without_a_trace_begins_one_according_to_the_ratio(ended: list[Ended], stub: AsyncStub, traced: bool) -> None:
    await update(stub, 1, ())
    (parent,) = await history(stub, 1)
    await until(ended, int(traced))
    assert bool(ended) is traced is bool(parent)
    assert not traced or (ended[0].span.parent_id == "" and ended[0].span.trace_id in parent)


async def test_the_span_of_a_failed_call_has_its_status_and_reason(ended: list[Ended], stub: AsyncStub) -> None:
    request = service_pb2.UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=1))
    request.precondition.version = "3ff"
    for refused in (request, service_pb2.UpdatePolicyRequest(topic="")):
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.UpdatePolicy(refused, metadata=TRACE)
    await until(ended, 2)
    assert [each.code for each in ended] == ["ABORTED", "INVALID_ARGUMENT"]
    assert all(each.reason for each in ended)


async def test_a_batch_has_a_span_and_a_bounded_number_of_its_changes_have_child_spans(ended: list[Ended], stub: AsyncStub) -> None:
    changes = [
        service_pb2.UpdatePolicyRequest(topic=f"{TOPIC}-{number}", policies=TopicPolicies(max_producer_per_topic=1))
        for number in range(100)
    ]
    await stub.BatchUpdatePolicies(batch(*changes), metadata=TRACE)
    deadline = time.monotonic() + 20
    while not ended or ended[-1].name != "BatchUpdatePolicies":
        assert time.monotonic() < deadline, ended
        await asyncio.sleep(0.01)
    assert 1 <= [each.name for each in ended].count("change") < 50, "the number of spans of changes is not bounded"
    found = spans(ended)
    assert found["change"].parent_id == found["BatchUpdatePolicies"].span_id
    assert {found[name].parent_id for name in ("sequencing", "log", "readback")} == {found["change"].span_id}
    assert found["BatchUpdatePolicies"].parent_id == PARENT[36:52]


async def test_spans_contain_nothing_of_a_document(ended: list[Ended], stub: AsyncStub) -> None:
    policies = TopicPolicies(max_producer_per_topic=424242)
    policies.offload_policies.managed_ledger_offload_driver = "aws-s3"
    policies.offload_policies.managed_ledger_offload_bucket = "bucket"
    policies.offload_policies.s3_managed_ledger_offload_credential_secret = "a-secret"
    await stub.UpdatePolicy(service_pb2.UpdatePolicyRequest(topic=TOPIC, policies=policies), metadata=TRACE)
    await until(ended, 1)
    assert "424242" not in repr(ended) and "a-secret" not in repr(ended)


async def test_a_server_exports_spans_and_the_metrics_that_prometheus_scrapes_to_a_collector(tmp_path: Path) -> None:
    with Collector() as collector:
        config = ServerConfig(
            log=EmbeddedLogConfig(path=tmp_path / "policies.db"),
            listen=parse_address("127.0.0.1:0"),
            telemetry=TelemetryConfig(endpoint=collector.endpoint, trace_ratio=1.0),
        )
        async with Server(config) as server, grpc.aio.insecure_channel(server.address) as channel:
            await update(async_stub(channel), 1)
            names = {family.name for family in _collected(server)}
        assert {span.name for span in collector.spans} == {"UpdatePolicy", "waiting", "sequencing", "log", "readback"}
        assert names <= set(collector.metrics)
        assert "topicpolicies_call_seconds" in collector.metrics


def _collected(server: Server) -> list[Metric]:
    return list(ServerCollector(server.registry).collect())


async def test_calls_succeed_although_the_collector_can_not_be_reached(tmp_path: Path) -> None:
    config = ServerConfig(
        log=EmbeddedLogConfig(path=tmp_path / "policies.db"),
        listen=parse_address("127.0.0.1:0"),
        telemetry=TelemetryConfig(endpoint="http://127.0.0.1:9", trace_ratio=1.0),
    )
    async with Server(config) as server, grpc.aio.insecure_channel(server.address) as channel:
        for value in range(1, 20):
            await update(async_stub(channel), value)
