"""Facts are read from a real broker's admin API, and are an error if no broker answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from tests.broker.admin import Admin as BrokerAdmin
from tests.broker.admin import AdminError
from tests.broker.pulsar_broker import Broker
from tests.ports import free_port
from topicpolicies_server.cluster.admin import AdminSource
from topicpolicies_server.cluster.cluster import Cluster
from topicpolicies_server.cluster.levels import PROPERTY, TopicFacts
from topicpolicies_server.core.errors import Kind
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar.admin import Admin


@pytest.fixture
async def source(broker: Broker) -> AsyncIterator[AdminSource]:
    """A source that asks the shared broker."""
    api = Admin(broker.admin_url)
    made = AdminSource(api, broker.service_url)
    yield made
    await made.close()
    await api.close()


async def test_a_broker_answers_with_all_facts_that_the_rules_need(source: AdminSource, admin: BrokerAdmin, namespace: str) -> None:
    await asyncio.to_thread(admin.call, "POST", f"namespaces/{namespace}/maxProducersPerTopic", 7)
    cluster = await source.cluster()
    assert cluster.name == "standalone"
    assert cluster.topic_policies_enabled
    assert cluster.broker is not None
    assert (cluster.broker.max_message_size, cluster.broker.max_ensemble) == (5 * 1024 * 1024, 5)
    clusters = await source.clusters()
    assert clusters is not None and "standalone" in clusters
    assert await source.tenant("public") == frozenset({"standalone"})
    facts = await source.namespace(namespace)
    assert facts.policies is not None and facts.policies.max_producer_per_topic == 7
    with pytest.raises(LogError) as error:
        await source.namespace("public/nowhere")
    assert error.value.kind is Kind.NOT_FOUND


async def test_the_disabling_property_is_read_from_namespaces_and_from_partitioned_topics(
    source: AdminSource, admin: BrokerAdmin, namespace: str
) -> None:
    topic = f"{namespace}/parted"
    await asyncio.to_thread(admin.create_topic, topic, partitions=2)
    await asyncio.to_thread(admin.create_topic, f"{namespace}/plain")
    await asyncio.to_thread(admin.call, "PUT", f"namespaces/{namespace}/properties", {PROPERTY: "true"})
    await asyncio.to_thread(admin.call, "PUT", f"persistent/{topic}/properties", {PROPERTY: "false", "other": "kept"})
    assert await source.topic(f"persistent://{topic}") == TopicFacts(True, {PROPERTY: "false", "other": "kept"})
    assert await source.topic(f"persistent://{namespace}/plain") == TopicFacts(True, {})
    assert await source.topic(f"persistent://{namespace}/missing") == TopicFacts(False, {})
    cluster = Cluster(source, time.monotonic)
    assert await cluster.disabled(namespace, f"persistent://{namespace}/plain")
    assert not await cluster.disabled(namespace, f"persistent://{topic}")
    await asyncio.to_thread(admin.call, "PUT", f"persistent/{topic}/properties", {PROPERTY: "true"})
    fresh = Cluster(source, time.monotonic)
    assert await fresh.disabled(namespace, f"persistent://{topic}")


async def test_many_topics_looked_up_at_once_have_the_same_facts_as_one_by_one(
    source: AdminSource, admin: BrokerAdmin, namespace: str
) -> None:
    topics = [f"persistent://{namespace}/topic-{number}" for number in range(48)]
    for number, topic in enumerate(topics):
        if number % 4 == 0:
            await asyncio.to_thread(admin.create_topic, topic.removeprefix("persistent://"), partitions=2)
        elif number % 2 == 0:
            await asyncio.to_thread(admin.create_topic, topic.removeprefix("persistent://"))
    await asyncio.to_thread(admin.call, "PUT", f"persistent/{namespace}/topic-0/properties", {PROPERTY: "true"})
    topics += [f"{topics[0]}-partition-1", f"{topics[0]}-partition-7", f"persistent://{namespace}/a%2Fb"]
    one_by_one = [await source.topic(topic) for topic in topics]
    assert not source._cached_lists._answers
    assert await asyncio.gather(*map(source.topic, topics)) == one_by_one
    assert len(source._cached_lists._answers) == 1
    assert one_by_one[:4] == [TopicFacts(True, {PROPERTY: "true"}), TopicFacts(False, {}), TopicFacts(True, {}), TopicFacts(False, {})]


async def test_a_lookup_creates_neither_the_topic_nor_a_change_log(source: AdminSource, admin: BrokerAdmin, namespace: str) -> None:
    assert (await source.topic(f"persistent://{namespace}/missing")).exists is False
    await source.namespace(namespace)
    for local in ("missing", "__change_events"):
        with pytest.raises(AdminError) as error:
            await asyncio.to_thread(admin.call, "GET", f"persistent/{namespace}/{local}/partitions")
        assert error.value.status == 404


async def test_a_lookup_fails_in_bounded_time_if_no_broker_answers() -> None:
    api = Admin(f"http://127.0.0.1:{free_port()}")
    source = AdminSource(api, "pulsar://127.0.0.1:1")
    began = time.monotonic()
    with pytest.raises(LogError) as error:
        await source.topic("persistent://public/default/one")
    assert error.value.kind is Kind.UNAVAILABLE
    assert time.monotonic() - began < 30
    await source.close()
    await api.close()
