"""Watches while the log of one of their namespaces can't be read."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration

from tests.memory_log import MemoryStorage
from tests.namespaces.bench import NAMESPACE, Bench, ChosenFaults, CountingLog, simulate
from topicpolicies.v1 import errors_pb2, history_pb2, service_pb2
from topicpolicies_server.config import Limits
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.policies import documents
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.history import Bounds, open_history
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.namespaces.registry import Registry
from topicpolicies_server.rpc.watching.history_part import HistoryPart
from topicpolicies_server.rpc.watching.policy_part import WatchResources
from topicpolicies_server.rpc.watching.requests import read_history_watch, read_watch
from topicpolicies_server.rpc.watching.stream import WatchStream

from .watching import stream_of

OTHER = "acme/other"
UNREACHABLE = LogError(LogState.UNREACHABLE, "The change log can't be reached.")


class Reader:
    """Reads a watch of two namespaces, and records each event with its time."""

    def __init__(self, bench: Bench) -> None:
        request = service_pb2.WatchPoliciesRequest(namespaces=[NAMESPACE, OTHER], bookmark_interval=Duration(seconds=1))
        self._loop = bench.loop
        self._stream = stream_of(WatchResources(bench.registry, documents.wire), read_watch(request, 10, 10.0))
        self._events: list[tuple[float, service_pb2.WatchEvent]] = []

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Reads while the context is open."""
        task = self._loop.create_task(self._read())
        yield
        assert not task.done(), "the stream has ended"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._stream.close()

    def events(self, namespace: str, kind: str, since: float) -> list[service_pb2.WatchEvent]:
        """Returns the events of one kind in a namespace since a time."""
        return [event for at, event in self._events if at >= since and event.namespace == namespace and event.WhichOneof("content") == kind]

    async def _read(self) -> None:
        async def write(message: bytes) -> None:
            self._events += [(self._loop.time(), event) for event in service_pb2.WatchPoliciesResponse.FromString(message).events]

        await self._stream.run(write)


def test_a_namespace_whose_log_is_lost_gets_status_failed_and_no_bookmarks_and_others_are_unaffected() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        reader = Reader(bench)
        async with reader.reading():
            await asyncio.sleep(5.5)
            assert len(reader.events(NAMESPACE, "bookmark", 2)) >= 3 <= len(reader.events(OTHER, "bookmark", 2))
            bench.log.refusals = [UNREACHABLE] * 1_000
            bench.opened.lose(UNREACHABLE)
            lost = bench.loop.time()
            await asyncio.sleep(120)
            assert reader.events(NAMESPACE, "bookmark", lost) == []
            assert len(reader.events(OTHER, "bookmark", lost)) >= 110
            states = [event.status for event in reader.events(NAMESPACE, "status", lost)]
            assert states[-1].state == service_pb2.NAMESPACE_STATE_FAILED
            assert {state.reason for state in states} == {errors_pb2.ERROR_REASON_LOG_UNAVAILABLE}, "a status has another reason"
            bench.log.refusals.clear()
            found = bench.loop.time()
            await asyncio.sleep(60)
            (ready,) = reader.events(NAMESPACE, "status", found)[-1:]
            assert (ready.status.state, ready.status.reason) == (service_pb2.NAMESPACE_STATE_READY, errors_pb2.ERROR_REASON_UNSPECIFIED)
            ages = [event.bookmark.age.ToMilliseconds() for event in reader.events(NAMESPACE, "bookmark", found)]
            assert len(ages) > 10 and ages[-1] <= 2_000
            assert not reader.events(NAMESPACE, "reset", 0), "the namespace was reset although it has the same log"

    simulate(scenario)


@pytest.mark.parametrize("of_history", [False, True])
async def test_the_status_is_failed_when_a_log_is_lost_and_ready_when_it_is_back(tmp_path: Path, of_history: bool) -> None:
    loop = asyncio.get_running_loop()
    log = CountingLog(MemoryStorage(now=lambda: time.time_ns() // 1_000_000), ChosenFaults())
    history = open_history(tmp_path / "history.db", Bounds(1e9, 1 << 30))
    registry = Registry(log, Limits(load_retry_seconds=0.5), FoldContext(window_ms=30_000, sole_writer=True), history=history)
    message: type[service_pb2.WatchPoliciesResponse | history_pb2.WatchHistoryResponse]
    if of_history:
        of_copy = read_history_watch(history_pb2.WatchHistoryRequest(namespaces=[NAMESPACE]), 10, 3_600)
        stream = WatchStream(of_copy.positions, partial(HistoryPart, registry, of_copy), of_copy.bookmark_seconds)
        message = history_pb2.WatchHistoryResponse
    else:
        request = service_pb2.WatchPoliciesRequest(namespaces=[NAMESPACE])
        stream = stream_of(WatchResources(registry, documents.wire), read_watch(request, 10, 3_600))
        message = service_pb2.WatchPoliciesResponse
    received: asyncio.Queue[service_pb2.WatchEvent | history_pb2.WatchHistoryEvent] = asyncio.Queue()

    async def write(written: bytes) -> None:
        for event in message.FromString(written).events:
            received.put_nowait(event)

    async def state(wanted: service_pb2.NamespaceState.ValueType) -> None:
        async with asyncio.timeout(10):
            while (await received.get()).status.state != wanted:
                pass

    task = loop.create_task(stream.run(write))
    try:
        async with asyncio.timeout(10):
            while not (await received.get()).bookmark.synced:
                pass
        log.refusals = [UNREACHABLE] * 1_000
        log.opened(NAMESPACE).lose(UNREACHABLE)
        await state(service_pb2.NAMESPACE_STATE_FAILED)
        log.refusals.clear()
        await state(service_pb2.NAMESPACE_STATE_READY)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await stream.close()
        await registry.close()
        await history.close()
