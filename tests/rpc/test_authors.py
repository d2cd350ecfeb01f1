"""The trace context of a call is read from its metadata."""

from __future__ import annotations

import pytest

from tests.simulation.calls import call_of
from topicpolicies_server.core.traces import NO_TRACE, TraceContext
from topicpolicies_server.rpc.requests import author_of, trace_of

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def test_a_call_has_the_trace_context_that_its_metadata_name() -> None:
    context = call_of(("traceparent", PARENT), ("tracestate", "a=1"), ("other", "x"), ("tracestate", "b=2"))
    assert trace_of(context) == TraceContext(PARENT, "a=1,b=2")
    assert author_of(context).trace == TraceContext(PARENT, "a=1,b=2")


@pytest.mark.parametrize(
    "metadata",
    [(), (("traceparent", PARENT), ("traceparent", PARENT)), (("traceparent", b"\xff" * 55),), (("tracestate", "a=1"),)],
)
async def test_a_call_without_exactly_one_valid_traceparent_has_no_trace_context(metadata: tuple[tuple[str, str | bytes], ...]) -> None:
    context = call_of(*metadata)
    assert trace_of(context) is NO_TRACE
    assert author_of(context).trace is NO_TRACE


async def test_the_changes_of_a_traced_call_have_the_trace_trace_of_the_calls_own_span() -> None:
    context = call_of(("traceparent", PARENT))
    context.trace = TraceContext(PARENT.replace("00f067", "abcdef"), "a=1")
    assert author_of(context).trace is context.trace
