"""Spans are encoded as protobuf encodes them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.trace.v1 import trace_pb2

from topicpolicies_server.telemetry import encoding
from topicpolicies_server.telemetry.spans import INTERNAL, Span

IDS = st.integers(1, 2**64 - 1).map("{:016x}".format)
SPANS = st.builds(
    Span,
    trace_id=st.integers(1, 2**128 - 1).map("{:032x}".format),
    span_id=IDS,
    parent_id=IDS,
    state=st.sampled_from(["", "a=1", "a=" + "x" * 300]),
    name=st.sampled_from(["waiting", "sequencing", "log", "readback"]),
    kind=st.just(INTERNAL),
    began=st.floats(0, 1e6),
    ended=st.floats(0, 1e6),
    of=st.none(),
)


@given(st.lists(SPANS, max_size=4))
def test_the_encoded_spans_of_stages_are_those_of_protobuf(spans: list[Span]) -> None:
    wall = 1_790_000_000.0
    written = ExportTraceServiceRequest()
    group = written.resource_spans.add(resource=encoding.resource({"service.name": "tested"}))
    scope = group.scope_spans.add(scope=InstrumentationScope(name="topicpolicies"))
    for span in spans:
        scope.spans.append(
            trace_pb2.Span(
                trace_id=bytes.fromhex(span.trace_id),
                span_id=bytes.fromhex(span.span_id),
                parent_span_id=bytes.fromhex(span.parent_id),
                trace_state=span.state,
                name=span.name,
                kind=trace_pb2.Span.SPAN_KIND_INTERNAL,
                start_time_unix_nano=int((span.began + wall) * 1e9),
                end_time_unix_nano=int((span.ended + wall) * 1e9),
                flags=1,
            )
        )
    raw = encoding.spans(spans, encoding.resource({"service.name": "tested"}), wall)
    assert ExportTraceServiceRequest.FromString(raw) == written
