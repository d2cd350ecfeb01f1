"""The broker obeys the sidecar's changes: updates and deletions take effect on topics that are loaded."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import grpc
import pulsar
import pytest

from tests.broker.admin import Admin
from tests.broker.pulsar_broker import Broker
from tests.promises.server_process import ServerProcess
from tests.stubs import each, one, reading
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import SCOPE_GLOBAL, SCOPE_LOCAL, Scope, TopicPolicies
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub

_SECONDS = 30


@pytest.fixture(scope="module")
def stub(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicPoliciesServiceStub]:
    """A server on the shared broker."""
    output: Path = tmp_path_factory.mktemp("sidecar") / "server.log"
    process = ServerProcess(["--pulsar", broker.service_url, "--admin-url", broker.admin_url], output)
    asyncio.run(process.start())
    with grpc.insecure_channel(process.address) as channel:
        yield TopicPoliciesServiceStub(channel)
    process.kill()


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


def limit(stub: TopicPoliciesServiceStub, topic: str, scope: Scope.ValueType) -> None:
    """Limits a topic to one producer."""
    stub.UpdatePolicy(service_pb2.UpdatePolicyRequest(topic=topic, scope=scope, policies=TopicPolicies(max_producer_per_topic=1)))


@pytest.mark.parametrize("scope", [SCOPE_LOCAL, SCOPE_GLOBAL], ids=["LOCAL", "GLOBAL"])
def test_a_limit_holds_for_a_loaded_topic_and_ends_with_its_policy(
    stub: TopicPoliciesServiceStub, admin: Admin, client: pulsar.Client, topic: str, scope: Scope.ValueType
) -> None:
    first = client.create_producer(topic)
    assert second_producer(client, topic)
    limit(stub, topic, scope)
    becomes(client, topic, admitted=False)
    deleted = stub.DeletePolicy(service_pb2.DeletePolicyRequest(topic=topic, scope=scope))
    assert deleted.outcome == service_pb2.DELETE_OUTCOME_DELETED
    becomes(client, topic, admitted=True)
    stats = admin.call("GET", f"persistent/{topic.removeprefix('persistent://')}/stats")
    assert [publisher["producerName"] for publisher in stats["publishers"]] == [first.producer_name()], "the topic was not reloaded"
    assert first.is_connected()
    first.close()


def test_a_limit_of_the_admin_api_ends_with_a_delete_over_grpc(
    stub: TopicPoliciesServiceStub, admin: Admin, client: pulsar.Client, topic: str
) -> None:
    path = f"persistent/{topic.removeprefix('persistent://')}"
    with contextlib.closing(client.create_producer(topic)):
        admin.call("POST", f"{path}/maxProducers", 1)
        becomes(client, topic, admitted=False)
        deadline = time.monotonic() + _SECONDS
        while not one(stub.GetPolicy(reading(topic))).HasField("policies"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        stub.DeletePolicy(service_pb2.DeletePolicyRequest(topic=topic))
        becomes(client, topic, admitted=True)
        assert admin.call("GET", f"{path}/maxProducers") is None


def test_the_policies_of_a_topic_that_the_broker_deletes_are_deleted_too(
    stub: TopicPoliciesServiceStub, admin: Admin, client: pulsar.Client, topic: str
) -> None:
    client.create_producer(topic).close()
    limit(stub, topic, SCOPE_LOCAL)
    stream = stub.WatchPolicies(service_pb2.WatchPoliciesRequest(topics=[topic], scopes=[SCOPE_LOCAL]), timeout=_SECONDS)
    documents = (event.change.document for event in each(stream) if event.HasField("change"))
    assert next(documents).HasField("policies")
    path = f"persistent/{topic.removeprefix('persistent://')}"
    deadline = time.monotonic() + _SECONDS
    while admin.call("GET", f"{path}/maxProducers") != 1:  # a broker removes only policies that it has read
        assert time.monotonic() < deadline
        time.sleep(0.02)
    admin.call("DELETE", path)
    while next(documents).HasField("policies"):
        pass
    stream.cancel()
    assert not one(stub.GetPolicy(reading(topic))).HasField("policies")
