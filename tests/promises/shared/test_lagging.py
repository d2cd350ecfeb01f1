"""A sidecar that is behind the log of a real broker: its answers to requests that write nothing as far as it knows.

Events from the broker's reader are held back, as by a slow connection; everything else is real.
"""

from __future__ import annotations

import asyncio
import statistics
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import cast

import pytest

from tests.broker.admin import CHANGE_EVENTS, Admin
from tests.broker.pulsar_broker import Broker
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.config import Limits
from topicpolicies_server.core.chains.sequencer import Outcome, Request, Result
from topicpolicies_server.core.changes.change import compile_change
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import join
from topicpolicies_server.core.policies.events import Placed
from topicpolicies_server.core.reading.readback import ReadBack
from topicpolicies_server.logs.pulsar import PulsarLog
from topicpolicies_server.namespaces.registry import Registry

FIELD = "max_producer_per_topic"


class Holding:
    """A ``ReadBack`` that holds back the events that are read."""

    def __init__(self, readback: ReadBack) -> None:
        self.readback = readback
        self.held: list[Sequence[Placed]] = []

    def read(self, events: Sequence[Placed]) -> list[Placed]:
        self.held.append(events)
        return []

    def __getattr__(self, name: str) -> object:
        return getattr(self.readback, name)


class Sidecar:
    """The namespaces of a sidecar on a broker, without the gRPC service."""

    def __init__(self, broker: Broker, namespace: str) -> None:
        self.log = PulsarLog(broker.service_url, broker.admin_url)
        self.registry = Registry(self.log, Limits(join_patience_seconds=0.0), FoldContext())
        self.namespace = namespace
        self._holding: Holding | None = None

    async def ready(self) -> None:
        await self.registry.get(self.namespace).ready()

    def request(self, topic: str, value: int | None, request_id: str = "", **rest: object) -> Request:
        """Returns a request that sets the field, or deletes the document if ``value`` is None."""
        change = None if value is None else compile_change(TopicPolicies(max_producer_per_topic=value), [FIELD], {})
        return Request(PolicyKey(topic, Scope.LOCAL), change, request_id or uuid.uuid4().hex, f"{value}", **rest)  # type: ignore[arg-type]

    async def set(self, topic: str, value: int | None, **rest: object) -> Result:
        return await self.registry.get(self.namespace).update(self.request(topic, value, **rest))  # type: ignore[arg-type]

    async def value(self, topic: str, at_least: str = "") -> int | None:
        head = await self.registry.get(self.namespace).get(PolicyKey(topic, Scope.LOCAL), at_least)
        return None if head is None or head.document is None else join(head.document).max_producer_per_topic

    def hold(self) -> None:
        """Holds back the events that are read from now on."""
        follower = self.registry.get(self.namespace)._life.served
        assert follower is not None and follower.readback is not None
        self._holding = Holding(follower.readback)
        follower.readback = cast("ReadBack", self._holding)

    def release(self) -> int:
        """Delivers the events that were held back, and returns their number."""
        holding, follower = self._holding, self.registry.get(self.namespace)._life.served
        assert follower is not None and holding is not None
        follower.readback, self._holding = holding.readback, None
        for events in holding.held:
            follower.read(events)
        return sum(map(len, holding.held))

    async def close(self) -> None:
        await self.registry.close()
        await self.log.close()


class Place:
    """A namespace with two sidecars, both of which have read its log."""

    def __init__(self, broker: Broker, admin: Admin, namespace: str) -> None:
        self.admin = admin
        self.namespace = namespace
        self.lagging, self.other = Sidecar(broker, namespace), Sidecar(broker, namespace)

    async def topic(self, name: str, value: int | None = 1) -> str:
        """Creates a topic of which both sidecars know the same value."""
        await asyncio.to_thread(self.admin.create_topic, f"{self.namespace}/{name}")
        topic = f"persistent://{self.namespace}/{name}"
        if value is not None:
            made = await self.lagging.set(topic, value)
            assert await self.other.value(topic, made.version) == value
        return topic

    async def held(self, *requests: asyncio.Task[Result]) -> list[Result]:
        """Returns the answers to requests, none of which may come before the events that are held back have been read."""
        await asyncio.sleep(0.5)
        assert not any(request.done() for request in requests)
        assert self.lagging.release() > 0, "without events that are held back the test proves nothing"
        return await asyncio.wait_for(asyncio.gather(*requests), 20)

    def setting(self, topic: str, value: int | None, **rest: object) -> asyncio.Task[Result]:
        return asyncio.ensure_future(self.lagging.set(topic, value, **rest))


