"""A watch of very many namespaces: a change in one of them costs as much as in a watch of two."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from tests.namespaces.bench import KEY, NAMESPACE, Bench, simulate
from tests.simulation.loop import SimulatedLoop
from topicpolicies.v1 import service_pb2
from topicpolicies_server.access import NOBODY, Caller, Granted, Permission
from topicpolicies_server.access.caller import EVERYTHING, NOTHING
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies import documents
from topicpolicies_server.rpc.permits import Permit, Permits
from topicpolicies_server.rpc.watching import stream as streams
from topicpolicies_server.rpc.watching.policy_part import PolicyPart, WatchResources
from topicpolicies_server.rpc.watching.requests import read_watch
from topicpolicies_server.rpc.watching.stream import WatchStream

from .watching import stream_of

ELSEWHERE = PolicyKey("persistent://acme/elsewhere/one", Scope.LOCAL)
NAMES = [NAMESPACE, *(f"acme/n{number}" for number in range(299))]


class Grants:
    """Grants everything at once, but nothing in the refused namespaces."""

    def __init__(self) -> None:
        self.refused: set[str] = set()

    def __call__(self, _caller: Caller, namespace: str) -> Granted:
        return NOTHING if namespace in self.refused else EVERYTHING


def test_a_watch_looks_only_at_the_namespaces_that_have_something_to_send(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: Counter[str] = Counter()
    taking = PolicyPart.take

    def take(part: PolicyPart) -> list[bytes]:
        looked[part.name] += 1
        return taking(part)

    monkeypatch.setattr(PolicyPart, "take", take)

    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        request = service_pb2.WatchPoliciesRequest(namespaces=NAMES)
        stream = stream_of(WatchResources(bench.registry, documents.wire), read_watch(request, 1_000, 3_000.0))
        received: list[service_pb2.WatchEvent] = []

        async def write(message: bytes) -> None:
            received.extend(service_pb2.WatchPoliciesResponse.FromString(message).events)
            await asyncio.sleep(0.0001 * random.Random(len(received)).random())

        task = bench.loop.create_task(stream.run(write))
        try:
            while sum(event.bookmark.synced for event in received) < len(NAMES):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert {event.namespace for event in received} == set(NAMES)
            assert looked.total() < 12 * len(NAMES), "all parts were looked at whenever one had something to send"
            await asyncio.sleep(60)
            looked.clear()
            received.clear()
            for value in range(2, 52):
                await bench.set(value)
                await asyncio.sleep(0.01)
            assert [event.change.document.policies.max_producer_per_topic for event in received] == list(range(2, 52))
            assert looked.total() <= 3 * 50 and set(looked) == {NAMESPACE}
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await stream.close()

    simulate(scenario)


def test_the_bookmarks_of_very_many_namespaces_are_sent_in_messages_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MESSAGE_BYTES", 4_096)

    async def scenario(bench: Bench) -> None:
        request = service_pb2.WatchPoliciesRequest(namespaces=NAMES)
        stream = stream_of(WatchResources(bench.registry, documents.wire), read_watch(request, 1_000, 30.0))
        sizes: list[int] = []
        marks: Counter[str] = Counter()

        async def write(message: bytes) -> None:
            sizes.append(len(message))
            events = service_pb2.WatchPoliciesResponse.FromString(message).events
            marks.update(event.namespace for event in events if event.HasField("bookmark") and not event.bookmark.synced)
            await asyncio.sleep(0.001)

        task = bench.loop.create_task(stream.run(write))
        try:
            await asyncio.sleep(45)
            assert marks == dict.fromkeys(NAMES, 1)
            stream.stop()
            with pytest.raises(PolicyError, match="The server is stopping"):
                await task
            assert marks == dict.fromkeys(NAMES, 2)
            assert len(sizes) > 10 and max(sizes) <= 4_096
        finally:
            task.cancel()
            await stream.close()

    simulate(scenario)


def test_the_age_of_a_bookmark_that_falls_due_between_two_messages_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MESSAGE_BYTES", 64)

    async def scenario(bench: Bench) -> None:
        quiet = "acme/quiet"
        request = service_pb2.WatchPoliciesRequest(namespaces=[quiet], topics=[KEY.topic, ELSEWHERE.topic])
        stream = stream_of(WatchResources(bench.registry, documents.wire), read_watch(request, 10, 30.0))
        ages: list[int] = []
        slow = 0.0

        async def write(message: bytes) -> None:
            for event in service_pb2.WatchPoliciesResponse.FromString(message).events:
                if event.namespace == quiet and event.HasField("bookmark") and not event.bookmark.synced:
                    ages.append(event.bookmark.age.ToMilliseconds())
            await asyncio.sleep(slow)

        task = bench.loop.create_task(stream.run(write))
        try:
            await asyncio.sleep(27.5)
            slow = 1.5
            await bench.set(1)  # the next changes come while the message of this one is written
            await asyncio.gather(bench.set(2), bench.registry.get("acme/elsewhere").update(bench.request(1, key=ELSEWHERE)))
            await asyncio.sleep(15)
            assert len(ages) == 1 and ages[0] < 10_000
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await stream.close()

    simulate(scenario)


@pytest.mark.parametrize("reads", [False, True])
def test_the_cost_of_rechecking_permissions_is_linear_in_the_number_of_namespaces(monkeypatch: pytest.MonkeyPatch, reads: bool) -> None:
    looked: Counter[str] = Counter()
    signal_all = WatchStream.signal_all

    def counted(stream: WatchStream) -> None:
        looked["signal_all"] += 1
        signal_all(stream)

    monkeypatch.setattr(WatchStream, "signal_all", counted)

    async def scenario(bench: Bench) -> None:
        grants = Grants()
        permits = Permits(cast("Any", grants))
        request = service_pb2.WatchPoliciesRequest(namespaces=NAMES)
        stream = stream_of(WatchResources(bench.registry, documents.wire), read_watch(request, 1_000, 3_000.0))
        unread_since: list[float] = []

        async def write(_: bytes) -> None:
            if grants.refused and not reads:
                unread_since.append(bench.loop.time())
                await asyncio.Event().wait()

        def permit_of(name: str) -> Permit | Awaitable[Permit]:
            return permits.permit(NOBODY, name, (Permission.WATCH,))

        task = bench.loop.create_task(stream.run(write, permit_of, lambda: unread_since[0] if unread_since else None))
        try:
            await asyncio.sleep(30)
            grants.refused = set(NAMES[1:])
            await asyncio.sleep(2 * streams.UNREAD_SECONDS)
            looked.clear()
            await asyncio.sleep(10)
            assert not task.done()
            assert looked["signal_all"] <= 11
            grants.refused = set(NAMES)
            await asyncio.wait({task}, timeout=5)
            assert task.cancelled() is not reads and task.done(), "the stream is open although nothing may be sent"
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await stream.close()

    simulate(scenario)


def test_other_tasks_have_turns_while_very_many_parts_are_begun_read_bookmarked_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = 0
    done: Counter[tuple[str, int]] = Counter()
    running = vars(SimulatedLoop)["_run_once"]

    def run_once(loop: SimulatedLoop) -> None:
        nonlocal turns
        turns += 1
        running(loop)

    monkeypatch.setattr(SimulatedLoop, "_run_once", run_once)
    for name in ("begin", "take", "bookmark", "last_bookmark", "close"):

        def count(part: PolicyPart, name: str = name, does: Callable[[PolicyPart], object] = getattr(PolicyPart, name)) -> object:
            done[name, turns] += 1
            return does(part)

        monkeypatch.setattr(PolicyPart, name, count)

    async def scenario(bench: Bench) -> None:
        request = service_pb2.WatchPoliciesRequest(namespaces=NAMES)
        stream = stream_of(WatchResources(bench.registry, documents.wire), read_watch(request, 1_000, 10.0))

        async def write(_: bytes) -> None:
            """Accepts every message at once."""

        task = bench.loop.create_task(stream.run(write))
        await asyncio.sleep(60)
        stream.stop()
        with pytest.raises(PolicyError):
            await task
        await stream.close()

    simulate(scenario)
    assert {name for name, _ in done} == {"begin", "take", "bookmark", "last_bookmark", "close"}
    assert max(done.values()) <= streams.TURN


def test_all_parts_are_closed_although_closing_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    closing, closed = PolicyPart.close, set[str]()

    async def close(part: PolicyPart) -> None:
        closed.add(part.name)
        await closing(part)
        if part.name == NAMES[0]:
            raise LookupError

    monkeypatch.setattr(PolicyPart, "close", close)

    async def scenario(bench: Bench) -> None:
        request = service_pb2.WatchPoliciesRequest(namespaces=NAMES)
        stream = stream_of(WatchResources(bench.registry, documents.wire), read_watch(request, 1_000, 10.0))

        async def write(_: bytes) -> None:
            """Accepts every message at once."""

        task = bench.loop.create_task(stream.run(write))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(LookupError):
            await stream.close()
        assert closed == set(NAMES)

    simulate(scenario)
