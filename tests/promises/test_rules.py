"""docs/rules.md, with what is known of the cluster from a file: rules, effective values and disabled topics.

``tests/promises/broker`` has the same rules beside a real broker.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from google.protobuf import text_format

from topicpolicies.v1.policies_pb2 import Scope, TopicPolicies

from .api import GLOBAL, LOCAL, Api, Refused
from .server_process import ServerProcess

CLUSTER = """
cluster = "us"
all_topics = true
[clusters]
us = []
eu = ["eu-peer"]
eu-peer = ["eu"]
asia = []
[tenants]
acme = ["us", "eu", "eu-peer"]
[broker]
maxMessageSize = 5242880
installedEntryFilters = ["by-region"]
[namespaces."acme/plain"]
max_producers_per_topic = 5
message_ttl_in_seconds = 60
replication_clusters = ["us"]
[namespaces."acme/retained"]
retention_policies = { retentionTimeInMinutes = 10, retentionSizeInMB = 100 }
[namespaces."acme/quoted"]
backlog_quota_map = { destination_storage = { limitSize = 104857600, limitTime = 600, policy = "producer_exception" } }
[namespaces."acme/replicated"]
replication_clusters = ["us", "eu", "eu-peer"]
[topics."persistent://acme/plain/shadow"]
"""
TOPICS = 160
_numbers = itertools.count()


class Case(NamedTuple):
    """An update on one side of a rule's limit."""

    policies: str
    mask: str
    refused: str = ""
    """The reasons of its violations; empty: it is accepted."""
    code: str = "INVALID_ARGUMENT"
    namespace: str = "plain"
    scope: Scope.ValueType = LOCAL
    before: str = ""
    """What the topic has already."""

    def __str__(self) -> str:
        """Its name in the list of tests."""
        words = [self.mask.replace("`", ""), self.refused.split(" ", maxsplit=1)[0] or "accepted"]
        return "-".join([*words, *({self.namespace} - {"plain"}), *(["global"] if self.scope == GLOBAL else [])])


NUMBERS = [
    "message_ttl_in_seconds", "subscription_expiration_time_in_minutes", "max_producer_per_topic", "max_consumer_per_topic",
    "max_consumers_per_subscription", "max_subscriptions_per_topic", "max_unacked_messages_on_consumer",
    "max_unacked_messages_on_subscription", "max_message_size", "compaction_threshold", "deduplication_snapshot_interval_seconds",
]  # fmt: skip
NOT_NOW = "FAILED_PRECONDITION"


def number(field: str, value: int, refused: str = "", code: str = "INVALID_ARGUMENT") -> Case:
    return Case(f"{field}: {value}", field, refused, code)


def retention(minutes: int, megabytes: int) -> str:
    return f"retention_policies {{ retention_time_in_minutes: {minutes} retention_size_in_mb: {megabytes} }}"


def keep(
    minutes: int, megabytes: int, refused: str = "", code: str = "INVALID_ARGUMENT", namespace: str = "plain", before: str = ""
) -> Case:
    return Case(retention(minutes, megabytes), "retention_policies", refused, code, namespace, before=before)


def quota(kind: str, size: int, seconds: int) -> str:
    return f'back_log_quota_map {{ key: "{kind}" value {{ limit_size: {size} limit_time: {seconds} policy: BACKLOG_QUOTA_POLICY_PRODUCER_EXCEPTION }} }}'  # noqa: E501


def limit(kind: str, size: int, seconds: int, refused: str = "", namespace: str = "plain", before: str = "") -> Case:
    return Case(quota(kind, size, seconds), f"back_log_quota_map.{kind}", refused, NOT_NOW, namespace, before=before)


def persistence(ensemble: int, write: int, ack: int, refused: str = "", code: str = "INVALID_ARGUMENT") -> Case:
    numbers = f"bookkeeper_ensemble: {ensemble} bookkeeper_write_quorum: {write} bookkeeper_ack_quorum: {ack}"
    return Case(f"persistence {{ {numbers} managed_ledger_max_mark_delete_rate: 1 }}", "persistence", refused, code)


def clusters(names: str, refused: str = "", namespace: str = "plain", scope: Scope.ValueType = LOCAL) -> Case:
    text = " ".join(f'replication_clusters: "{name}"' for name in names.split())
    return Case(text, "replication_clusters", refused, NOT_NOW, namespace, scope)


def shadow(name: str, refused: str = "", code: str = "INVALID_ARGUMENT", scope: Scope.ValueType = LOCAL) -> Case:
    return Case(f'shadow_topics: "{name}"', "shadow_topics", refused, code, scope=scope)


def filters(names: str, refused: str = "", code: str = "INVALID_ARGUMENT") -> Case:
    return Case(f'entry_filters {{ entry_filter_names: "{names}" }}', "entry_filters", refused, code)


