"""The sidecar's log is ``__change_events`` of the broker that it serves, which runs without system topics of its own."""

from __future__ import annotations

import pulsar
import pytest

from tests.promises.api import Delete, Update
from tests.promises.broker.policy_case import Case, Need, Scope, comparable, prepare
from tests.promises.broker.policy_cases import CASES
from tests.promises.plugin.enforcement import admits_another_producer, soon
from tests.promises.plugin.pair import Pair
from topicpolicies.v1.policies_pb2 import TopicPolicies

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

_SETTABLE = [case for case in CASES if case.need is Need.NOTHING and case.settable]


def _set_and_read(pair: Pair, case: Case, topic: str, scope: Scope) -> TopicPolicies:
    with pair.admin as admin:
        case.setting_call(case.examples[0], scope).on(admin, topic)
        return comparable(case.read(case.reading_call(scope).on(admin, topic)))


def test_every_policy_is_stored_in_the_broker_and_survives_its_restart(bare: Pair) -> None:
    written: list[tuple[Case, str, Scope]] = []
    with bare.admin as admin:
        namespace = admin.create_namespace("bare")
        for number, case in enumerate(_SETTABLE):
            topic, here = prepare(admin, case, namespace, f"topic-{number}")
            for scope in case.scopes:
                assert _set_and_read(bare, here, topic, scope) == comparable(here.examples[0].policies)
                written.append((here, topic, scope))
        assert f"persistent://{namespace}/__change_events" in admin.call("GET", f"persistent/{namespace}", includeSystemTopic="true")
        admin.compact_change_events(namespace)
    assert len(written) > 40
    bare.broker.stop()
    bare.broker.start()
    with bare.admin as admin:
        for case, topic, scope in written:
            answer = comparable(case.read(case.reading_call(scope).on(admin, topic)))
            assert answer == comparable(case.examples[0].policies), f"{case.setting} in {scope.name}"


def test_a_change_over_grpc_takes_effect_on_a_loaded_topic(bare: Pair) -> None:
    with bare.admin as admin:
        topic = f"{admin.create_namespace('bare')}/topic"
        admin.create_topic(topic)
    client = pulsar.Client(bare.broker.service_url, operation_timeout_seconds=60, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    client.create_producer(f"persistent://{topic}")
    bare.api.patiently(Update(topic, TopicPolicies(max_producer_per_topic=1)))
    soon(lambda: not admits_another_producer(client, topic), "the second producer is refused")
    bare.api.patiently(Delete(topic))
    soon(lambda: admits_another_producer(client, topic), "the second producer is admitted")
    client.close()
