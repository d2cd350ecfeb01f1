"""Brokers and a log with leaders: they skip announcements, obey the leader's events, and can write again once the leader has ended."""

from __future__ import annotations

import asyncio
import random
import uuid
from contextlib import suppress

import pytest

from tests.broker.admin import Admin, AdminError
from tests.broker.fixtures import BrokerOf
from tests.broker.pulsar_broker import Broker
from topicpolicies.v1.service_pb2 import UpdatePolicyRequest
from topicpolicies_server.config import Limits
from topicpolicies_server.core.chains.sequencer import Request, Result
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.logs.change_log import NotLeader
from topicpolicies_server.logs.pulsar import PulsarLimits, PulsarLog
from topicpolicies_server.namespaces.namespace import Namespace
from topicpolicies_server.namespaces.registry import Registry
from topicpolicies_server.rpc.requests import Author, read_update


class Sidecar:
    """A sidecar in this process that leads the log or tries to."""

    def __init__(self, broker: Broker, address: str, **limits: float) -> None:
        self.log = PulsarLog(broker.service_url, broker.admin_url, advertised=lambda: address, limits=PulsarLimits(close_seconds=3.0))
        self.registry = Registry(self.log, Limits(**limits), FoldContext(), seed=random.getrandbits(32))  # type: ignore[arg-type]

    def of(self, namespace: str) -> Namespace:
        return self.registry.get(namespace)

    async def producers(self, topic: str, value: int) -> Result:
        """Sets ``max_producer_per_topic``."""
        return await self.of(topic.removeprefix("persistent://").rsplit("/", 1)[0]).update(setting(topic, value))

    async def close(self) -> None:
        await self.registry.close()
        await self.log.close()


def setting(topic: str, value: int) -> Request:
    message = UpdatePolicyRequest(topic=topic, request_id=str(uuid.uuid4()))
    message.policies.max_producer_per_topic = value
    message.update_mask.paths.append("max_producer_per_topic")
    return read_update(message, Author())[1]


async def refused(sidecar: Sidecar, topic: str) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        await sidecar.producers(topic, 99)
    return caught.value


