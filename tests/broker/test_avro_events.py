"""The codec interprets an event as a broker does, and writes messages that a replicator treats like the broker's own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.broker.admin import CHANGE_EVENTS, Admin
from tests.broker.change_events import ChangeEvents
from tests.broker.pulsar_broker import Broker
from tests.logs import avro_values
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import split
from topicpolicies_server.core.policies.events import Action, Event, Stamp, StampKind
from topicpolicies_server.logs.avro import Encoded

_PATIENCE_S = 10


class Topics(NamedTuple):
    """Topics in a new namespace, and its log."""

    log: ChangeEvents
    admin: Admin

    def create(self, name: str) -> str:
        """Creates a topic, and returns its full name."""
        self.admin.create_topic(f"{self.log.namespace}/{name}")
        return f"persistent://{self.log.namespace}/{name}"

    def shown(self, topic: str) -> tuple[Any, Any]:
        """Returns the LOCAL and the GLOBAL limit of producers that the broker shows."""
        path = f"persistent/{topic.removeprefix('persistent://')}/maxProducers"
        return self.admin.call("GET", path), self.admin.call("GET", path, isGlobal="true")

    def settle(self) -> None:
        """Waits until the broker has read all messages that were written before."""
        topic = f"persistent://{self.log.namespace}/settle"
        limit = int(time.monotonic() * 1000) & 0xFFFFFF
        self.log.write(Event(PolicyKey(topic, Scope.LOCAL), Action.UPDATE, split(TopicPolicies(max_producer_per_topic=limit))))
        deadline = time.monotonic() + _PATIENCE_S
        while self.shown(topic)[0] != limit:
            assert time.monotonic() < deadline, "the broker does not read the log any more"
            time.sleep(0.02)


@pytest.fixture
def topics(broker: Broker, admin: Admin, namespace: str) -> Iterator[Topics]:
    with ChangeEvents(broker.service_url, namespace) as log:
        made = Topics(log, admin)
        made.create("settle")
        made.settle()
        yield made


LIMIT = {**avro_values.nothing(), "backLogQuotaMap": {}, "isGlobal": False, "maxProducerPerTopic": 7}
GLOBAL_LIMIT = {**LIMIT, "isGlobal": True}


@pytest.mark.parametrize(
    ("changed", "prefix", "shown"),
    [
        pytest.param({}, "", (7, 2), id="update"),
        pytest.param({"policies": GLOBAL_LIMIT}, "__G__", (1, 7), id="global update"),
        pytest.param({"policies": GLOBAL_LIMIT}, "", (1, 7), id="global update without the key's prefix"),
        pytest.param({"policies": {**LIMIT, "isGlobal": None}}, "__G__", (7, 2), id="no scope, whatever the key says"),
        pytest.param({"actionType": "INSERT"}, "", (1, 2), id="insert where there is one"),
        pytest.param({"actionType": "NONE"}, "", (1, 2), id="none"),
        pytest.param({"eventType": "TRANSACTION_BUFFER_SNAPSHOT"}, "", (1, 2), id="of another kind"),
        pytest.param({"actionType": "DELETE"}, "", (None, 2), id="delete"),
        pytest.param({"actionType": "DELETE", "policies": None}, "", (None, 2), id="delete without a document"),
        pytest.param({"policies": None}, "", (1, 2), id="update without a document"),
        pytest.param({"actionType": None}, "", (1, 2), id="without an action"),
    ],
)
def test_an_event_has_the_effect_on_a_broker_that_the_codec_reads_from_it(
    topics: Topics, changed: dict[str, Any], prefix: str, shown: tuple[Any, Any]
) -> None:
    topic = topics.create("topic")
    before = {Scope.LOCAL: 1, Scope.GLOBAL: 2}
    for scope, limit in before.items():
        topics.log.write(Event(PolicyKey(topic, scope), Action.UPDATE, split(TopicPolicies(max_producer_per_topic=limit))))
    event = avro_values.an_event(topic, changed.get("policies", LIMIT))
    event.update({name: value for name, value in changed.items() if name != "policies"})
    message = Encoded(prefix + topic, avro_values.written(event), {}, None)
    topics.log.write_message(message)
    topics.settle()
    assert topics.shown(topic) == shown
    assert _by_the_codec(topics, topic, message, dict(before)) == shown


def _by_the_codec(topics: Topics, topic: str, message: Encoded, limits: dict[Scope, Any]) -> tuple[Any, Any]:
    """Returns the LOCAL and the GLOBAL limit after the event as the codec reads it."""
    event, _ = topics.log.codec.read(message.key, message.payload, {})
    if event is not None and event.key.topic == topic and event.action is not Action.NONE:
        if event.action is Action.DELETE:
            limits[event.key.scope] = None
        elif event.action is Action.UPDATE:
            assert event.document == split(TopicPolicies(max_producer_per_topic=7))
            limits[event.key.scope] = 7
    return limits[Scope.LOCAL], limits[Scope.GLOBAL]


def test_a_broker_applies_an_insert_to_a_topic_without_a_document(topics: Topics) -> None:
    topic = topics.create("topic")
    topics.log.write(Event(PolicyKey(topic, Scope.GLOBAL), Action.INSERT, split(TopicPolicies(max_producer_per_topic=3))))
    topics.settle()
    assert topics.shown(topic) == (None, 3)


def test_our_messages_have_the_keys_and_replication_headers_of_the_brokers_messages(topics: Topics) -> None:
    topic = topics.create("topic")
    rest = topic.removeprefix("persistent://")
    topics.log.read()
    before = len(_headers(topics, 100))
    for query in ({}, {"isGlobal": "true"}):
        topics.admin.call("POST", f"persistent/{rest}/maxProducers", 5, **query)
    topics.admin.call("DELETE", f"persistent/{rest}/policies")
    theirs = _headers(topics, 100)[before:]
    document = split(TopicPolicies(max_producer_per_topic=5))
    written = [(action, scope) for action in (Action.UPDATE, Action.DELETE) for scope in (Scope.LOCAL, Scope.GLOBAL)]
    for action, scope in written:
        topics.log.write(Event(PolicyKey(topic, scope), action, document if action is Action.UPDATE else None))
    ours = _headers(topics, 100)[before + len(theirs) :]
    assert ours == theirs
    assert [headers.get("x-pulsar-replicated-to") for headers in ours] == ["standalone", None, "standalone", None]
    repair = Stamp(event_id="1", kind=StampKind.REPAIR)
    topics.log.write(Event(PolicyKey(topic, Scope.GLOBAL), Action.UPDATE, document, repair))
    assert _headers(topics, 100)[-1] == {**ours[1], "x-pulsar-replicated-to": "standalone"}


def _headers(topics: Topics, most: int) -> list[dict[str, str]]:
    """Returns what the admin API reports of the log's messages: keys, clusters, and whether there is a value."""
    found: list[dict[str, str]] = []
    log = f"persistent/{topics.log.namespace}/{CHANGE_EVENTS}"
    count = topics.admin.call("GET", f"{log}/internalStats")["entriesAddedCounter"]
    for position in range(1, min(most, count) + 1):
        headers = topics.admin.headers(f"{log}/examinemessage", initialPosition="earliest", messagePosition=str(position))
        found.append({name: headers[name] for name in _TOLD if name in headers})
    return found


_TOLD = ("x-pulsar-partition-key", "x-pulsar-replicated-to", "x-pulsar-null-value")
