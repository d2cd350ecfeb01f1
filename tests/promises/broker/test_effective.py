"""Effective policies, field by field, compared with what a real broker with different values at each level enforces and shows."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from tests.broker.admin import Admin
from tests.broker.fixtures import BrokerOf
from tests.broker.jars import LATEST
from tests.broker.pulsar_broker import Broker, OwnBroker
from tests.promises.blocking import BlockingApi
from tests.promises.broker.enforcement import Agent, document
from tests.promises.broker.levels_case import BROKER_SETTINGS, NAMESPACE_CALLS, topic_document
from tests.promises.broker.policy_case import SUBSCRIPTION, Scope, comparable, settings
from tests.promises.server_process import ServerProcess
from topicpolicies.v1 import policies_pb2 as pb

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300), pytest.mark.not_in_4_0_0("subscription_expiration_time_in_minutes")]
_SECONDS = 60
_ASIDE = ("offload_policies", "subscription_policies")
"""Policies that a broker does not keep per topic: offload policies are merged into the ledger's configuration, and the rates of
subscriptions are read one by one."""
TOPICS: Mapping[str, tuple[Scope, ...]] = {
    "nothing": (),
    "local": (Scope.LOCAL,),
    "global": (Scope.GLOBAL,),
    "both": (Scope.LOCAL, Scope.GLOBAL),
}
"""The scopes in which each topic has a document."""


class Levels(NamedTuple):
    """A broker with settings of its own, two namespaces, topics in both, and a server."""

    broker: Broker
    admin: Admin
    api: BlockingApi
    agent: Agent
    namespaces: Mapping[str, str]
    """By name: one without policies (``bare``) and one with every policy (``full``)."""

    def topic(self, namespace: str, topic: str) -> str:
        """Returns ``tenant/namespace/topic``."""
        return f"{self.namespaces[namespace]}/{topic}"


@pytest.fixture(scope="module")
def levels(broker_of: BrokerOf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Levels]:
    """A broker, namespaces and topics with values at all four levels."""
    home = tmp_path_factory.mktemp("levels")
    own = OwnBroker(LATEST, settings=BROKER_SETTINGS)
    with contextlib.ExitStack() as stack:
        stack.callback(own.close)
        own.start()
        process = ServerProcess(["--pulsar", own.service_url, "--admin-url", own.admin_url], home / "server.log")
        stack.callback(process.kill)
        asyncio.run(process.start())
        with own.admin() as admin, BlockingApi(process.address) as api:
            (home / "agent").mkdir()
            made = Levels(own, admin, api, Agent(LATEST, home / "agent"), {kind: admin.create_namespace(kind) for kind in ("bare", "full")})
            _plant(made)
            yield made


@pytest.mark.parametrize("namespace", ["bare", "full"])
@pytest.mark.parametrize("topic", TOPICS)
def test_effective_values_are_what_the_broker_enforces(levels: Levels, namespace: str, topic: str) -> None:
    name = levels.topic(namespace, topic)
    found = levels.api.effective(name)
    enforced = levels.agent.ask(levels.broker, [f"persistent://{name}"])[f"persistent://{name}"]
    ours, theirs = _fields(found.policies), _fields(document(enforced))
    assert {setting: value for setting, value in ours.items() if setting.partition("/")[0] not in _ASIDE} == theirs
    assert len(theirs) > 28
    assert enforced["keptByLedger"]["retentionSizeInMB"] == found.policies.retention_policies.retention_size_in_mb
    for key, subscription in (("ofSubscription", SUBSCRIPTION), ("ofOtherSubscription", "other")):
        own = found.policies.subscription_policies
        rate = own[subscription].dispatch_rate if subscription in own else found.policies.subscription_dispatch_rate
        assert enforced[key] == _json(rate)


def test_each_value_names_its_level(levels: Levels) -> None:
    both = levels.api.effective(levels.topic("full", "both")).sources
    assert {both[field] for field in ("max_producer_per_topic", "retention_policies", "dispatch_rate")} == {"TOPIC_LOCAL"}
    global_ = levels.api.effective(levels.topic("full", "global")).sources
    assert global_["max_producer_per_topic"] == "TOPIC_GLOBAL"
    assert global_[f"subscription_policies.{SUBSCRIPTION}"] == "TOPIC_GLOBAL"
    assert global_["auto_subscription_creation_override"] == "NAMESPACE", "the broker ignores the GLOBAL one"
    nothing = levels.api.effective(levels.topic("full", "nothing")).sources
    assert nothing["back_log_quota_map.destination_storage"] == "NAMESPACE"
    assert nothing["back_log_quota_map.message_age"] == "BROKER"
    bare = levels.api.effective(levels.topic("bare", "nothing")).sources
    assert {bare[field] for field in ("max_producer_per_topic", "retention_policies", "publish_rate")} == {"BROKER"}


def _plant(levels: Levels) -> None:
    """Sets the values of every level, and waits until the broker has applied them."""
    for method, target, body in NAMESPACE_CALLS:
        path, _, query = target.partition("?")
        parameters = dict([query.split("=")]) if query else {}
        levels.admin.call(method, f"namespaces/{levels.namespaces['full']}/{path}", body, **parameters)
    names = [(levels.topic(namespace, topic), scopes) for namespace in levels.namespaces for topic, scopes in TOPICS.items()]
    for name, _ in names:
        levels.admin.create_topic(name)
        levels.admin.call("GET", f"persistent/{name}/stats")  # loads the topic
    for scope in (Scope.GLOBAL, Scope.LOCAL):  # one after the other: of two at once the broker may apply the later first
        wanted, changed = topic_document(scope), [name for name, scopes in names if scope in scopes]
        for name in changed:
            levels.api.update(name, wanted, scope=scope)
        _await_ledgers(levels, changed, wanted, scope)


def _await_ledgers(levels: Levels, topics: list[str], wanted: pb.TopicPolicies, scope: Scope) -> None:
    """Waits until the broker has applied a document, which ends with the settings of the ledger.

    The broker applies these asynchronously, once for each event. Of two events that are close together, the earlier may be applied last and
    remain; another event makes the broker apply the settings again.
    """
    retention = wanted.retention_policies
    kept = {"retentionTimeInMinutes": retention.retention_time_in_minutes, "retentionSizeInMB": retention.retention_size_in_mb}
    names = [f"persistent://{topic}" for topic in topics]
    deadline = time.monotonic() + _SECONDS
    while waiting := {name: shown for name, shown in levels.agent.ask(levels.broker, names).items() if shown["keptByLedger"] != kept}:
        assert time.monotonic() < deadline, f"the broker has not taken over {kept}: {waiting}"
        time.sleep(1)
        for name in waiting:
            levels.api.update(name, {"compaction_threshold": 1}, scope=scope)
            levels.api.update(name, {"compaction_threshold": wanted.compaction_threshold}, scope=scope)


def _fields(policies: pb.TopicPolicies) -> dict[str, str]:
    """Returns a document's settings as text."""
    return {setting: str(value) for setting, value in settings(comparable(policies)).items()}


def _json(rate: pb.DispatchRate) -> dict[str, Any]:
    return {
        "dispatchThrottlingRateInMsg": rate.dispatch_throttling_rate_in_msg,
        "dispatchThrottlingRateInByte": rate.dispatch_throttling_rate_in_byte,
        "relativeToPublishRate": rate.relative_to_publish_rate,
        "ratePeriodInSecond": rate.rate_period_in_second,
    }