def offload(text: str, refused: str = "") -> Case:
    return Case(f"offload_policies {{ {text} }}", "offload_policies", refused)


def rate(messages: int, refused: str = "") -> Case:
    return Case(
        f'subscription_policies {{ key: "billing" value {{ dispatch_rate {{ dispatch_throttling_rate_in_msg: {messages} }} }} }}',
        "subscription_policies.billing",
        refused,
    )


SIZE = 100 * 1024 * 1024
COMPATIBILITY = "schema_compatibility_strategy: SCHEMA_COMPATIBILITY_STRATEGY_FULL"
CASES = [
    *(number(field, 0) for field in NUMBERS),
    *(number(field, -1, "NEGATIVE") for field in NUMBERS),
    number("max_message_size", 5 * 1024 * 1024),
    number("max_message_size", 5 * 1024 * 1024 + 1, "ABOVE_BROKER_MAXIMUM", NOT_NOW),
    keep(-1, -1),
    keep(0, 0),
    keep(-2, 5, "BELOW_MINUS_ONE"),
    keep(5, -2, "BELOW_MINUS_ONE"),
    keep(0, 5, "HALF_ZERO"),
    keep(5, 0, "HALF_ZERO"),
    limit("destination_storage", SIZE, -1),
    limit("destination_storage", SIZE, -1, "QUOTA_ABOVE_RETENTION", before=retention(10, 100)),
    limit("destination_storage", SIZE - 1, -1, before=retention(10, 100)),
    limit("message_age", -1, 600, "QUOTA_ABOVE_RETENTION", before=retention(10, -1)),
    limit("message_age", -1, 599, before=retention(10, -1)),
    limit("message_age", -1, 600, "QUOTA_ABOVE_RETENTION", "retained"),
    limit("message_age", -1, 600, namespace="retained", before=retention(20, 200)),
    keep(10, 100, "RETENTION_BELOW_QUOTA", NOT_NOW, before=quota("destination_storage", SIZE, -1)),
    keep(10, 101, before=quota("destination_storage", SIZE, -1)),
    keep(10, 100, "RETENTION_BELOW_QUOTA", NOT_NOW, "quoted"),
    keep(11, 101, namespace="quoted"),
    persistence(5, 5, 5),
    persistence(6, 5, 5, "ABOVE_BROKER_MAXIMUM", NOT_NOW),
    persistence(0, 0, 0, "NOT_POSITIVE"),
    persistence(2, 3, 1, "QUORUM_ORDER"),
    persistence(3, 2, 3, "QUORUM_ORDER"),
    clusters("us"),
    clusters("eu", "LOCAL_CLUSTER_MISSING"),
    clusters("us eu"),
    clusters("us nowhere", "UNKNOWN_CLUSTER CLUSTER_NOT_ALLOWED"),
    clusters("us asia", "CLUSTER_NOT_ALLOWED"),
    clusters("us eu eu-peer", "PEER_CLUSTERS", "replicated"),
    clusters("us", "NAMESPACE_NOT_REPLICATED", scope=GLOBAL),
    clusters("eu", namespace="replicated", scope=GLOBAL),
    shadow("persistent://acme/plain/shadow"),
    shadow("persistent://acme/plain/missing", "SHADOW_NOT_FOUND", NOT_NOW),
    shadow("non-persistent://acme/plain/shadow", "SHADOW_NOT_PERSISTENT"),
    shadow("persistent://acme", "MALFORMED_NAME"),
    shadow("persistent://acme/plain/shadow", "LOCAL_SCOPE_ONLY", scope=GLOBAL),
    Case(COMPATIBILITY, "schema_compatibility_strategy"),
    Case(COMPATIBILITY, "schema_compatibility_strategy", "LOCAL_SCOPE_ONLY", scope=GLOBAL),
    filters("by-region"),
    filters(",", "BLANK"),
    filters("by-colour", "UNKNOWN_ENTRY_FILTER", NOT_NOW),
    offload('managed_ledger_offload_driver: "filesystem"'),
    offload('managed_ledger_offload_driver: "S3" s3_managed_ledger_offload_bucket: "b"'),
    offload('managed_ledger_offload_driver: "tape"', "UNKNOWN_DRIVER"),
    offload('managed_ledger_offload_driver: "azureblob"', "NO_BUCKET"),
    rate(5),
    rate(-1, "NO_LIMIT"),
]  # fmt: skip