@pytest.fixture(params=[0, 3], ids=["plain", "3-partitions"])
async def place(broker: Broker, admin: Admin, request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    namespace = await asyncio.to_thread(admin.create_namespace, "lagging")
    admin.compact_only_on_request(namespace)
    if request.param:
        rule = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": request.param}
        await asyncio.to_thread(admin.call, "POST", f"namespaces/{namespace}/autoTopicCreation", rule)
    place = Place(broker, admin, namespace)
    for sidecar in (place.lagging, place.other):
        await sidecar.ready()
    yield place
    for sidecar in (place.lagging, place.other):
        await sidecar.close()


async def test_an_update_to_a_value_that_an_administrator_has_replaced_is_applied_and_not_called_unchanged(place: Place) -> None:
    topic = await place.topic("rest")
    place.lagging.hold()
    path = f"persistent/{topic.removeprefix('persistent://')}/maxProducers"
    await asyncio.to_thread(place.admin.call, "POST", path, 2)
    (result,) = await place.held(place.setting(topic, 1))
    assert result.outcome is Outcome.APPLIED
    assert await place.other.value(topic, result.version) == 1
    deadline = time.monotonic() + 10
    while await asyncio.to_thread(place.admin.call, "GET", path) != 1:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def test_a_request_that_writes_nothing_is_answered_only_after_reading_another_sidecars_changes(place: Place) -> None:
    same, absent, gone = await place.topic("same"), await place.topic("absent", None), await place.topic("gone")
    deleted, dry = await place.topic("deleted", None), await place.topic("dry")
    place.lagging.hold()
    for topic in (same, absent, deleted, dry):
        assert (await place.other.set(topic, 2)).outcome is Outcome.APPLIED
    assert (await place.other.set(gone, None)).outcome is Outcome.APPLIED
    requests = [
        place.setting(same, 1),
        place.setting(absent, 3, skip_if_absent=True),
        place.setting(gone, 1, must_not_exist=True),
        place.setting(deleted, None),
        place.setting(dry, 1, validate_only=True),
    ]
    results = await place.held(*requests)
    assert [result.outcome for result in results] == [Outcome.APPLIED] * 4 + [Outcome.WOULD_APPLY]
    for topic, result, value in zip((same, absent, gone, deleted), results, (1, 3, 1, None), strict=False):
        assert await place.other.value(topic, result.version) == value
    assert await place.other.value(dry) == 2


async def test_a_request_id_that_another_sidecar_applied_with_another_body_is_refused(place: Place) -> None:
    topic = await place.topic("reused")
    place.lagging.hold()
    request_id = uuid.uuid4().hex
    assert (await place.other.set(topic, 2, request_id=request_id)).outcome is Outcome.APPLIED
    reused = place.setting(topic, 7, request_id=request_id)
    with pytest.raises(PolicyError) as refused:
        await place.held(reused)
    assert (refused.value.kind, refused.value.reason) == (Kind.INVALID_ARGUMENT, "REQUEST_ID_REUSED")
    assert await place.lagging.value(topic) == await place.other.value(topic) == 2


async def test_a_request_is_confirmed_if_the_logs_end_is_a_ledger_without_entries(place: Place) -> None:
    """After a compaction of all events and an unload, the log ends with ledgers without entries, which no reader receives."""
    topic = await place.topic("unloaded")
    await place.lagging.set(topic, None)
    await asyncio.to_thread(place.admin.compact_change_events, place.namespace)
    await asyncio.to_thread(place.admin.call, "PUT", f"namespaces/{place.namespace}/unload")
    assert (await once_back(place.lagging, topic, None)).outcome is Outcome.UNCHANGED
    assert (await once_back(place.other, topic, 5)).outcome is Outcome.APPLIED


async def once_back(sidecar: Sidecar, topic: str, value: int | None) -> Result:
    """Returns the answer to an update on a sidecar that may be reopening its log after an unload; repeats it for up to 60 s."""
    deadline, request_id = time.monotonic() + 60, uuid.uuid4().hex
    while True:
        try:
            return await sidecar.set(topic, value, request_id=request_id)
        except PolicyError as error:
            assert error.kind is Kind.UNAVAILABLE and time.monotonic() < deadline, error.message
            await asyncio.sleep(0.2)


async def test_no_request_is_answered_from_a_log_that_was_deleted(place: Place) -> None:
    topic = await place.topic("deleted")
    log = f"persistent/{place.namespace}/{CHANGE_EVENTS}"
    partitioned = (await asyncio.to_thread(place.admin.call, "GET", f"{log}/partitions"))["partitions"]
    await asyncio.to_thread(place.admin.call, "DELETE", f"{log}/partitions" if partitioned else log, force="true")
    answer: Result | None = None
    began = time.monotonic()
    while answer is None:
        try:
            answer = await place.lagging.set(topic, 1)
        except PolicyError as error:
            assert error.kind is Kind.UNAVAILABLE and time.monotonic() < began + 60, error.message
            await asyncio.sleep(0.1)
    assert answer.outcome is Outcome.APPLIED, "the new log has no such document"
    print(f"{time.monotonic() - began:.1f} s after the log was deleted")


async def test_concurrent_requests_that_write_nothing_share_their_confirmations(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await place.topic("cost")
    times: list[float] = []
    for _ in range(100):
        began = time.perf_counter()
        assert (await place.lagging.set(topic, 1)).outcome is Outcome.UNCHANGED
        times.append((time.perf_counter() - began) * 1_000)
    written: list[float] = []
    for value in range(2, 102):
        began = time.perf_counter()
        assert (await place.lagging.set(topic, value)).outcome is Outcome.APPLIED
        written.append((time.perf_counter() - began) * 1_000)
    follower = place.lagging.registry.get(place.namespace)._life.served
    assert follower is not None and follower.log is not None
    end, asked = follower.log.end, list[int]()

    async def counted(partition: int) -> str:
        asked.append(partition)
        return await end(partition)

    monkeypatch.setattr(follower.log, "end", counted)
    began = time.perf_counter()
    results = await asyncio.gather(*(place.lagging.set(topic, 101) for _ in range(1_000)))
    assert {result.outcome for result in results} == {Outcome.UNCHANGED}
    together = (time.perf_counter() - began) * 1_000
    print(
        f"one after the other: p50 {statistics.median(times):.1f} ms, p99 {sorted(times)[-2]:.1f} ms (of updates that write:"
        f" p50 {statistics.median(written):.1f} ms, p99 {sorted(written)[-2]:.1f} ms); 1,000 at once: {together:.0f} ms,"
        f" {len(asked)} requests for the log's end"
    )
    assert 0 < len(asked) < 100
