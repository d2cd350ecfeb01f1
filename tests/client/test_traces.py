"""A client's calls are made in the trace in which its program is."""

from __future__ import annotations

import subprocess
import sys

from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

from topicpolicies.channels import metadata_for

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SPAN = NonRecordingSpan(
    SpanContext(
        int(PARENT[3:35], 16), int(PARENT[36:52], 16), is_remote=False, trace_flags=TraceFlags(1), trace_state=TraceState([("a", "1")])
    )
)


def test_a_call_is_made_in_the_present_trace() -> None:
    metadata = metadata_for("ci", "token", (("x", "y"),))
    assert metadata() == (("topicpolicies-actor", "ci"), ("x", "y"), ("authorization", "Bearer token"))
    with trace.use_span(SPAN):
        told = metadata()
    assert dict(told) == {
        "topicpolicies-actor": "ci",
        "x": "y",
        "traceparent": PARENT,
        "tracestate": "a=1",
        "authorization": "Bearer token",
    }
    assert dict(metadata()).keys() == {"topicpolicies-actor", "x", "authorization"}


def test_a_context_that_is_given_goes_before_the_present_one() -> None:
    given = ("traceparent", PARENT.replace("4bf9", "0000"))
    with trace.use_span(SPAN):
        assert metadata_for("", None, (given,))() == (given,)


def test_without_opentelemetry_nothing_is_said_and_nothing_is_missing() -> None:
    program = "import sys; sys.modules['opentelemetry'] = None; from topicpolicies import traces; assert traces.current() == ()"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
