"""A broker is upgraded while a sidecar runs: a tombstone that 4.0.0 would misread is written then, and a watch goes on in order."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

import pulsar
import pytest

from tests.broker.admin import CHANGE_EVENTS
from tests.broker.fixtures import MakeBroker
from tests.logs.pulsar.conftest import eventually
from tests.promises.server_process import ServerProcess
from topicpolicies import AsyncClient, Changed, Scope
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.logs.routing import GLOBAL_PREFIX

OLD, NEW = "4.0.0", "4.2.4"
WHILE_UPGRADED = 20


class Message(NamedTuple):
    """One message of the log, as it is stored."""

    key: str
    tombstone: bool


def stored(service_url: str, namespace: str) -> list[Message]:
    """Returns all messages of a namespace's log. Blocking."""
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        reader = client.create_reader(f"persistent://{namespace}/{CHANGE_EVENTS}", pulsar.MessageId.earliest)
        found = []
        while reader.has_message_available():
            message = reader.read_next(10_000)
            found.append(Message(message.partition_key(), not message.data()))
        return found
    finally:
        client.close()


def finds(message: Message, service_url: str, namespace: str) -> bool:
    """Whether a message is stored. Blocking."""
    return message in stored(service_url, namespace)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.stages_compaction  # a compaction erases the tombstone that the test looks for
async def test_the_tombstone_of_a_global_document_is_written_once_a_4_0_0_broker_is_upgraded(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    broker = make_broker(OLD)
    await asyncio.to_thread(broker.start)
    with broker.admin() as admin:
        namespace = admin.create_namespace()
        admin.create_topic(f"{namespace}/orders")
    topic = f"persistent://{namespace}/orders"
    server = ServerProcess(["--pulsar", broker.service_url, "--admin-url", broker.admin_url], tmp_path / "server.log")
    await server.start()
    try:
        async with AsyncClient(server.address) as client:
            seen: list[int] = []

            async def watch() -> None:
                async for event in client.watch(topics=[topic], scopes=[Scope.LOCAL]):
                    if isinstance(event, Changed) and event.document.policies is not None:
                        seen.append(event.document.policies.max_producer_per_topic)

            watching = asyncio.create_task(watch())
            await client.update(topic, max_producer_per_topic=1)
            await client.update(topic, scope=Scope.GLOBAL, max_consumer_per_topic=7)
            await client.delete(topic, scope=Scope.GLOBAL)
            before = await asyncio.to_thread(stored, broker.service_url, namespace)
            assert {message.key for message in before if not message.tombstone} == {topic}, "both scopes have one key"
            assert not any(message.tombstone for message in before), "a tombstone would be the LOCAL document's"

            await asyncio.to_thread(broker.stop)
            broker.upgrade(NEW)
            starting = asyncio.create_task(asyncio.to_thread(broker.start))
            for value in range(2, WHILE_UPGRADED):  # the updates wait for the broker
                await client.update(topic, timeout=60, max_producer_per_topic=value)
            await starting

            buried = Message(GLOBAL_PREFIX + topic, tombstone=True)
            await eventually(
                lambda: asyncio.to_thread(finds, buried, broker.service_url, namespace), 150
            )  # the sidecar looks up the brokers' versions once a minute
            await client.update(topic, scope=Scope.GLOBAL, timeout=60, max_consumer_per_topic=8)
            assert (await asyncio.to_thread(stored, broker.service_url, namespace))[-1].key == GLOBAL_PREFIX + topic
            both = await client.get_both(topic)
            assert {scope: document.policies for scope, document in both.items()} == {
                Scope.LOCAL: TopicPolicies(max_producer_per_topic=WHILE_UPGRADED - 1),
                Scope.GLOBAL: TopicPolicies(max_consumer_per_topic=8),
            }
            await eventually(lambda: seen[-1:] == [WHILE_UPGRADED - 1])
            assert seen == sorted(set(seen)), "each value at most once, in order, up to the last"
            watching.cancel()
            with broker.admin() as admin:
                assert admin.call("GET", "brokers/version").startswith(NEW)
                await eventually(lambda: admin.call("GET", f"persistent/{namespace}/orders/maxProducers") == WHILE_UPGRADED - 1)
    finally:
        server.kill()
