"""Topics as a broker has them: partitions, properties that disable policies, and the trace of a change in the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.broker.admin import Admin
from tests.broker.pulsar_broker import Broker
from tests.promises.api import GLOBAL, LOCAL, Api, Event, Refused
from tests.promises.change_log import ChangeLog
from tests.promises.conftest import Sidecars
from topicpolicies.v1.policies_pb2 import TopicPolicies

PROPERTY = "__topic_policies_disabled"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SECONDS = 60


@pytest.fixture
async def api(sidecars: Sidecars) -> AsyncIterator[Api]:
    async with Api(sidecars.one.address) as api:
        yield api


@pytest.fixture
def home(admin: Admin) -> str:
    """A namespace of the test's own."""
    return admin.create_namespace("topics")


async def test_a_partitions_name_means_its_topic(api: Api, admin: Admin, home: str) -> None:
    await asyncio.to_thread(admin.create_topic, f"{home}/orders", partitions=2)
    topic = f"persistent://{home}/orders"
    for scope, values in ((LOCAL, (1, 2)), (GLOBAL, (3, 4))):
        for name, value in zip((f"{topic}-partition-1", topic), values, strict=True):
            answer = await api.update(name, {"max_producer_per_topic": value}, scope=scope)
            assert answer.document is not None and answer.document.topic == topic
            for asked in (topic, f"{topic}-partition-0"):
                found = await api.get(asked, scope)
                assert (found.topic, found.policies) == (topic, TopicPolicies(max_producer_per_topic=value))
    assert (await api.effective(f"{topic}-partition-1")).policies.max_producer_per_topic == 2
    documents = await api.documents(home)
    assert {(each.topic, each.scope) for each in documents} == {(topic, LOCAL), (topic, GLOBAL)}
    async with asyncio.timeout(SECONDS):
        while await asyncio.to_thread(admin.call, "GET", f"persistent/{home}/orders/maxProducers") != 2:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert (await api.delete(f"{topic}-partition-0")).outcome == "DELETED"
    assert (await api.get(topic)).policies is None


async def test_a_topic_that_looks_like_a_partition_but_is_none(api: Api, admin: Admin, home: str) -> None:
    """``orders-partition-x`` is a name like any other."""
    await asyncio.to_thread(admin.create_topic, f"{home}/orders-partition-x")
    topic = f"persistent://{home}/orders-partition-x"
    answer = await api.update(topic, {"max_producer_per_topic": 5})
    assert answer.document is not None and answer.document.topic == topic


async def test_a_topic_that_does_not_exist_is_refused(api: Api, home: str) -> None:
    with pytest.raises(Refused) as refused:
        await api.update(f"persistent://{home}/nothing", {"max_producer_per_topic": 5})
    assert (refused.value.code, refused.value.reason) == ("NOT_FOUND", "TOPIC_NOT_FOUND")


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_a_disabled_topic_that_is_named_is_absent_and_a_disabled_namespace_is_empty(api: Api, admin: Admin, home: str) -> None:
    async def call(method: str, path: str, body: object) -> None:
        await asyncio.to_thread(admin.call, method, path, body)

    async def until(kind: str) -> Event:
        async with asyncio.timeout(SECONDS):
            while (event := await anext(events)).kind != kind:
                seen.append(event)
            return event

    for name in ("on", "off"):
        await asyncio.to_thread(admin.create_topic, f"{home}/{name}", partitions=1)
        await call("POST", f"persistent/{home}/{name}/maxProducers", 1)
    await call("PUT", f"persistent/{home}/off/properties", {PROPERTY: "true"})
    on, off = (f"persistent://{home}/{name}" for name in ("on", "off"))
    seen: list[Event] = []
    events = api.watch(topics=[on, off], scopes=[LOCAL], timeout=4 * SECONDS)
    await until("synced")
    shown = {event.document.topic: event.document.policies for event in seen if event.document is not None}
    assert shown == {on: TopicPolicies(max_producer_per_topic=1), off: None}
    with pytest.raises(Refused) as refused:
        await api.update(off, {"max_producer_per_topic": 2})
    assert refused.value.code == "FAILED_PRECONDITION"
    await call("POST", f"persistent/{home}/on/maxProducers", 2)
    changed = (await until("change")).document
    assert changed is not None and (changed.topic, changed.policies) == (on, TopicPolicies(max_producer_per_topic=2))
    await call("PUT", f"namespaces/{home}/properties", {PROPERTY: "true"})
    async with asyncio.timeout(SECONDS):
        while (await until("status")).state != "DISABLED":
            pass


async def test_the_trace_of_a_change_is_in_its_message(broker: Broker, sidecars: Sidecars, admin: Admin, home: str) -> None:
    await asyncio.to_thread(admin.create_topic, f"{home}/orders")
    async with Api(sidecars.one.address, metadata=[("traceparent", TRACE)]) as api:
        await api.update(f"persistent://{home}/orders", {"max_producer_per_topic": 5})
    with ChangeLog(broker, home) as log:
        (stored,) = await asyncio.to_thread(log.stored)
    assert stored.properties["traceparent"] == TRACE
