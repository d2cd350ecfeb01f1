"""Brokers and a log with leaders: they skip announcements, obey the leader's events, and can write again once the leader has ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.admin import Admin, AdminError
from tests.broker.fixtures import BrokerOf
from tests.broker.pulsar_broker import Broker
from tests.promises.api import Api, Change, Delete, Refused, Update, refusal
from tests.promises.server_process import ServerProcess
from tests.promises.shared.delaying import DelayingProxy
from topicpolicies.v1.policies_pb2 import TopicPolicies

pytestmark = pytest.mark.broker
VERSIONS = ["4.2.4", "4.0.0"]
IMPATIENT = ("--update-timeout-seconds", "4")
SECONDS = 40


@contextlib.asynccontextmanager
async def sidecar(broker: Broker, output: Path, *options: str) -> AsyncIterator[tuple[ServerProcess, Api]]:
    """Runs a sidecar that leads or tries to."""
    log = () if "--pulsar" in options else ("--pulsar", broker.service_url)
    server = ServerProcess([*log, "--admin-url", broker.admin_url, "--writer", "exclusive", *options], output)
    await server.start()
    try:
        async with Api(server.address) as api:
            yield server, api
    finally:
        await asyncio.to_thread(server.stop)


async def refused(api: Api, topic: str) -> Refused:
    """Returns the refusal of an update at a sidecar that does not lead."""
    refused = await refusal(api.update(topic, {"max_producer_per_topic": 99}))
    assert (refused.code, refused.reason) == ("UNAVAILABLE", "NOT_LEADER")
    return refused


async def in_time(api: Api, topic: str, value: int) -> Change:
    """Repeats an update until the sidecar leads."""
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                return await api.update(topic, {"max_producer_per_topic": value})
            except Refused as error:
                assert error.code == "UNAVAILABLE", error
                await asyncio.sleep(0.02)


def a_topic(admin: Admin, partitions: int = 0) -> tuple[str, str]:
    """Creates a namespace and a topic in it, and returns their names."""
    namespace = admin.create_namespace("led")
    if partitions:
        admin.partition_change_events(namespace, partitions)
    admin.create_topic(f"{namespace}/orders")
    return namespace, f"{namespace}/orders"


async def call(admin: Admin, method: str, topic: str, policy: str, value: Any = None) -> Any:
    """Makes a call of the admin API."""
    return await asyncio.to_thread(admin.call, method, f"persistent/{topic}/{policy}", value)


async def becomes(admin: Admin, topic: str, policy: str, value: object) -> None:
    """Waits until a broker shows a value."""
    async with asyncio.timeout(SECONDS):
        while True:
            with contextlib.suppress(AdminError):  # while the broker loads the namespace again
                if await call(admin, "GET", topic, policy) == value:
                    return
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("partitions", [0, 3], ids=["plain", "3-partitions"])
async def test_brokers_obey_leaders_and_write_again_after_them(broker_of: BrokerOf, version: str, partitions: int, tmp_path: Path) -> None:
    broker = await asyncio.to_thread(broker_of, version)
    with broker.admin() as admin:
        namespace, topic = await asyncio.to_thread(a_topic, admin, partitions)
        for term in (1, 2):
            async with sidecar(broker, tmp_path / f"{term}.log") as (_, api):
                assert (await in_time(api, f"persistent://{topic}", term)).version
                await becomes(admin, topic, "maxProducers", term)
                if partitions:  # without partitions the broker retries for half a minute
                    with pytest.raises(AdminError) as locked_out:
                        await call(admin, "POST", topic, "maxConsumers", 99)
                    assert locked_out.value.status == 500
        await call(admin, "POST", topic, "maxConsumers", 7)
        await asyncio.to_thread(admin.compact_change_events, namespace)
        await asyncio.to_thread(admin.call, "PUT", f"namespaces/{namespace}/unload")
        await becomes(admin, topic, "maxProducers", 2)
        await becomes(admin, topic, "maxConsumers", 7)


async def test_a_follower_forwards_to_the_leader_reads_its_changes_and_leads_after_it(broker: Broker, admin: Admin, tmp_path: Path) -> None:
    """Of four namespaces each sidecar leads those that it was called for first, until it ends."""
    topics = [f"persistent://{(await asyncio.to_thread(a_topic, admin, number % 2 * 3))[1]}" for number in range(4)]
    async with sidecar(broker, tmp_path / "two.log") as (_, second):
        async with sidecar(broker, tmp_path / "one.log") as (_, first):
            firsts = [first, second, first, second]
            written = [await in_time(leader, topic, 1) for leader, topic in zip(firsts, topics, strict=True)]
            for leader, topic, change in zip(firsts, topics, written, strict=True):
                follower = second if leader is first else first
                read = await follower.get(topic, at_least_version=change.version)
                assert (read.version, read.policies) == (change.version, TopicPolicies(max_producer_per_topic=1))
                forwarded = await follower.update(topic, {"max_producer_per_topic": 2}, version=change.version)
                assert (forwarded.outcome, forwarded.previous_version) == ("APPLIED", change.version)
                late = await refusal(follower.delete(topic, version=change.version))
                assert (late.code, late.reason) == ("ABORTED", "PRECONDITION_FAILED"), "the leader's own answer"
            changes: list[Update | Delete] = [
                Update(topic, TopicPolicies(max_consumer_per_topic=number)) for number in (3, 4) for topic in topics
            ]
            changes.insert(2, Delete("nowhere"))
            results = await second.batch(changes)
            nowhere = results.pop(2)
            assert isinstance(nowhere, Refused) and nowhere.reason == "MALFORMED_NAME"
            made = [each for each in results if isinstance(each, Change)]
            assert [each.outcome for each in made] == ["APPLIED"] * 8
            for topic, change in zip(topics, made[4:], strict=True):
                assert (await first.get(topic, at_least_version=change.version)).version == change.version
        for topic, change in zip(topics, made[4:], strict=True):
            assert (await in_time(second, topic, 9)).previous_version == change.version


async def test_a_leader_that_can_not_be_reached_is_named(broker: Broker, admin: Admin, tmp_path: Path) -> None:
    _, topic = await asyncio.to_thread(a_topic, admin)
    full = f"persistent://{topic}"
    async with (
        sidecar(broker, tmp_path / "one.log", "--advertise", "127.0.0.1:1") as (_, first),
        sidecar(broker, tmp_path / "two.log", *IMPATIENT) as (_, second),
    ):
        written = await in_time(first, full, 1)
        assert (await second.get(full, at_least_version=written.version)).version == written.version
        assert (await refused(second, full)).metadata["leader"] == "127.0.0.1:1"
        (result,) = await second.batch([Update(full, TopicPolicies(max_producer_per_topic=99))])
        assert isinstance(result, Refused) and (result.reason, result.metadata["leader"]) == ("NOT_LEADER", "127.0.0.1:1")
        assert (await first.get(full)).version == written.version, "nothing was changed"


async def test_a_new_leader_reads_everything_before_its_first_answer(broker: Broker, admin: Admin, tmp_path: Path) -> None:
    _, topic = await asyncio.to_thread(a_topic, admin)
    full = f"persistent://{topic}"
    with DelayingProxy(broker) as proxy:
        behind = ("--pulsar", proxy.service_url)
        async with sidecar(broker, tmp_path / "two.log", *behind) as (_, second):
            async with sidecar(broker, tmp_path / "one.log") as (one, first):
                version = (await in_time(first, full, 1)).version
                assert (await second.get(full, at_least_version=version)).policies == TopicPolicies(max_producer_per_topic=1)
                await asyncio.to_thread(proxy.hold)
                last = await first.update(full, {"max_producer_per_topic": 2})
                await asyncio.to_thread(one.kill)
            back = asyncio.create_task(in_time(second, full, 1))
            await asyncio.sleep(3)
            assert not back.done(), "it answered from what it knew"
            assert await asyncio.to_thread(proxy.release) > 0
            answer = await back
            assert (answer.outcome, answer.previous_version) == ("APPLIED", last.version)
        await becomes(admin, topic, "maxProducers", 1)


async def test_a_sidecar_that_only_reads_leaves_the_log_to_brokers(broker: Broker, admin: Admin, tmp_path: Path) -> None:
    _, topic = await asyncio.to_thread(a_topic, admin)
    await call(admin, "POST", topic, "maxConsumers", 3)
    async with sidecar(broker, tmp_path / "one.log", *IMPATIENT) as (_, api):
        assert (await api.get(f"persistent://{topic}")).policies == TopicPolicies(max_consumer_per_topic=3)
        await asyncio.sleep(0.5)
        await call(admin, "POST", topic, "maxConsumers", 4)
        # The broker's producer is still connected, so no sidecar can lead, and the refusal names no leader.
        assert "leader" not in (await refused(api, f"persistent://{topic}")).metadata


@pytest.mark.parametrize("version", VERSIONS)
async def test_no_refusal_names_a_former_leader(broker_of: BrokerOf, version: str, tmp_path: Path) -> None:
    broker = await asyncio.to_thread(broker_of, version)
    with broker.admin() as admin:
        _, topic = await asyncio.to_thread(a_topic, admin)
        async with sidecar(broker, tmp_path / "former.log") as (_, former):
            written = await in_time(former, f"persistent://{topic}", 1)
            await becomes(admin, topic, "maxProducers", 1)
        await call(admin, "POST", topic, "maxConsumers", 3)
    async with sidecar(broker, tmp_path / "writer.log", *IMPATIENT) as (_, api):
        assert "leader" not in (await refused(api, f"persistent://{topic}")).metadata
        assert (await api.get(f"persistent://{topic}", at_least_version=written.version)).policies is not None