class Cluster:
    """A server on the embedded log, and its cluster file."""

    def __init__(self, home: Path) -> None:
        self.path = home / "cluster.toml"
        self._written = 1_000_000_000
        namespaces = ("plain", "retained", "quoted", "replicated")
        topics = "".join(f'[topics."persistent://acme/{name}/topic-{each}"]\n' for name in namespaces for each in range(TOPICS))
        self.text = CLUSTER + topics
        self.write(self.text)
        options = ["--data", str(home / "policies.db"), "--cluster-file", str(self.path), "--bookmark-interval-seconds", "1"]
        self.server = ServerProcess(options, home / "server.log")

    def write(self, text: str) -> None:
        """Replaces the file's content."""
        self.path.write_text(text)
        self._written += 1
        os.utime(self.path, (self._written, self._written))  # two writes in one moment differ too


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("rules"))
    asyncio.run(cluster.server.start())
    yield cluster
    cluster.server.kill()


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[Api]:
    async with Api(cluster.server.address) as api:
        yield api


def new_topic(namespace: str = "plain") -> str:
    """Returns a topic that the file names, and no other test has."""
    at = next(_numbers)
    assert at < TOPICS, "there are more tests than topics"
    return f"persistent://acme/{namespace}/topic-{at}"


async def refusal(coroutine: object) -> Refused:
    with pytest.raises(Refused) as caught:
        await coroutine  # type: ignore[misc]
    return caught.value


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_each_side_of_a_rule(api: Api, case: Case) -> None:
    topic = new_topic(case.namespace)
    before = await api.update(topic, text_format.Parse(case.before, TopicPolicies())) if case.before else None
    policies = text_format.Parse(case.policies, TopicPolicies())
    if not case.refused:
        assert (await api.update(topic, policies, mask=[case.mask], scope=case.scope)).outcome == "APPLIED"
        return
    refused = await refusal(api.update(topic, policies, mask=[case.mask], scope=case.scope))
    assert (refused.code, {each.reason for each in refused.violations}) == (case.code, set(case.refused.split()))
    assert all(each.sentence and each.field.startswith("policies.") for each in refused.violations)
    document = await api.get(topic, case.scope)
    assert document.policies == (before.document.policies if before is not None and before.document is not None else None)


async def test_all_violations_of_a_request_are_named_and_nothing_is_applied(api: Api) -> None:
    topic = new_topic()
    refused = await refusal(
        api.update(
            topic, {"max_producer_per_topic": -1, "message_ttl_in_seconds": -5, "max_message_size": 10**9, "max_consumer_per_topic": 3}
        )
    )
    assert refused.code == "INVALID_ARGUMENT", "of both kinds, this one is named"
    assert {each.field: each.reason for each in refused.violations} == {
        "policies.max_producer_per_topic": "NEGATIVE",
        "policies.message_ttl_in_seconds": "NEGATIVE",
        "policies.max_message_size": "ABOVE_BROKER_MAXIMUM",
    }
    assert (await api.get(topic)).policies is None


async def test_a_dry_run_has_the_same_violations_and_writes_nothing(api: Api) -> None:
    topic = new_topic()
    refused = await refusal(api.update(topic, {"max_producer_per_topic": -1, "max_message_size": 10**9}, dry_run=True))
    assert {each.reason for each in refused.violations} == {"NEGATIVE", "ABOVE_BROKER_MAXIMUM"}
    would = await api.update(topic, {"max_producer_per_topic": 1}, dry_run=True)
    assert (
        would.outcome == "WOULD_APPLY" and would.document is not None and would.document.policies == TopicPolicies(max_producer_per_topic=1)
    )
    assert (await api.get(topic)).policies is None


async def test_a_list_operation_is_judged_by_the_list_that_it_makes(api: Api) -> None:
    topic = new_topic()
    await api.update(topic, {"replication_clusters": ["us", "eu"]})
    taken = api.update(topic, {"replication_clusters": ["us"]}, lists={"replication_clusters": "SUBTRACT"})
    assert [each.reason for each in (await refusal(taken)).violations] == ["LOCAL_CLUSTER_MISSING"]


async def test_values_that_stay_are_not_judged_again(api: Api) -> None:
    topic = new_topic()
    await api.update(topic, {"max_message_size": 5 * 1024 * 1024})
    document = await api.get(topic)
    assert (await api.update(topic, document.policies, mask=["*"])).outcome == "UNCHANGED"


async def test_of_a_quota_and_a_retention_that_conflict_one_is_refused(api: Api) -> None:
    for _ in range(5):
        topic = new_topic()
        await api.update(topic, {"max_producer_per_topic": 1})
        answers = await asyncio.gather(
            api.update(topic, text_format.Parse(quota("message_age", -1, 3600), TopicPolicies())),
            api.update(topic, text_format.Parse(retention(60, -1), TopicPolicies())),
            return_exceptions=True,
        )
        assert sum(isinstance(answer, Refused) for answer in answers) == 1
        policies = (await api.get(topic)).policies
        assert policies is not None and policies.HasField("retention_policies") != bool(policies.back_log_quota_map)


