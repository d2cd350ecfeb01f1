"""The broker obeys the sidecar's changes: updates and deletions take effect on topics that are loaded."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator

import pulsar
import pytest

from tests.broker.admin import Admin
from tests.broker.pulsar_broker import Broker
from tests.promises.blocking import BlockingApi
from tests.promises.conftest import Sidecars

from .policy_case import Scope

_SECONDS = 30


@pytest.fixture
def api(sidecars: Sidecars) -> Iterator[BlockingApi]:
    """A caller of a server on the shared broker."""
    with BlockingApi(sidecars.one.address) as api:
        yield api


@pytest.fixture(params=[0, 3], ids=["plain", "3-partitions"])
def topic(request: pytest.FixtureRequest, admin: Admin) -> str:
    """A topic in a namespace of its own."""
    namespace = admin.create_namespace("obeys")
    if request.param:
        admin.partition_change_events(namespace, request.param)
    return f"persistent://{namespace}/loaded-{uuid.uuid4().hex[:6]}"


@pytest.fixture
def client(broker: Broker) -> Iterator[pulsar.Client]:
    """A client of the broker."""
    made = pulsar.Client(broker.service_url, operation_timeout_seconds=10, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield made
    made.close()


def second_producer(client: pulsar.Client, topic: str) -> bool:
    """Whether another producer is admitted, which is closed at once."""
    try:
        client.create_producer(topic).close()
    except pulsar.ProducerBusy:
        return False
    return True


def becomes(client: pulsar.Client, topic: str, admitted: bool) -> None:
    """Waits until another producer is admitted, or refused."""
    deadline = time.monotonic() + _SECONDS
    while second_producer(client, topic) is not admitted:
        assert time.monotonic() < deadline, "the broker does not obey"
        time.sleep(0.05)


def limit(api: BlockingApi, topic: str, scope: Scope) -> None:
    """Limits a topic to one producer."""
    api.update(topic, {"max_producer_per_topic": 1}, scope=scope)


@pytest.mark.parametrize("scope", [Scope.LOCAL, Scope.GLOBAL], ids=["LOCAL", "GLOBAL"])
def test_a_limit_holds_for_a_loaded_topic_and_ends_with_it(
    api: BlockingApi, admin: Admin, client: pulsar.Client, topic: str, scope: Scope
) -> None:
    first = client.create_producer(topic)
    assert second_producer(client, topic)
    limit(api, topic, scope)
    becomes(client, topic, admitted=False)
    assert api.delete(topic, scope=scope).outcome == "DELETED"
    becomes(client, topic, admitted=True)
    stats = admin.call("GET", f"persistent/{topic.removeprefix('persistent://')}/stats")
    assert [publisher["producerName"] for publisher in stats["publishers"]] == [first.producer_name()], "the topic was not reloaded"
    assert first.is_connected()
    first.close()


def test_a_delete_ends_a_limit_of_the_admin_api(api: BlockingApi, admin: Admin, client: pulsar.Client, topic: str) -> None:
    path = f"persistent/{topic.removeprefix('persistent://')}"
    with contextlib.closing(client.create_producer(topic)):
        admin.call("POST", f"{path}/maxProducers", 1)
        becomes(client, topic, admitted=False)
        deadline = time.monotonic() + _SECONDS
        while api.get(topic).policies is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        api.delete(topic)
        becomes(client, topic, admitted=True)
        assert admin.call("GET", f"{path}/maxProducers") is None


def test_a_deleted_topic_has_no_policies_any_more(api: BlockingApi, admin: Admin, client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic).close()
    limit(api, topic, Scope.LOCAL)
    stream = api.watch(topics=[topic], scopes=[Scope.LOCAL], timeout=_SECONDS)
    documents = (event.document for event in stream if event.document is not None)
    assert next(documents).policies is not None
    path = f"persistent/{topic.removeprefix('persistent://')}"
    deadline = time.monotonic() + _SECONDS
    while admin.call("GET", f"{path}/maxProducers") != 1:  # a broker removes only policies that it has read
        assert time.monotonic() < deadline
        time.sleep(0.02)
    admin.call("DELETE", path)
    while next(documents).policies is not None:
        pass
    stream.close()
    assert api.get(topic).policies is None
