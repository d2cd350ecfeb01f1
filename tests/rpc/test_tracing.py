"""The spans of a server: one for each traced call, a child of the caller's span."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import grpc
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tests.ops.collector import Collector
from tests.ports import free_port
from tests.stubs import AsyncStub, async_stub, batch
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, ServerConfig, TelemetryConfig, parse_address
from topicpolicies_server.rpc.server import Server
from topicpolicies_server.rpc.tracing import Tracing

from .conftest import TOPIC
from .test_traces import PARENT, STATE, TRACE, history, update

UNSAMPLED = PARENT[:-2] + "00"


class Traced:
    """The tracing of a server, and its spans."""

    def __init__(self, server: Server, ratio: float) -> None:
        self._exporter = InMemorySpanExporter()
        self._server = server
        self.tracing = Tracing(self._exporter, ratio)
        server.calls.began = self.tracing.began
        server.calls.observers = (*server.calls.observers, self.tracing.ended)

    async def spans(self) -> Sequence[ReadableSpan]:
        """Returns the spans of all calls that have ended; a call ends a moment after its answer."""
        async with asyncio.timeout(100):
            while len(self._server.calls):  # noqa: ASYNC110 (nothing signals it)
                await asyncio.sleep(0.01)
        self.tracing._provider.force_flush()
        return self._exporter.get_finished_spans()


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
async def traced(server: Server, ratio: float) -> AsyncIterator[Traced]:
    """Yields the tracing of the server."""
    made = Traced(server, ratio)
    yield made
    made.tracing.close()


def parent_of(span: ReadableSpan) -> str:
    return "" if span.parent is None else f"{span.parent.span_id:016x}"


async def test_the_span_of_a_change_is_a_child_of_its_callers_and_the_event_names_it(traced: Traced, stub: AsyncStub) -> None:
    await update(stub, 1)
    (parent,) = await history(stub, 1)
    span, *_ = await traced.spans()
    own = span.get_span_context()
    assert own is not None
    assert (span.name, f"{own.trace_id:032x}", parent_of(span)) == ("UpdatePolicy", PARENT[3:35], PARENT[36:52])
    assert own.trace_state.to_header() == STATE
    assert parent == f"00-{PARENT[3:35]}-{own.span_id:016x}-01"
    told = dict(span.attributes or {})
    assert told.pop("topicpolicies.request_id")
    assert told == {
        "rpc.system": "grpc",
        "rpc.service": "topicpolicies.v1.TopicPoliciesService",
        "rpc.method": "UpdatePolicy",
        "rpc.grpc.status_code": 0,
        "topicpolicies.topic": TOPIC,
        "topicpolicies.outcome": "APPLIED",
    }


async def test_a_call_of_an_unsampled_trace_has_no_span_and_its_event_has_the_callers_trace_parent(traced: Traced, stub: AsyncStub) -> None:
    await update(stub, 1, (("traceparent", UNSAMPLED),))
    assert await history(stub, 1) == [UNSAMPLED]
    assert not await traced.spans()


@pytest.mark.parametrize(("ratio", "begins"), [(0.0, False), (1.0, True)])
async def test_a_call_without_a_trace_begins_one_according_to_the_ratio(traced: Traced, stub: AsyncStub, begins: bool) -> None:
    await update(stub, 1, ())
    (parent,) = await history(stub, 1)
    spans = await traced.spans()
    assert bool(spans) is begins is bool(parent)
    if begins:
        own = spans[0].get_span_context()
        assert own is not None and parent_of(spans[0]) == "" and f"{own.trace_id:032x}" in parent


async def test_the_span_of_a_failed_call_has_its_status_and_reason(traced: Traced, stub: AsyncStub) -> None:
    request = service_pb2.UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=1))
    request.precondition.version = "3ff"
    for refused in (request, service_pb2.UpdatePolicyRequest(topic="")):
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.UpdatePolicy(refused, metadata=TRACE)
    spans = await traced.spans()
    codes = (grpc.StatusCode.ABORTED, grpc.StatusCode.INVALID_ARGUMENT)
    assert [(span.attributes or {})["rpc.grpc.status_code"] for span in spans] == [code.value[0] for code in codes]
    assert all(span.status.status_code is StatusCode.ERROR and span.status.description for span in spans)


async def test_a_batch_has_one_span_and_its_events_have_its_trace(traced: Traced, stub: AsyncStub) -> None:
    change = service_pb2.UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=1))
    await stub.BatchUpdatePolicies(batch(change), metadata=TRACE)
    (parent,) = await history(stub, 1)
    spans = await traced.spans()
    assert spans[0].name == "BatchUpdatePolicies" and parent_of(spans[0]) == PARENT[36:52]
    assert parent[3:35] == PARENT[3:35]


async def test_spans_contain_nothing_of_a_document(traced: Traced, stub: AsyncStub) -> None:
    policies = TopicPolicies(max_producer_per_topic=424242)
    policies.offload_policies.managed_ledger_offload_driver = "aws-s3"
    policies.offload_policies.managed_ledger_offload_bucket = "bucket"
    policies.offload_policies.s3_managed_ledger_offload_credential_secret = "a-secret"
    await stub.UpdatePolicy(service_pb2.UpdatePolicyRequest(topic=TOPIC, policies=policies), metadata=TRACE)
    (span,) = await traced.spans()
    assert "424242" not in span.to_json() and "a-secret" not in span.to_json()


async def test_a_server_sends_spans_to_a_collector_with_the_headers_and_the_name_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20abc")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "policies")
    with Collector() as collector:
        config = ServerConfig(
            log=EmbeddedLogConfig(path=tmp_path / "policies.db"),
            listen=parse_address("127.0.0.1:0"),
            telemetry=TelemetryConfig(endpoint=collector.endpoint, trace_ratio=1.0),
        )
        async with Server(config) as server, grpc.aio.insecure_channel(server.address) as channel:
            await update(async_stub(channel), 1)
        assert {span.name for span in collector.spans} == {"UpdatePolicy"}
        assert collector.about["service.name"] == "policies" and collector.about["service.version"]
        assert {name.lower(): value for name, value in collector.headers.items()}["authorization"] == "Basic abc"


async def test_calls_succeed_and_the_server_stops_although_the_collector_can_not_be_reached(tmp_path: Path) -> None:
    config = ServerConfig(
        log=EmbeddedLogConfig(path=tmp_path / "policies.db"),
        listen=parse_address("127.0.0.1:0"),
        telemetry=TelemetryConfig(endpoint=f"http://127.0.0.1:{free_port()}", trace_ratio=1.0),
    )
    async with asyncio.timeout(100):
        async with Server(config) as server, grpc.aio.insecure_channel(server.address) as channel:
            for value in range(1, 20):
                await update(async_stub(channel), value)