async def test_a_topic_that_does_not_exist_is_not_found(api: Api) -> None:
    refused = await refusal(api.update("persistent://acme/plain/missing", {"max_producer_per_topic": 1}))
    assert (refused.code, refused.reason) == ("NOT_FOUND", "TOPIC_NOT_FOUND")


async def test_each_effective_value_is_that_of_its_level(api: Api) -> None:
    topic = new_topic()
    await api.update(topic, {"max_consumer_per_topic": 7, "message_ttl_in_seconds": 30})
    both = {"max_consumer_per_topic": 8, "max_subscriptions_per_topic": 9, "message_ttl_in_seconds": 40, "max_producer_per_topic": 4}
    await api.update(topic, both, scope=GLOBAL)
    found = await api.effective(topic)
    for field, value, source in (
        ("max_consumer_per_topic", 7, "TOPIC_LOCAL"),
        ("message_ttl_in_seconds", 30, "TOPIC_LOCAL"),
        ("max_subscriptions_per_topic", 9, "TOPIC_GLOBAL"),
        ("max_producer_per_topic", 4, "TOPIC_GLOBAL"),
        ("max_unacked_messages_on_consumer", 50_000, "BROKER"),
    ):
        assert (getattr(found.policies, field), found.sources[field]) == (value, source)
    await api.delete(topic, scope=GLOBAL)
    await api.update(topic, mask=["message_ttl_in_seconds"])
    found = await api.effective(topic)
    assert (found.policies.max_producer_per_topic, found.sources["max_producer_per_topic"]) == (5, "NAMESPACE")
    assert (found.policies.message_ttl_in_seconds, found.sources["message_ttl_in_seconds"]) == (60, "NAMESPACE")


async def test_effective_quotas_resolve_by_type_and_retention_as_a_whole(api: Api) -> None:
    topic = new_topic("quoted")
    await api.update(topic, text_format.Parse(quota("message_age", -1, 30), TopicPolicies()))
    found = await api.effective(topic)
    assert found.policies.back_log_quota_map["message_age"].limit_time == 30
    assert found.policies.back_log_quota_map["destination_storage"].limit_size == SIZE
    assert found.sources["back_log_quota_map.message_age"] == "TOPIC_LOCAL"
    assert found.sources["back_log_quota_map.destination_storage"] == "NAMESPACE"


async def test_negative_and_empty_values_count_as_unset_in_effective_values(api: Api) -> None:
    topic = new_topic()
    await api.update(
        topic, text_format.Parse("publish_rate { publish_throttling_rate_in_msg: -1 publish_throttling_rate_in_byte: -1 }", TopicPolicies())
    )
    assert (await api.effective(topic)).sources.get("publish_rate") != "TOPIC_LOCAL"


async def becomes(api: Api, topic: str, *, disabled: bool) -> None:
    """Waits until the server has read the changed file."""
    async with asyncio.timeout(20):
        while (await api.effective(topic)).disabled is not disabled:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def test_disabled_topics_are_refused_hidden_and_come_back(api: Api, cluster: Cluster) -> None:
    topic, other = new_topic(), new_topic()
    await api.update(topic, {"max_producer_per_topic": 77})
    await api.update(other, {"max_producer_per_topic": 78})
    disabled = 'properties = { __topic_policies_disabled = "true" }\n'
    try:
        cluster.write(cluster.text.replace('[namespaces."acme/plain"]\n', f'[namespaces."acme/plain"]\n{disabled}'))
        await becomes(api, topic, disabled=True)
        refused = await refusal(api.update(topic, {"max_producer_per_topic": 1}))
        assert (refused.code, refused.reason) == ("FAILED_PRECONDITION", "TOPIC_POLICIES_DISABLED")
        assert (await api.get(topic)).policies is None
        assert (await api.effective(topic)).policies.max_producer_per_topic == 5, "the namespace's"
        enabled = f'[topics."{topic}"]\nproperties = {{ __topic_policies_disabled = "false" }}\n'
        text = cluster.text.replace('[namespaces."acme/plain"]\n', f'[namespaces."acme/plain"]\n{disabled}')
        cluster.write(text.replace(f'[topics."{topic}"]\n', enabled))
        await becomes(api, topic, disabled=False)
        assert (await api.get(topic)).policies == TopicPolicies(max_producer_per_topic=77)
        assert (await refusal(api.update(other, {"max_producer_per_topic": 1}))).reason == "TOPIC_POLICIES_DISABLED"
    finally:
        cluster.write(cluster.text)
    await becomes(api, other, disabled=False)
    assert (await api.get(other)).policies == TopicPolicies(max_producer_per_topic=78)
