"""Facts are gathered before a request is sequenced: bounded, remembered, refreshed, in order, and never guessed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from tests.cluster.fakes import FakeSource
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.cluster.admission import Admission, KeyOrder
from topicpolicies_server.cluster.disabled_property import PROPERTY
from topicpolicies_server.core.chains.sequencer import Request
from topicpolicies_server.core.changes.change import compile_change
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.facts import BrokerFacts

NAMESPACE = "acme/orders"
TOPIC = f"persistent://{NAMESPACE}/one"
OTHER = f"persistent://{NAMESPACE}/two"


class Clock:
    """Seconds that pass when the test says so."""

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
async def admission(source: FakeSource, clock: Clock) -> AsyncIterator[Admission]:
    made = Admission(source, clock, most=100)
    yield made
    await made.close()
    assert source.closed


def request(topic: str = TOPIC, field: str = "max_producer_per_topic", **values: object) -> Request:
    policies = TopicPolicies(**(values or {field: 1}))  # type: ignore[arg-type]
    return Request(PolicyKey(topic, Scope.LOCAL), compile_change(policies, [], {}), "id", "")


def deletion(topic: str = TOPIC) -> Request:
    return Request(PolicyKey(topic, Scope.LOCAL), None, "id", "")


async def refused(admission: Admission, asked: Request) -> PolicyError:
    with pytest.raises(PolicyError) as error:
        await admission.admit(NAMESPACE, asked)
    return error.value


async def test_what_was_asked_lately_is_not_asked_again(admission: Admission, source: FakeSource, clock: Clock) -> None:
    assert not admission.at_once(NAMESPACE, request())
    await asyncio.gather(*(admission.admit(NAMESPACE, request()) for _ in range(50)))
    assert set(source.asked.values()) == {1}
    clock.now = 4.9
    assert admission.at_once(NAMESPACE, request())
    assert set(source.asked.values()) == {1}


async def turns_of_the_loop() -> None:
    for _ in range(1_000):
        await asyncio.sleep(0)


async def test_facts_in_use_are_refreshed_before_they_are_needed(admission: Admission, source: FakeSource, clock: Clock) -> None:
    await admission.admit(NAMESPACE, request())
    clock.now = 6.0  # the second half of a namespace's ten seconds
    assert admission.at_once(NAMESPACE, request())
    await turns_of_the_loop()
    assert source.asked[NAMESPACE] == 2
    clock.now = 12.0
    assert admission.at_once(NAMESPACE, request())


async def test_updates_are_not_judged_on_old_facts_when_the_cluster_is_out_of_reach(
    admission: Admission, source: FakeSource, clock: Clock
) -> None:
    await admission.admit(NAMESPACE, request())
    source.down = True
    clock.now = 11.0
    assert not admission.at_once(NAMESPACE, request())
    assert (await refused(admission, request())).kind is Kind.UNAVAILABLE
    assert await admission.disabled(NAMESPACE, TOPIC) is False, "reads go on"
    source.down = False
    await admission.admit(NAMESPACE, request())


async def test_reads_need_to_have_been_told_once(admission: Admission, source: FakeSource) -> None:
    source.down = True
    with pytest.raises(PolicyError) as error:
        await admission.disabled(NAMESPACE, TOPIC)
    assert error.value.kind is Kind.UNAVAILABLE


async def test_a_request_carries_what_its_rules_need_and_no_more(admission: Admission, source: FakeSource) -> None:
    plain, size = request(), request(max_message_size=5)
    await admission.admit(NAMESPACE, plain)
    await admission.admit(NAMESPACE, size)
    assert plain.facts is None
    assert size.facts is not None and size.facts.broker is source.facts.broker
    assert source.asked["clusters"] == source.asked["acme"] == 0
    clusters = request(replication_clusters=["here"])
    assert not admission.at_once(NAMESPACE, clusters)
    await admission.admit(NAMESPACE, clusters)
    assert clusters.facts is not None
    assert (clusters.facts.cluster, clusters.facts.allowed_clusters) == ("here", frozenset({"here"}))
    assert clusters.facts.clusters is not None and set(clusters.facts.clusters) == {"here", "there"}


async def test_missing_shadow_topics_are_told(admission: Admission, source: FakeSource) -> None:
    source.missing.add(OTHER)
    asked = request(shadow_topics=[OTHER, "acme/orders/three", "nonsense"])
    await admission.admit(NAMESPACE, asked)
    assert asked.facts is not None and asked.facts.missing_topics == frozenset({OTHER})


async def test_limits_that_may_not_be_seen_are_not_guessed(admission: Admission, source: FakeSource) -> None:
    source.facts = source.facts._replace(broker=None, refused="No entry.")
    await admission.admit(NAMESPACE, request())
    error = await refused(admission, request(max_message_size=5))
    assert (error.kind, error.reason) == (Kind.UNAVAILABLE, "BROKER_FACTS_REFUSED")


async def test_a_topic_that_does_not_exist_is_refused_until_it_does(admission: Admission, source: FakeSource) -> None:
    source.missing.add(TOPIC)
    error = await refused(admission, request())
    assert (error.kind, error.reason) == (Kind.NOT_FOUND, "TOPIC_NOT_FOUND")
    await admission.admit(NAMESPACE, deletion())  # what is left of it may go
    source.missing.clear()
    await admission.admit(NAMESPACE, request())


async def test_policies_may_come_before_their_topic_where_that_is_allowed(source: FakeSource, clock: Clock) -> None:
    source.missing.add(TOPIC)
    admission = Admission(source, clock, missing_topics=True)
    await admission.admit(NAMESPACE, request())
    assert admission.at_once(NAMESPACE, request())
    assert not (await admission.levels(NAMESPACE, request().key)).disabled
    await admission.close()


async def test_nothing_is_taken_where_brokers_have_topic_policies_off(admission: Admission, source: FakeSource) -> None:
    source.facts = source.facts._replace(topic_policies_enabled=False)
    assert (await refused(admission, request())).reason == "TOPIC_POLICIES_OFF"


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
async def test_the_topics_property_wins_over_its_namespaces_and_nonsense_is_ignored(
    admission: Admission, source: FakeSource, namespace: str | None, topic: str | None, disabled: bool
) -> None:
    source.properties = {name: {PROPERTY: value} for name, value in ((NAMESPACE, namespace), (TOPIC, topic)) if value is not None}
    assert await admission.disabled(NAMESPACE, TOPIC) is disabled
    if not disabled:
        await admission.admit(NAMESPACE, request())
        await admission.admit(NAMESPACE, deletion())
        return
    for asked in (request(), deletion()):
        error = await refused(admission, asked)
        assert (error.kind, error.reason) == (Kind.FAILED_PRECONDITION, "TOPIC_POLICIES_DISABLED")


async def test_nonsense_is_warned_of_once(admission: Admission, source: FakeSource, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    source.properties[NAMESPACE] = {PROPERTY: "maybe"}
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            await admission.admit(NAMESPACE, request())
            clock.now += 100
    assert [record.getMessage() for record in caplog.records if PROPERTY in record.getMessage()] == [
        f'{NAMESPACE} has the property {PROPERTY}="maybe", which is neither "true" nor "false": it is ignored'
    ]


async def test_answers_that_are_kept_are_bounded(source: FakeSource, clock: Clock) -> None:
    admission = Admission(source, clock, most=10)
    for number in range(50):
        await admission.admit(NAMESPACE, request(f"{TOPIC}-{number}"))
    assert admission.at_once(NAMESPACE, request(f"{TOPIC}-49"))
    assert not admission.at_once(NAMESPACE, request(f"{TOPIC}-0"))
    assert len(admission._topics) == 10
    await admission.close()


async def test_requests_of_a_stream_keep_their_order_although_facts_come_in_another(admission: Admission, source: FakeSource) -> None:
    gate = source.gates["acme"] = asyncio.Event()  # the tenant is asked for only where clusters are named
    turns, order = KeyOrder(admission), []
    await admission.admit(NAMESPACE, request())

    async def send(name: str, asked: Request) -> None:
        try:
            await turns.admit(NAMESPACE, asked)
        finally:
            order.append(name)

    slow, quick = request(replication_clusters=["here"]), request()
    tasks = [asyncio.create_task(send("slow", slow)), asyncio.create_task(send("quick", quick))]
    tasks.append(asyncio.create_task(send("other topic", request(OTHER))))
    await turns_of_the_loop()
    assert order == ["other topic"]
    gate.set()
    await asyncio.gather(*tasks)
    assert order == ["other topic", "slow", "quick"]
    assert turns._last == {}


async def test_a_refused_request_of_a_stream_holds_up_nobody(admission: Admission, source: FakeSource) -> None:
    source.facts = source.facts._replace(broker=None, refused="No entry.")
    turns = KeyOrder(admission)
    wrong, right = turns.admit(NAMESPACE, request(max_message_size=1)), turns.admit(NAMESPACE, request())
    answers = await asyncio.gather(wrong, right, return_exceptions=True)
    assert [type(answer) for answer in answers] == [PolicyError, type(None)]
    assert BrokerFacts(TopicPolicies()).max_message_size is None


@pytest.mark.parametrize("begun", [False, True], ids=["before it has begun to wait", "while it waits"])
async def test_a_request_that_is_given_up_lets_no_later_one_pass_those_before_it(
    admission: Admission, source: FakeSource, begun: bool
) -> None:
    gate = source.gates["acme"] = asyncio.Event()
    turns, order = KeyOrder(admission), []
    await admission.admit(NAMESPACE, request())

    async def send(name: str, asked: Request) -> None:
        await turns.admit(NAMESPACE, asked)
        order.append(name)

    slow, gone, last = request(replication_clusters=["here"]), request(), request()
    tasks = [asyncio.create_task(send("slow", slow))]
    await turns_of_the_loop()
    assert not turns.at_once(NAMESPACE, gone)
    if begun:
        waiting = asyncio.create_task(turns.admit(NAMESPACE, gone))
        await turns_of_the_loop()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    else:
        assert turns.leave(gone)
    assert not turns.at_once(NAMESPACE, last), "the first one waits still"
    tasks.append(asyncio.create_task(send("last", last)))
    await turns_of_the_loop()
    assert order == []
    gate.set()
    await asyncio.gather(*tasks)
    assert order == ["slow", "last"] and turns._last == {}
