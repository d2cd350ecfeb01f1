"""The trace context of a change goes with it from its caller to the log, and to the history and watches."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import grpc
import pytest

from tests.stubs import AsyncStub, async_stub
from topicpolicies.v1 import history_pb2, service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC
from .watching import WatchReader

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
STATE = "congo=t61rcWkgMzE"
TRACE = (("traceparent", PARENT), ("tracestate", STATE))
Metadata = tuple[tuple[str, str], ...]


@pytest.fixture
def configuration(tmp_path: Path) -> ServerConfig:
    """Returns the configuration of a server with a log, a history and checkpoints, which all keep events."""
    return ServerConfig(
        log=EmbeddedLogConfig(path=tmp_path / "policies.db"),
        history=HistoryConfig(path=tmp_path / "history.db"),
        checkpoints=tmp_path / "checkpoints",
        listen=parse_address("127.0.0.1:0"),
    )


@pytest.fixture
async def stub(configuration: ServerConfig) -> AsyncIterator[AsyncStub]:
    """Yields a stub of the service."""
    async with Server(configuration) as server, grpc.aio.insecure_channel(server.address) as channel:
        yield async_stub(channel)


async def update(stub: AsyncStub, value: int, metadata: Metadata = TRACE) -> None:
    request = service_pb2.UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=value))
    await stub.UpdatePolicy(request, metadata=metadata)


async def history(stub: AsyncStub, entries: int) -> list[str]:
    """Returns the trace parents of the history, once it has so many entries."""
    request = history_pb2.ListHistoryRequest(topic=TOPIC, oldest_first=True)
    deadline = time.monotonic() + 100
    while len(found := (await stub.ListHistory(request)).entries) < entries:
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.01)
    return [each.origin.trace_parent for each in found]


def in_the_log(path: Path) -> list[dict[str, str]]:
    """Returns the properties of the events in an embedded log's file."""
    with closing(sqlite3.connect(path / "policies.db")) as connection:
        return [json.loads(text) for (text,) in connection.execute("SELECT properties FROM events ORDER BY place")]


async def test_an_event_in_the_log_has_the_trace_context_of_its_caller(stub: AsyncStub, tmp_path: Path) -> None:
    await update(stub, 1)
    await update(stub, 2, ())
    traced, other = in_the_log(tmp_path)
    assert (traced["traceparent"], traced["tracestate"]) == (PARENT, STATE)
    assert not {"traceparent", "tracestate"} & set(other)


async def test_a_malformed_trace_state_is_dropped_and_the_trace_parent_is_kept(stub: AsyncStub, tmp_path: Path) -> None:
    await update(stub, 1, (("traceparent", PARENT), ("tracestate", "no members")))
    (event,) = in_the_log(tmp_path)
    assert event["traceparent"] == PARENT and "tracestate" not in event


async def test_the_history_and_watches_have_the_trace_parent_of_a_change(stub: AsyncStub) -> None:
    watches = []
    for mode in (service_pb2.WATCH_MODE_LATEST, service_pb2.WATCH_MODE_EVERY):
        watch = WatchReader(stub, topics=[TOPIC], mode=mode)
        await watch.until_synced()
        watches.append(watch)
    await update(stub, 1)
    await stub.DeletePolicy(service_pb2.DeletePolicyRequest(topic=TOPIC), metadata=TRACE)
    for watch in watches:
        assert [(await watch.change()).origin.trace_parent for _ in range(2)] == [PARENT, PARENT]
        watch.cancel()
    assert (await history(stub, 2))[:2] == [PARENT, PARENT]
