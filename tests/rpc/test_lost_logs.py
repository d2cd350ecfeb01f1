"""Watches while the log of one of their namespaces can't be read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from google.protobuf.duration_pb2 import Duration

from tests.namespaces.bench import NAMESPACE, Bench, simulate
from topicpolicies.v1 import errors_pb2, service_pb2
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.rpc.watching.requests import read_watch

from .watching import DirectStream

OTHER = "acme/other"
UNREACHABLE = LogError(LogState.UNREACHABLE, "The change log can't be reached.")


class Reader:
    """Reads a watch of two namespaces, and records each event with its time."""

    def __init__(self, bench: Bench) -> None:
        request = service_pb2.WatchPoliciesRequest(namespaces=[NAMESPACE, OTHER], bookmark_interval=Duration(seconds=1))
        self._loop = bench.loop
        self._stream = DirectStream(bench.registry, read_watch(request, 10, 10.0), self._write)
        self._events: list[tuple[float, service_pb2.WatchEvent]] = []

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Reads while the context is open."""
        task = self._loop.create_task(self._stream.run())
        yield
        assert not task.done(), "the stream has ended"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def events(self, namespace: str, kind: str, since: float) -> list[service_pb2.WatchEvent]:
        """Returns the events of one kind in a namespace since a time."""
        return [event for at, event in self._events if at >= since and event.namespace == namespace and event.WhichOneof("content") == kind]

    async def _write(self, message: bytes) -> None:
        self._events += [(self._loop.time(), event) for event in service_pb2.WatchPoliciesResponse.FromString(message).events]


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
