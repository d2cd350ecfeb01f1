"""A sidecar that is behind the log: what it answers takes everything into account that was written before the request.

The messages that the broker sends it are held back, as by a slow connection; everything else is real.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.broker.admin import CHANGE_EVENTS, Admin
from tests.broker.pulsar_broker import Broker
from tests.promises.api import Api, Change, Delete, Document, Refused, Update
from tests.promises.change_log import admin_path
from tests.promises.server_process import ServerProcess
from topicpolicies.v1.policies_pb2 import TopicPolicies

from .delaying import DelayingProxy

T = TypeVar("T")
HELD_SECONDS = 0.5


class Lagging:
    """A namespace with two sidecars, both of which have read its log."""

    def __init__(self, proxy: DelayingProxy, admin: Admin, namespace: str, lagging: Api, other: Api) -> None:
        self.proxy = proxy
        self.admin = admin
        self.namespace = namespace
        self.lagging, self.other = lagging, other

    async def topic(self, name: str, value: int | None = 1) -> str:
        """Creates a topic of which both sidecars know the same value."""
        await asyncio.to_thread(self.admin.create_topic, f"{self.namespace}/{name}")
        topic = f"persistent://{self.namespace}/{name}"
        version = "" if value is None else (await self.lagging.update(topic, {"max_producer_per_topic": value})).version
        for sidecar in (self.lagging, self.other):
            assert shown(await sidecar.get(topic, at_least_version=version)) == (value or 0)
        return topic

    async def held(self, *requests: asyncio.Task[T]) -> list[T]:
        """Returns the answers to requests, none of which may come before the messages that are held back have been read."""
        await asyncio.sleep(HELD_SECONDS)
        assert not any(request.done() for request in requests), "it answered from what it knew"
        assert await asyncio.to_thread(self.proxy.release) > 0, "without messages that are held back the test proves nothing"
        return await asyncio.wait_for(asyncio.gather(*requests), 20)

    def set(self, topic: str, value: int, **options: object) -> asyncio.Task[Change]:
        """Has the sidecar that is behind set the number of producers."""
        return asyncio.ensure_future(self.lagging.update(topic, {"max_producer_per_topic": value}, **options))


def shown(document: Document) -> int:
    """Returns the number of producers; 0 if there is none."""
    return (document.policies or TopicPolicies()).max_producer_per_topic


@pytest.fixture(scope="module")
def sidecars(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DelayingProxy, ServerProcess, ServerProcess]]:
    """One sidecar behind a proxy, and another one."""
    home: Path = tmp_path_factory.mktemp("lagging")
    with DelayingProxy(broker) as proxy:
        servers = [
            ServerProcess(["--pulsar", url, "--admin-url", broker.admin_url, "--join-patience-seconds", "0"], home / f"{name}.log")
            for name, url in (("lagging", proxy.service_url), ("other", broker.service_url))
        ]
        try:
            for server in servers:
                asyncio.run(server.start())
            yield proxy, servers[0], servers[1]
        finally:
            for server in servers:
                server.kill()


@pytest.fixture(params=[0, 3], ids=["plain", "3-partitions"])
async def place(
    sidecars: tuple[DelayingProxy, ServerProcess, ServerProcess], admin: Admin, request: pytest.FixtureRequest
) -> AsyncIterator[Lagging]:
    proxy, lagging, other = sidecars
    namespace = await asyncio.to_thread(admin.create_namespace, "lagging")
    admin.compact_only_on_request(namespace)
    if request.param:
        rule = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": request.param}
        await asyncio.to_thread(admin.call, "POST", f"namespaces/{namespace}/autoTopicCreation", rule)
    async with Api(lagging.address) as one, Api(other.address) as two:
        yield Lagging(proxy, admin, namespace, one, two)
        await asyncio.to_thread(proxy.release)


async def test_an_update_to_a_value_that_an_administrator_replaced_is_applied(place: Lagging) -> None:
    topic = await place.topic("rest")
    place.proxy.hold()
    path = f"{admin_path(topic)}/maxProducers"
    await asyncio.to_thread(place.admin.call, "POST", path, 2)
    (result,) = await place.held(place.set(topic, 1))
    assert result.outcome == "APPLIED"
    assert shown(await place.other.get(topic, at_least_version=result.version)) == 1
    deadline = time.monotonic() + 10
    while await asyncio.to_thread(place.admin.call, "GET", path) != 1:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def test_answers_that_write_nothing_know_what_another_sidecar_wrote(place: Lagging) -> None:
    same, absent, gone = await place.topic("same"), await place.topic("absent", None), await place.topic("gone")
    deleted, dry, named = await place.topic("deleted", None), await place.topic("dry"), await place.topic("named")
    place.proxy.hold()
    for topic in (same, absent, deleted, dry):
        assert (await place.other.update(topic, {"max_producer_per_topic": 2})).outcome == "APPLIED"
    assert (await place.other.delete(gone)).outcome == "DELETED"
    version = (await place.other.update(named, {"max_producer_per_topic": 2})).version
    requests = [
        place.set(same, 1),
        place.set(absent, 3, skip_if_absent=True),
        place.set(gone, 1, absent=True),
        asyncio.ensure_future(place.lagging.delete(deleted)),
        place.set(dry, 1, dry_run=True),
        place.set(named, 3, version=version),
    ]
    results = await place.held(*requests)
    assert [result.outcome for result in results] == ["APPLIED", "APPLIED", "APPLIED", "DELETED", "WOULD_APPLY", "APPLIED"]
    for topic, result, value in zip((same, absent, gone, deleted), results, (1, 3, 1, 0), strict=False):
        assert shown(await place.other.get(topic, at_least_version=result.version)) == value
    assert shown(await place.other.get(named, at_least_version=results[-1].version)) == 3
    assert shown(await place.other.get(dry)) == 2


async def test_a_request_id_used_at_another_sidecar_is_known(place: Lagging) -> None:
    reused, repeated = await place.topic("reused"), await place.topic("repeated")
    place.proxy.hold()
    first = [Update(topic, TopicPolicies(max_producer_per_topic=2)) for topic in (reused, repeated)]
    made = [await place.other.send(each) for each in first]
    again = asyncio.ensure_future(place.lagging.send(first[1]))
    other_body = place.set(reused, 7, request_id=first[0].request_id)
    (found,) = await place.held(again)
    with pytest.raises(Refused) as refused:
        await other_body
    assert (found.outcome, found.replayed, found.version) == ("APPLIED", True, made[1].version)
    assert (refused.value.code, refused.value.reason) == ("INVALID_ARGUMENT", "REQUEST_ID_REUSED")
    assert shown(await place.lagging.get(reused)) == shown(await place.other.get(reused)) == 2


async def test_a_read_waits_for_the_version_that_it_names(place: Lagging) -> None:
    topic = await place.topic("read")
    place.proxy.hold()
    version = (await place.other.update(topic, {"max_producer_per_topic": 2})).version
    assert shown(await place.lagging.get(topic)) == 1, "without a version it is as of what the sidecar has read"
    (read,) = await place.held(asyncio.ensure_future(place.lagging.get(topic, at_least_version=version)))
    assert (shown(read), read.version) == (2, version)


async def test_the_end_of_a_log_may_be_a_ledger_without_entries(place: Lagging) -> None:
    """After a compaction of all events and an unload, the log ends with ledgers without entries, which no reader receives."""
    topic = await place.topic("unloaded")
    await place.lagging.delete(topic)
    await asyncio.to_thread(place.admin.compact_change_events, place.namespace)
    await asyncio.to_thread(place.admin.call, "PUT", f"namespaces/{place.namespace}/unload")
    assert (await once_back(place.lagging, Delete(topic))).outcome == "ABSENT"
    assert (await once_back(place.other, Update(topic, TopicPolicies(max_producer_per_topic=5)))).outcome == "APPLIED"


async def test_nothing_is_answered_from_a_log_that_was_deleted(place: Lagging) -> None:
    topic = await place.topic("deleted")
    log = f"persistent/{place.namespace}/{CHANGE_EVENTS}"
    partitioned = (await asyncio.to_thread(place.admin.call, "GET", f"{log}/partitions"))["partitions"]
    await asyncio.to_thread(place.admin.call, "DELETE", f"{log}/partitions" if partitioned else log, force="true")
    answer = await once_back(place.lagging, Update(topic, TopicPolicies(max_producer_per_topic=1), request_id=str(uuid.uuid4())))
    assert answer.outcome == "APPLIED", "the new log has no such document"


async def once_back(sidecar: Api, change: Update | Delete) -> Change:
    """Returns the answer of a sidecar that may be opening its log anew; repeats the request for up to 60 s."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return await sidecar.send(change)
        except Refused as error:
            assert error.code == "UNAVAILABLE" and time.monotonic() < deadline, error.message
            await asyncio.sleep(0.2)
