"""Changes in the sidecar take effect in the broker: when a topic loads, and while it is loaded."""

from __future__ import annotations

import contextlib

import pulsar
import pytest

from tests.broker.admin import Admin
from tests.promises.broker.policy_case import Scope
from tests.promises.plugin.enforcement import admits_another_producer, soon
from tests.promises.plugin.pair import Pair
from topicpolicies.v1.policies_pb2 import TopicPolicies

pytestmark = [pytest.mark.broker]

both_scopes = pytest.mark.parametrize("scope", Scope, ids=lambda scope: scope.name)


def limit(pair: Pair, topic: str, scope: Scope) -> None:
    """Limits a topic to one producer."""
    pair.api.update(topic, {"max_producer_per_topic": 1}, scope=scope)


def exists(pair: Pair, topic: str, scope: Scope) -> bool:
    """Whether the sidecar has a document."""
    return pair.api.get(topic, scope).policies is not None


@both_scopes
@pytest.mark.parametrize("partitions", [0, 2])
def test_a_topic_loads_with_its_policies(pair: Pair, own: Admin, client: pulsar.Client, scope: Scope, partitions: int) -> None:
    topic = f"{own.create_namespace('loads')}/topic"
    limit(pair, topic, scope)
    own.create_topic(topic, partitions=partitions)
    one = f"{topic}-partition-1" if partitions else topic
    with contextlib.closing(client.create_producer(f"persistent://{one}")):
        assert not admits_another_producer(client, one), "the limit holds from the first producer on"


@both_scopes
def test_a_limit_holds_for_a_loaded_topic_and_ends_with_its_policy(
    pair: Pair, own: Admin, client: pulsar.Client, topic: str, scope: Scope
) -> None:
    first = client.create_producer(f"persistent://{topic}")
    assert admits_another_producer(client, topic)
    limit(pair, topic, scope)
    soon(lambda: not admits_another_producer(client, topic), "the second producer is refused")
    pair.api.delete(topic, scope=scope)
    soon(lambda: admits_another_producer(client, topic), "the second producer is admitted")
    publishers = own.call("GET", f"persistent/{topic}/stats")["publishers"]
    assert [each["producerName"] for each in publishers] == [first.producer_name()], "the topic was not reloaded"
    first.close()


def test_the_admin_api_shows_its_own_change_at_once_others_soon(pair: Pair, own: Admin, topic: str) -> None:
    for value in range(1, 30):
        own.call("POST", f"persistent/{topic}/maxProducers", value)
        assert own.call("GET", f"persistent/{topic}/maxProducers") == value
    pair.api.update(topic, {"max_consumer_per_topic": 7})
    soon(lambda: bool(own.call("GET", f"persistent/{topic}/maxConsumers") == 7), "the broker has the other writer's change")
    assert own.call("GET", f"persistent/{topic}/maxProducers") == 29


def test_the_policies_of_a_deleted_topic_are_deleted_too(pair: Pair, own: Admin, topic: str) -> None:
    for scope in Scope:
        limit(pair, topic, scope)
    own.call("DELETE", f"persistent/{topic}")
    soon(lambda: not exists(pair, topic, Scope.LOCAL) and not exists(pair, topic, Scope.GLOBAL), "no policies are left")


def test_a_partitioned_topic_that_leaves_keeps_only_global_policies(pair: Pair, own: Admin) -> None:
    namespace, clusters = "leaving/one", ["standalone", "abroad"]
    topic = f"{namespace}/topic"
    own.call("PUT", "clusters/abroad", {"serviceUrl": pair.broker.admin_url, "brokerServiceUrl": "pulsar://127.0.0.1:1"})
    own.call("PUT", "tenants/leaving", {"adminRoles": [], "allowedClusters": clusters})
    own.call("PUT", f"namespaces/{namespace}", {"replication_clusters": ["standalone"]})
    own.create_topic(topic, partitions=2)
    for scope in Scope:
        limit(pair, topic, scope)
    for partition in range(2):
        own.call("GET", f"persistent/{topic}-partition-{partition}/stats")  # only a loaded partition leaves
    own.call("POST", f"namespaces/{namespace}/replication", clusters)
    own.call("POST", f"persistent/{topic}/replication", ["abroad"], isGlobal="true")
    soon(lambda: not exists(pair, topic, Scope.LOCAL), "the local policies are gone")
    assert own.call("GET", f"persistent/{namespace}") == [], "the partitions are gone too"
    kept = pair.api.get(topic, Scope.GLOBAL)
    assert kept.policies == TopicPolicies(max_producer_per_topic=1, replication_clusters=["abroad"])


def test_no_change_log_is_created_with_the_embedded_log(own: Admin, topic: str) -> None:
    own.call("POST", f"persistent/{topic}/maxProducers", 3)
    listed = own.call("GET", f"persistent/{topic.rpartition('/')[0]}", includeSystemTopic="true")
    assert listed == [f"persistent://{topic}"]
