"""Messages that were computed from an old document, written into the log one by one as a broker or a sidecar writes them late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from tests.broker.admin import Admin
from tests.broker.pulsar_broker import Broker
from tests.promises.api import Api
from tests.promises.change_log import ChangeLog, Stored, admin_path
from tests.promises.conftest import Serving, Sidecars
from tests.promises.documents import OFFLOAD
from tests.promises.watching import Watching
from topicpolicies.v1.policies_pb2 import TopicPolicies

SECONDS = 20


class Both(NamedTuple):
    """Two sidecars, and the log that they read."""

    apis: tuple[Api, Api]
    log: ChangeLog
    admin: Admin
    topic: str

    async def broker_writes(self, **document: Any) -> None:
        """Writes a document into the log as a broker does."""
        await asyncio.to_thread(self.log.write, self.topic, document)

    async def become(self, **policies: Any) -> None:
        """Waits until both sidecars and the broker show a document, and keep to it."""
        wanted, seen = TopicPolicies(**policies), {}
        async with asyncio.timeout(SECONDS):
            steady = 0
            while steady < 5:
                documents = [(await api.get(self.topic)).policies for api in self.apis]
                seen = {"sidecars": documents, "broker": await asyncio.to_thread(self._shown)}
                right = documents == [wanted, wanted] and seen["broker"] == (wanted.max_producer_per_topic, wanted.max_consumer_per_topic)
                steady = steady + 1 if right else 0
                await asyncio.sleep(0.1)

    async def stored(self) -> list[Stored]:
        """Returns the messages of the log."""
        return await asyncio.to_thread(self.log.stored)

    def _shown(self) -> tuple[int, int]:
        values = (self.admin.call("GET", f"{admin_path(self.topic)}/{path}") for path in ("maxProducers", "maxConsumers"))
        first, second = (value or 0 for value in values)
        return first, second


@pytest.fixture
async def both(broker: Broker, admin: Admin, sidecars: Sidecars) -> AsyncIterator[Both]:
    namespace = await asyncio.to_thread(admin.create_namespace, "stale")
    admin.compact_only_on_request(namespace)
    await asyncio.to_thread(admin.create_topic, f"{namespace}/orders")
    await asyncio.to_thread(admin.call, "POST", f"persistent/{namespace}/orders/maxProducers", 1)
    topic = f"persistent://{namespace}/orders"
    async with Api(sidecars.one.address) as first, Api(sidecars.two.address) as second:
        with ChangeLog(broker, namespace) as log:
            made = Both((first, second), log, admin, topic)
            await made.become(max_producer_per_topic=1)
            yield made


async def test_a_document_of_an_old_base_changes_only_what_it_changed(both: Both) -> None:
    await both.apis[0].update(both.topic, {"max_consumer_per_topic": 5})
    await both.broker_writes(maxProducerPerTopic=2)  # from the document before
    await both.become(max_producer_per_topic=2, max_consumer_per_topic=5)


async def test_a_document_of_an_old_base_does_not_bring_a_setting_back(both: Both) -> None:
    await both.apis[0].update(both.topic, {"max_consumer_per_topic": 5})
    await both.apis[1].update(both.topic, mask=["max_producer_per_topic"])
    await both.broker_writes(maxProducerPerTopic=1, maxConsumerPerTopic=6)
    await both.become(max_consumer_per_topic=6)


async def test_a_document_that_sets_a_setting_back_is_obeyed(both: Both) -> None:
    await both.apis[0].update(both.topic, {"max_consumer_per_topic": 5})
    await both.broker_writes(maxProducerPerTopic=2, maxConsumerPerTopic=5)
    await both.become(max_producer_per_topic=2, max_consumer_per_topic=5)
    await both.broker_writes(maxProducerPerTopic=1, maxConsumerPerTopic=5)
    await both.become(max_producer_per_topic=1, max_consumer_per_topic=5)


async def test_messages_of_sidecars_that_come_again_change_nothing(both: Both) -> None:
    for value in (5, 6):
        await both.apis[0].update(both.topic, {"max_consumer_per_topic": value})
        await both.broker_writes(maxProducerPerTopic=value)  # stale: a repair follows
        await both.become(max_producer_per_topic=value, max_consumer_per_topic=value)
    mine = [each for each in await both.stored() if not each.by_broker]
    assert len(mine) >= 4, "two updates, each with a repair"
    for each in mine:
        await asyncio.to_thread(both.log.write_event, each.key, each.event, ["standalone"], each.properties)
        await both.become(max_producer_per_topic=6, max_consumer_per_topic=6)


async def test_a_deletion_stands_over_documents_of_before(both: Both) -> None:
    await both.apis[0].update(both.topic, {"max_consumer_per_topic": 5})
    deleted = await both.apis[0].delete(both.topic)
    assert deleted.outcome == "DELETED"
    await both.broker_writes(maxProducerPerTopic=1, maxConsumerPerTopic=6)
    await both.become(max_consumer_per_topic=6)


async def test_a_watch_shows_no_secret_of_a_stale_document(both: Both, broker: Broker, serving: Serving) -> None:
    path = f"{admin_path(both.topic)}/offloadPolicies"
    await asyncio.to_thread(both.admin.call, "POST", path, OFFLOAD)
    async with asyncio.timeout(SECONDS):
        while not (stored := (await both.stored())[-1]).policies.get("offloadPolicies"):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    hiding = await serving("--pulsar", broker.service_url, "--admin-url", broker.admin_url)
    async with Api(hiding.address) as api, Watching(api, topics=[both.topic], mode="EVERY") as watch:
        events = await watch.synced()
        await both.apis[0].update(both.topic, {"max_consumer_per_topic": 5})
        await both.broker_writes(**{**stored.policies, "maxProducerPerTopic": 2})  # without the limit of consumers
        events += [await watch.change(), await watch.change()]
    last = events[-1].document
    assert last is not None and last.policies is not None
    assert (last.policies.max_producer_per_topic, last.policies.max_consumer_per_topic) == (2, 5), "the log has another document"
    assert b"bucket" in events[-1].raw and not [event for event in events if b"hush" in event.raw]
