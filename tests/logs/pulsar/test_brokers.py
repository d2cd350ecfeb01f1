"""How a real broker and the log interpret each other's events: partitions, schemas, scopes."""

from __future__ import annotations

import json

import pytest

from tests.broker.admin import CHANGE_EVENTS
from tests.broker.fixtures import BrokerOf
from tests.broker.pulsar_broker import Broker
from tests.eventually import eventually
from tests.logs.pulsar.conftest import Following
from tests.logs.samples import a_key, a_tombstone, an_update
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import split
from topicpolicies_server.core.policies.events import Action, Event
from topicpolicies_server.logs.avro import PULSAR_4_2_4
from topicpolicies_server.logs.change_log import LogError


async def test_a_broker_writes_each_key_to_the_partition_that_partition_of_returns(
    following: Following, partitioned_namespace: str
) -> None:
    topics = [f"{partitioned_namespace}/topic-{n}" for n in range(6)] + [f"{partitioned_namespace}/größe-{n}" for n in range(2)]
    for topic in topics:
        await following.ask("PUT", f"persistent/{topic}")
        await following.ask("POST", f"persistent/{topic}/maxProducers", 3, isGlobal="false")
        await following.ask("POST", f"persistent/{topic}/maxProducers", 4, isGlobal="true")
    log, recorder = await following.open(partitioned_namespace)
    assert log.partitions == 3
    keys = {PolicyKey(f"persistent://{topic}", scope) for topic in topics for scope in Scope}
    await recorder.until(lambda: keys <= {placed.event.key for placed in recorder.entries if placed.event})
    for placed in recorder.entries:
        assert placed.event is not None
        assert placed.partition == log.partition_of(placed.event.key)
        assert placed.event.document == split(TopicPolicies(max_producer_per_topic=4 if placed.event.key.scope is Scope.GLOBAL else 3))
        assert not placed.event.replicated
    assert len({placed.partition for placed in recorder.entries}) == 3


async def test_a_broker_applies_events_that_are_appended_in_any_partition(following: Following, partitioned_namespace: str) -> None:
    log, recorder = await following.open(partitioned_namespace)
    keys = [a_key(partitioned_namespace, n, scope) for n in range(4) for scope in Scope]
    for n in range(4):
        await following.ask("PUT", f"persistent/{partitioned_namespace}/topic-{n}")
    for key in keys:
        recorder.append(log, Event(key, Action.UPDATE, split(TopicPolicies(max_producer_per_topic=10 + key.scope)), an_update(key).stamp))
    await recorder.until_settled(len(keys))
    assert len({placed.partition for placed in recorder.places}) > 1

    async def limits(scope: Scope) -> list[int]:
        question = "maxProducers"
        is_global = "true" if scope is Scope.GLOBAL else "false"
        return [
            await following.ask("GET", f"persistent/{partitioned_namespace}/topic-{n}/{question}", isGlobal=is_global) for n in range(4)
        ]

    async def obeyed() -> bool:
        return [await limits(scope) for scope in Scope] == [[11] * 4, [12] * 4]

    await eventually(obeyed)
    for key in keys:
        if key.scope is Scope.LOCAL:
            recorder.append(log, a_tombstone(key))
    await recorder.until_settled(len(keys) + 4)

    async def only_the_local_ones_are_gone() -> bool:
        return [await limits(scope) for scope in Scope] == [[None] * 4, [12] * 4]

    await eventually(only_the_local_ones_are_gone)


async def test_the_first_write_registers_the_schema_of_brokers_and_no_other(following: Following, namespace: str) -> None:
    log, recorder = await following.open(namespace)
    recorder.append(log, an_update(a_key(namespace)))
    await recorder.until_settled(1)
    await following.ask("PUT", f"persistent/{namespace}/topic-0")
    await following.ask("POST", f"persistent/{namespace}/topic-0/maxProducers", 3)  # the broker has now written too
    await recorder.until(lambda: len(recorder.entries) == 2)
    versions = (await following.ask("GET", f"schemas/{namespace}/{CHANGE_EVENTS}/schemas"))["getSchemaResponses"]
    assert len(versions) == 1
    assert json.loads(versions[0]["data"]) == json.loads(PULSAR_4_2_4)


@pytest.fixture
def old_broker(broker_of: BrokerOf) -> Broker:
    """A broker whose message keys are the same for both scopes."""
    return broker_of("4.0.0")


@pytest.mark.slow
@pytest.mark.broker
async def test_with_an_old_broker_both_scopes_share_a_message_key_and_a_global_tombstone_is_refused(old_broker: Broker) -> None:
    with old_broker.admin() as admin:
        following = Following(old_broker, admin)
        namespace = admin.create_namespace()
        admin.create_topic(f"{namespace}/topic-0")
        log, recorder = await following.open(namespace)
        local, everywhere = (a_key(namespace, 0, scope) for scope in Scope)
        recorder.append(log, Event(everywhere, Action.UPDATE, split(TopicPolicies(max_producer_per_topic=7)), an_update(everywhere).stamp))
        recorder.append(log, Event(local, Action.UPDATE, split(TopicPolicies(max_producer_per_topic=8)), an_update(local).stamp))
        await recorder.until_settled(2)
        assert [placed.event.key for placed in recorder.entries if placed.event] == [everywhere, local]
        with pytest.raises(LogError, match=r"4\.0\.6"):
            log.append(a_tombstone(everywhere))

        async def obeyed() -> bool:
            question = f"persistent/{namespace}/topic-0/maxProducers"
            return [await following.ask("GET", question, isGlobal=flag) for flag in ("true", "false")] == [7, 8]

        await eventually(obeyed)
        for change_log in following.logs:
            await change_log.close()
    assert recorder.complaints == []
