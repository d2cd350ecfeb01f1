"""Calls of a client carry the current trace of its program."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

from topicpolicies import AsyncClient, Client
from topicpolicies.channels import metadata_for
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server

TOPIC = "persistent://public/default/orders"

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SPAN = NonRecordingSpan(
    SpanContext(
        int(PARENT[3:35], 16), int(PARENT[36:52], 16), is_remote=False, trace_flags=TraceFlags(1), trace_state=TraceState([("a", "1")])
    )
)


def test_a_call_carries_the_current_trace() -> None:
    metadata = metadata_for("ci", "token", (("x", "y"),))
    assert metadata() == (("topicpolicies-actor", "ci"), ("x", "y"), ("authorization", "Bearer token"))
    with trace.use_span(SPAN):
        sent = metadata()
    assert dict(sent) == {
        "topicpolicies-actor": "ci",
        "x": "y",
        "traceparent": PARENT,
        "tracestate": "a=1",
        "authorization": "Bearer token",
    }
    assert dict(metadata()).keys() == {"topicpolicies-actor", "x", "authorization"}


def test_a_given_trace_context_takes_precedence_over_the_current_one() -> None:
    given = ("traceparent", PARENT.replace("4bf9", "0000"))
    with trace.use_span(SPAN):
        assert metadata_for("", None, (given,))() == (given,)


def test_without_opentelemetry_calls_carry_no_trace() -> None:
    program = "import sys; sys.modules['opentelemetry'] = None; from topicpolicies import traces; assert traces.current() == ()"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    config = ServerConfig(
        log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"), history=HistoryConfig(path=tmp_path / "history.db")
    )
    async with Server(config) as server:
        yield server.address


async def test_the_history_has_the_trace_of_a_change(address: str) -> None:
    async with AsyncClient(address) as client:
        with trace.use_span(SPAN):
            await client.update(TOPIC, max_producer_per_topic=1)
        await client.update(TOPIC, max_producer_per_topic=2)
        pages = [page async for page in client.history_pages(topic=TOPIC)]
    assert [entry.origin.trace_parent for page in pages for entry in page.entries] == ["", PARENT]


async def test_the_history_has_the_trace_of_a_change_by_the_synchronous_client(address: str) -> None:
    def change() -> list[str]:
        with Client(address) as client:
            with trace.use_span(SPAN):
                client.update(TOPIC, max_producer_per_topic=1)
            return [entry.origin.trace_parent for page in client.history_pages(topic=TOPIC) for entry in page.entries]

    assert await asyncio.to_thread(change) == [PARENT]