async def in_time(sidecar: Sidecar, topic: str) -> Result:
    """Repeats an update until the sidecar leads."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await sidecar.producers(topic, 2)
            except NotLeader:
                await asyncio.sleep(0.02)


def a_topic(admin: Admin, partitions: int) -> tuple[str, str]:
    """Creates a namespace and a topic in it, and returns their names."""
    namespace = admin.create_namespace("led")
    if partitions:
        admin.partition_change_events(namespace, partitions)
    admin.create_topic(f"{namespace}/orders")
    return namespace, f"{namespace}/orders"


async def eventually_shows(admin: Admin, topic: str, policy: str, value: object) -> None:
    async with asyncio.timeout(20):
        while True:
            with suppress(AdminError):  # while the broker loads the namespace again
                if await asyncio.to_thread(admin.call, "GET", f"persistent/{topic}/{policy}") == value:
                    return
            await asyncio.sleep(0.1)


@pytest.mark.broker
@pytest.mark.parametrize("version", ["4.2.4", pytest.param("4.0.0", marks=pytest.mark.xdist_group("old broker"))])
@pytest.mark.parametrize("partitions", [0, 3], ids=["plain", "3-partitions"])
async def test_brokers_skip_announcements_and_write_again_once_the_leader_has_ended(
    broker_of: BrokerOf, version: str, partitions: int
) -> None:
    broker = await asyncio.to_thread(broker_of, version)
    with broker.admin() as admin:
        namespace, topic = a_topic(admin, partitions)
        full = f"persistent://{topic}"
        for term, address in enumerate(("one:1", "two:2"), start=1):
            sidecar = Sidecar(broker, address)
            assert (await sidecar.producers(full, term)).version
            await eventually_shows(admin, topic, "maxProducers", term)
            if partitions:  # without partitions the broker retries for half a minute
                with pytest.raises(AdminError) as locked_out:
                    await asyncio.to_thread(admin.call, "POST", f"persistent/{topic}/maxConsumers", 99)
                assert locked_out.value.status == 500
            await sidecar.close()
        await asyncio.to_thread(admin.call, "POST", f"persistent/{topic}/maxConsumers", 7)
        await asyncio.to_thread(admin.compact_change_events, namespace)
        await asyncio.to_thread(admin.call, "PUT", f"namespaces/{namespace}/unload")
        await eventually_shows(admin, topic, "maxProducers", 2)
        await eventually_shows(admin, topic, "maxConsumers", 7)


@pytest.mark.broker
async def test_a_follower_names_the_leader_reads_its_changes_and_leads_after_it(broker: Broker, admin: Admin) -> None:
    _, topic = a_topic(admin, 3)
    full = f"persistent://{topic}"
    leader, follower = Sidecar(broker, "leader:1"), Sidecar(broker, "follower:2")
    written = await leader.producers(full, 1)
    error = await refused(follower, full)
    assert isinstance(error, NotLeader)
    assert error.metadata["leader"] == "leader:1"
    namespace = follower.of(topic.rsplit("/", 1)[0])
    head = await namespace.get(setting(full, 0).key, written.version)
    assert head is not None
    assert (head.version, head.document) == (written.version, written.document)
    await leader.close()
    assert (await in_time(follower, full)).previous == written.version
    await follower.close()


@pytest.mark.broker
async def test_a_sidecar_that_only_reads_does_not_lead_and_brokers_can_still_write(broker: Broker, admin: Admin) -> None:
    namespace, topic = a_topic(admin, 0)
    await asyncio.to_thread(admin.call, "POST", f"persistent/{topic}/maxConsumers", 3)
    reader = Sidecar(broker, "reader:1")
    assert await reader.of(namespace).get(setting(f"persistent://{topic}", 0).key) is not None
    await asyncio.sleep(0.5)
    await asyncio.to_thread(admin.call, "POST", f"persistent/{topic}/maxConsumers", 4)  # the broker still writes
    # The broker's producer is still connected, so no sidecar can lead, and the refusal names no leader.
    writer = Sidecar(broker, "writer:2", update_timeout_seconds=4.0)
    error = await refused(writer, f"persistent://{topic}")
    assert isinstance(error, NotLeader)
    assert "leader" not in error.metadata
    await asyncio.gather(reader.close(), writer.close())


@pytest.mark.broker
@pytest.mark.parametrize("version", ["4.2.4", pytest.param("4.0.0", marks=pytest.mark.xdist_group("old broker"))])
async def test_while_a_broker_is_connected_for_writing_no_refusal_names_a_former_leader(broker_of: BrokerOf, version: str) -> None:
    broker = await asyncio.to_thread(broker_of, version)
    with broker.admin() as admin:
        _, topic = a_topic(admin, 0)
        former = Sidecar(broker, "former:1")
        written = await former.producers(f"persistent://{topic}", 1)
        await eventually_shows(admin, topic, "maxProducers", 1)
        await former.close()
        await asyncio.to_thread(admin.call, "POST", f"persistent/{topic}/maxConsumers", 3)
    writer = Sidecar(broker, "writer:2", update_timeout_seconds=4.0)
    error = await refused(writer, f"persistent://{topic}")
    assert isinstance(error, NotLeader)
    assert "leader" not in error.metadata
    head = await writer.of(topic.rsplit("/", 1)[0]).get(setting(f"persistent://{topic}", 0).key, written.version)
    assert head is not None
    await writer.close()


@pytest.mark.broker
async def test_sidecars_lead_different_namespaces_and_take_over_those_of_one_that_has_ended(broker: Broker, admin: Admin) -> None:
    topics = [f"persistent://{a_topic(admin, 0)[1]}" for _ in range(4)]
    one, two = Sidecar(broker, "one:1"), Sidecar(broker, "two:2")
    firsts = [one, two, one, two]
    written = [await sidecar.producers(topic, 1) for sidecar, topic in zip(firsts, topics, strict=True)]
    for sidecar, topic in zip(firsts, topics, strict=True):  # the first writer keeps leading
        other, address = (two, "one:1") if sidecar is one else (one, "two:2")
        assert (await refused(other, topic)).metadata["leader"] == address
    await one.close()
    results = [await in_time(two, topic) for topic in topics]
    assert [result.previous for result in results] == [result.version for result in written]
    await two.close()
