"""The events of the log: sidecars read them as brokers do, write them as brokers do, and keep what newer brokers have put into them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from tests.broker.admin import Admin
from tests.broker.pulsar_broker import Broker
from tests.promises.blocking import BlockingApi
from tests.promises.change_log import EMPTY, GLOBAL_PREFIX, ChangeLog, admin_path
from tests.promises.conftest import Sidecars

from .policy_case import Scope

_PATIENCE_S = 20
LIMIT = {**EMPTY, "maxProducerPerTopic": 7}
GLOBAL_LIMIT = {**LIMIT, "isGlobal": True}


class Log(NamedTuple):
    """The log of a namespace, written by the test, and read by the broker and by a sidecar."""

    log: ChangeLog
    admin: Admin
    api: BlockingApi

    def create(self, name: str) -> str:
        """Creates a topic, and returns its full name."""
        self.admin.create_topic(f"{self.log.namespace}/{name}")
        return f"persistent://{self.log.namespace}/{name}"

    def at_the_broker(self, topic: str) -> tuple[int, int]:
        """Returns the LOCAL and the GLOBAL limit of producers that the broker shows."""
        path = f"{admin_path(topic)}/maxProducers"
        return self.admin.call("GET", path) or 0, self.admin.call("GET", path, isGlobal="true") or 0

    def at_the_sidecar(self, topic: str) -> tuple[int, int]:
        """Returns the same as the sidecar shows it."""
        found = [self.api.get(topic, scope).policies for scope in Scope]
        local, of_all = (0 if policies is None else policies.max_producer_per_topic for policies in found)
        return local, of_all

    def settle(self) -> None:
        """Waits until the broker and the sidecar have read all messages that were written before."""
        topic = f"persistent://{self.log.namespace}/settle"
        limit = int(time.monotonic() * 1000) & 0xFFFFFF
        self.log.write(topic, {"maxProducerPerTopic": limit})
        until(lambda: self.at_the_broker(topic)[0] == self.at_the_sidecar(topic)[0] == limit, "the log is not read any more")


def until(condition: Callable[[], bool], problem: str) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, problem
        time.sleep(0.02)


@pytest.fixture(scope="module")
def log(broker: Broker, admin: Admin, sidecars: Sidecars) -> Iterator[Log]:
    namespace = admin.create_namespace("events")
    admin.compact_only_on_request(namespace)
    admin.create_topic(f"{namespace}/settle")
    admin.call("POST", f"persistent/{namespace}/settle/maxProducers", 1)  # so that there are a log and its schema
    with ChangeLog(broker, namespace) as log, BlockingApi(sidecars.one.address) as api:
        made = Log(log, admin, api)
        made.settle()
        yield made


@pytest.mark.parametrize(
    ("changed", "prefix", "shown"),
    [
        pytest.param({}, "", (7, 2), id="update"),
        pytest.param({"policies": GLOBAL_LIMIT}, GLOBAL_PREFIX, (1, 7), id="global update"),
        pytest.param({"policies": GLOBAL_LIMIT}, "", (1, 7), id="global update without the key's prefix"),
        pytest.param({"policies": {**LIMIT, "isGlobal": None}}, GLOBAL_PREFIX, (7, 2), id="no scope, whatever the key says"),
        pytest.param({"actionType": "NONE"}, "", (1, 2), id="none"),
        pytest.param({"eventType": "TRANSACTION_BUFFER_SNAPSHOT"}, "", (1, 2), id="of another kind"),
        pytest.param({"actionType": "DELETE"}, "", (0, 2), id="delete"),
        pytest.param({"actionType": "DELETE", "policies": None}, "", (0, 2), id="delete without a document"),
        pytest.param({"policies": None}, "", (1, 2), id="update without a document"),
        pytest.param({"actionType": None}, "", (1, 2), id="without an action"),
    ],
)
def test_an_event_means_to_a_sidecar_what_it_means_to_a_broker(
    log: Log, changed: dict[str, Any], prefix: str, shown: tuple[int, int], request: pytest.FixtureRequest
) -> None:
    topic = log.create(f"event-{abs(hash(request.node.name))}")
    for of_global, limit in ((False, 1), (True, 2)):
        log.log.write(topic, {"maxProducerPerTopic": limit}, of_global=of_global)
    members = {name: value for name, value in changed.items() if name != "policies"}
    log.log.write_event(prefix + topic, log.log.event(topic, changed.get("policies", LIMIT), **members))
    log.settle()
    assert log.at_the_broker(topic) == shown
    assert log.at_the_sidecar(topic) == shown


def test_an_insert_where_there_is_a_document_loses_nothing(log: Log) -> None:
    """A broker keeps its document, and would show nothing of the insert; the sidecar repairs that."""
    topic = log.create("inserted-too")
    log.log.write(topic, {"maxProducerPerTopic": 1})
    log.log.write(topic, {"maxProducerPerTopic": 7}, action="INSERT")
    until(lambda: log.at_the_broker(topic) == log.at_the_sidecar(topic) == (7, 0), "the insert is lost")


@pytest.mark.not_in_4_0_0("prefix in the keys of GLOBAL documents")
def test_an_insert_where_there_is_none_and_a_tombstone(log: Log) -> None:
    topic = log.create("inserted")
    log.log.write(topic, {"maxProducerPerTopic": 3}, of_global=True, action="INSERT")
    log.settle()
    assert log.at_the_broker(topic) == log.at_the_sidecar(topic) == (0, 3)
    log.log.write(topic, None, of_global=True)
    log.settle()
    assert log.at_the_broker(topic) == log.at_the_sidecar(topic) == (0, 0)


@pytest.mark.not_in_4_0_0("endpoint that deletes all policies of a topic")
def test_messages_have_the_keys_and_headers_of_the_brokers_messages(log: Log) -> None:
    topic = log.create("headers")
    path = admin_path(topic)
    begin = len(log.log.headers())
    for query in ({}, {"isGlobal": "true"}):
        log.admin.call("POST", f"{path}/maxProducers", 5, **query)
    log.admin.call("DELETE", f"{path}/policies")
    theirs = _told(log, begin)
    assert len(theirs) == 4
    until(lambda: log.at_the_sidecar(topic) == (0, 0) == log.at_the_broker(topic), "the deletions are not read")
    begin = len(log.log.headers())
    for scope in Scope:
        assert log.api.update(topic, {"max_producer_per_topic": 6}, scope=scope).outcome == "APPLIED"
        assert log.api.delete(topic, scope=scope).outcome == "DELETED"
    until(lambda: _told(log, begin) >= theirs, "the tombstones do not follow")
    assert _told(log, begin) == theirs


@pytest.mark.not_in_4_0_0("prefix in the keys of GLOBAL documents")
def test_repairs_of_global_documents_are_not_replicated(log: Log) -> None:
    topic = log.create("repaired")
    log.api.update(topic, {"max_producer_per_topic": 6}, scope=Scope.GLOBAL)
    begin = len(log.log.headers())
    log.log.write(topic, {"maxConsumerPerTopic": 4}, of_global=True)  # from no document
    until(lambda: len(log.log.headers()) > begin + 1, "no repair follows")
    _, repair = log.log.headers()[begin:][:2]
    assert (repair["x-pulsar-partition-key"], repair["x-pulsar-replicated-to"]) == (GLOBAL_PREFIX + topic, "standalone")
    until(lambda: log.at_the_broker(topic) == (0, 6), "the broker does not read the repair")


def _told(log: Log, begin: int) -> set[tuple[str | None, ...]]:
    """Returns the key, the clusters and whether there is no value, of the messages from a place on."""
    names = ("x-pulsar-partition-key", "x-pulsar-replicated-to", "x-pulsar-null-value")
    return {tuple(headers.get(name) for name in names) for headers in log.log.headers()[begin:]}


RATE = {"dispatchThrottlingRateInByte": -1, "dispatchThrottlingRateInMsg": 9, "ratePeriodInSecond": 1, "relativeToPublishRate": False}


def newer(definition: str) -> str:
    """Returns the schema of a newer broker: documents and dispatch rates have a field more."""
    schema = json.loads(definition)
    for name, field in (("TopicPolicies", "zeal"), ("DispatchRateImpl", "zest")):
        _record(schema, name)["fields"].append({"name": field, "type": ["null", "string"], "default": None})
    return json.dumps(schema)


def _record(schema: Any, name: str) -> Any:
    if isinstance(schema, dict):
        if schema.get("name") == name and schema.get("type") == "record":
            return schema
        schema = list(schema.values())
    if isinstance(schema, list):
        return next(filter(None, (_record(each, name) for each in schema)), None)
    return None


def test_what_a_newer_broker_wrote_is_kept(log: Log, broker: Broker) -> None:
    topic = log.create("newer")

    def last() -> dict[str, Any]:
        return [each for each in log.log.stored() if each.topic == topic][-1].policies

    with ChangeLog(broker, log.log.namespace, definition=newer(log.log.definition)) as later:
        later.write(topic, {"maxProducerPerTopic": 3, "zeal": "much", "dispatchRate": {**RATE, "zest": "some"}})
    until(lambda: log.at_the_sidecar(topic) == (3, 0), "the sidecar does not read the event")
    mask = ["dispatch_rate.dispatch_throttling_rate_in_msg", "max_consumer_per_topic"]
    answer = log.api.update(topic, {"dispatch_rate": {"dispatch_throttling_rate_in_msg": 10}, "max_consumer_per_topic": 4}, mask=mask)
    assert answer.outcome == "APPLIED"
    written = last()
    assert (written["zeal"], written["dispatchRate"]) == ("much", {**RATE, "dispatchThrottlingRateInMsg": 10, "zest": "some"})
    assert (written["maxProducerPerTopic"], written["maxConsumerPerTopic"]) == (3, 4)
    log.log.write(topic, {"maxProducerPerTopic": 5, "maxConsumerPerTopic": 4, "dispatchRate": {**RATE, "dispatchThrottlingRateInMsg": 10}})
    until(lambda: last().get("zeal") == "much", "what a broker of today drops is not repaired")
    assert last()["maxProducerPerTopic"] == 5
    until(lambda: log.at_the_broker(topic) == (5, 0), "the broker does not read the newer events")
