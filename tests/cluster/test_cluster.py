"""Facts are gathered before a request is sequenced: they are cached within bounds, refreshed, and never guessed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import cast

import pytest

from tests.cluster.fakes import FakeSource
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.cluster import cluster as cluster_module
from topicpolicies_server.cluster.cluster import Cluster
from topicpolicies_server.cluster.levels import PROPERTY
from topicpolicies_server.core.chains.request import Request
from topicpolicies_server.core.changes.change import compile_change
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.names import PolicyKey, Scope

NAMESPACE = "acme/orders"
TOPIC = f"persistent://{NAMESPACE}/one"
OTHER = f"persistent://{NAMESPACE}/two"


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def source() -> FakeSource:
    return FakeSource()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def cluster(source: FakeSource, clock: Clock) -> AsyncIterator[Cluster]:
    made = Cluster(source, clock)
    yield made
    await made.close()
    assert source.closed


def request(topic: str = TOPIC, field: str = "max_producer_per_topic", **values: object) -> Request:
    policies = TopicPolicies(**(values or {field: 1}))  # type: ignore[arg-type]
    return Request(PolicyKey(topic, Scope.LOCAL), compile_change(policies, [], {}), "id", "")


def deletion(topic: str = TOPIC) -> Request:
    return Request(PolicyKey(topic, Scope.LOCAL), None, "id", "")


async def admit(cluster: Cluster, asked: Request) -> None:
    if (waiting := cluster.admit(NAMESPACE, asked)) is not None:
        await waiting


def at_once(cluster: Cluster, asked: Request) -> bool:
    """Returns whether a request is admitted without a question."""
    waiting = cluster.admit(NAMESPACE, asked)
    if waiting is not None:
        cast("Coroutine[None, None, None]", waiting).close()
    return waiting is None


async def refused(cluster: Cluster, asked: Request) -> PolicyError:
    with pytest.raises(PolicyError) as error:
        await admit(cluster, asked)
    return error.value


async def test_recent_answers_are_not_requested_again(cluster: Cluster, source: FakeSource, clock: Clock) -> None:
    assert not at_once(cluster, request())
    await asyncio.gather(*(admit(cluster, request()) for _ in range(50)))
    assert set(source.asked.values()) == {1}
    clock.now = 0.4
    assert at_once(cluster, request())
    assert set(source.asked.values()) == {1}


async def turns_of_the_loop() -> None:
    for _ in range(1_000):
        await asyncio.sleep(0)


async def test_facts_in_use_are_refreshed_before_they_are_needed(cluster: Cluster, source: FakeSource, clock: Clock) -> None:
    await admit(cluster, request())
    clock.now = 0.9  # in the second half of the second for which a topic is taken to exist
    assert at_once(cluster, request())
    await turns_of_the_loop()
    assert source.asked[TOPIC] == 2
    clock.now = 1.8
    assert at_once(cluster, request())
    clock.now = 6.0  # in the second half of the ten seconds that a namespace's facts are fresh
    await admit(cluster, request())
    await turns_of_the_loop()
    assert source.asked[NAMESPACE] == 2


async def test_a_topic_that_was_deleted_is_taken_to_exist_for_a_second_and_what_needs_no_topic_asks_more_rarely(
    cluster: Cluster, source: FakeSource, clock: Clock
) -> None:
    await admit(cluster, request())
    source.missing.add(TOPIC)
    clock.now = 1.1
    assert at_once(cluster, deletion())
    assert await cluster.disabled(NAMESPACE, TOPIC) is False
    await turns_of_the_loop()
    assert source.asked[TOPIC] == 1
    assert (await refused(cluster, request())).reason == "TOPIC_NOT_FOUND"
    with pytest.raises(PolicyError, match="does not exist"):
        await cluster.levels(NAMESPACE, PolicyKey(TOPIC, Scope.LOCAL))


async def test_updates_are_refused_and_reads_accept_older_facts_while_the_cluster_is_unreachable(
    cluster: Cluster, source: FakeSource, clock: Clock
) -> None:
    await admit(cluster, request())
    source.down = True
    clock.now = 11.0
    assert not at_once(cluster, request())
    assert (await refused(cluster, request())).kind is Kind.UNAVAILABLE
    assert await cluster.disabled(NAMESPACE, TOPIC) is False, "reads accept older facts"
    source.down = False
    await admit(cluster, request())


async def test_reads_fail_while_the_facts_were_never_obtained(cluster: Cluster, source: FakeSource) -> None:
    source.down = True
    with pytest.raises(PolicyError) as error:
        await cluster.disabled(NAMESPACE, TOPIC)
    assert error.value.kind is Kind.UNAVAILABLE


async def test_a_request_carries_what_its_rules_need_and_no_more(cluster: Cluster, source: FakeSource) -> None:
    plain, size = request(), request(max_message_size=5)
    await admit(cluster, plain)
    await admit(cluster, size)
    assert plain.facts is None
    assert size.facts is not None and size.facts.broker is source.facts.broker
    assert source.asked["clusters"] == source.asked["acme"] == 0
    clusters = request(replication_clusters=["here"])
    assert not at_once(cluster, clusters)
    await admit(cluster, clusters)
    assert clusters.facts is not None
    assert (clusters.facts.cluster, clusters.facts.allowed_clusters) == ("here", frozenset({"here"}))
    assert clusters.facts.clusters is not None and set(clusters.facts.clusters) == {"here", "there"}


async def test_the_facts_of_a_request_name_missing_shadow_topics(cluster: Cluster, source: FakeSource) -> None:
    source.missing.add(OTHER)
    asked = request(shadow_topics=[OTHER, "acme/orders/three", "nonsense"])
    await admit(cluster, asked)
    assert asked.facts is not None and asked.facts.missing_topics == frozenset({OTHER})


async def test_an_update_that_needs_broker_limits_is_unavailable_if_they_may_not_be_read(cluster: Cluster, source: FakeSource) -> None:
    source.facts = source.facts._replace(broker=None, refused="No entry.")
    await admit(cluster, request())
    error = await refused(cluster, request(max_message_size=5))
    assert (error.kind, error.reason) == (Kind.UNAVAILABLE, "CLUSTER_UNAVAILABLE")


async def test_an_update_of_a_missing_topic_is_refused_until_the_topic_exists(cluster: Cluster, source: FakeSource) -> None:
    source.missing.add(TOPIC)
    error = await refused(cluster, request())
    assert (error.kind, error.reason) == (Kind.NOT_FOUND, "TOPIC_NOT_FOUND")
    await admit(cluster, deletion())  # the policies of a deleted topic can be deleted
    source.missing.clear()
    await admit(cluster, request())


async def test_policies_of_missing_topics_are_admitted_where_configured(source: FakeSource, clock: Clock) -> None:
    source.missing.add(TOPIC)
    cluster = Cluster(source, clock, missing_topics=True)
    await admit(cluster, request())
    assert at_once(cluster, request())
    assert not (await cluster.levels(NAMESPACE, request().key)).disabled
    await cluster.close()


async def test_updates_are_refused_where_topic_policies_are_off_at_the_brokers(cluster: Cluster, source: FakeSource) -> None:
    source.facts = source.facts._replace(topic_policies_enabled=False)
    assert (await refused(cluster, request())).reason == "TOPIC_POLICIES_ELSEWHERE"


@pytest.mark.parametrize(
    ("namespace", "topic", "disabled"),
    [
        (None, None, False),
        ("true", None, True),
        ("false", None, False),
        (None, "true", True),
        ("true", "false", False),
        ("false", "true", True),
        ("True", None, False),
        ("true", "yes", True),
        ("", None, False),
    ],
)
async def test_a_topics_property_wins_over_its_namespaces_and_invalid_values_are_ignored(
    cluster: Cluster, source: FakeSource, namespace: str | None, topic: str | None, disabled: bool
) -> None:
    source.properties = {name: {PROPERTY: value} for name, value in ((NAMESPACE, namespace), (TOPIC, topic)) if value is not None}
    assert await cluster.disabled(NAMESPACE, TOPIC) is disabled
    if not disabled:
        await admit(cluster, request())
        await admit(cluster, deletion())
        return
    for asked in (request(), deletion()):
        error = await refused(cluster, asked)
        assert (error.kind, error.reason) == (Kind.FAILED_PRECONDITION, "TOPIC_POLICIES_DISABLED")


async def test_the_number_of_cached_topics_is_bounded(source: FakeSource, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "_MOST", 10)
    cluster = Cluster(source, clock)
    for number in range(50):
        await admit(cluster, request(f"{TOPIC}-{number}"))
    assert at_once(cluster, request(f"{TOPIC}-49"))
    assert not at_once(cluster, request(f"{TOPIC}-0"))
    assert len(cluster._topics._answers) == 10
    await cluster.close()
