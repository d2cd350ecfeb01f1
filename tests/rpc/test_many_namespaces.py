"""A watch of very many namespaces: its bookmarks come in messages of bounded size."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.namespaces.bench import NAMESPACE, Bench, simulate
from topicpolicies.v1 import service_pb2
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.rpc.watching import stream as streams
from topicpolicies_server.rpc.watching.requests import read_watch

from .watching import DirectStream

ELSEWHERE = PolicyKey("persistent://acme/elsewhere/one", Scope.LOCAL)
NAMES = [NAMESPACE, *(f"acme/n{number}" for number in range(299))]


def test_the_bookmarks_of_very_many_namespaces_are_sent_in_messages_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MESSAGE_BYTES", 4_096)

    async def scenario(bench: Bench) -> None:
        request = service_pb2.WatchPoliciesRequest(namespaces=NAMES)
        sizes: list[int] = []
        marks: Counter[str] = Counter()

        async def write(message: bytes) -> None:
            sizes.append(len(message))
            events = service_pb2.WatchPoliciesResponse.FromString(message).events
            marks.update(event.namespace for event in events if event.HasField("bookmark") and not event.bookmark.synced)
            await asyncio.sleep(0.001)

        stream = DirectStream(bench.registry, read_watch(request, 1_000, 30.0), write)
        task = bench.loop.create_task(stream.run())
        try:
            await asyncio.sleep(45)
            assert marks == dict.fromkeys(NAMES, 1)
            assert len(sizes) > 10 and max(sizes) < 4_096 + 512, "and what one part has"
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    simulate(scenario)
