"""Effective policies: which level wins, and the exceptions. A real broker confirms it in ``tests/promises/broker/test_effective.py``."""

from __future__ import annotations

import pytest
from google.protobuf import text_format
from hypothesis import given

from tests.core.policies import policies
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.policies.documents import FIELDS
from topicpolicies_server.core.policies.facts import BrokerFacts
from topicpolicies_server.core.policies.resolution import Resolved, Source, effective

LOCAL, GLOBAL, NAMESPACE, BROKER = Source


def doc(text: str) -> TopicPolicies:
    return text_format.Parse(text, TopicPolicies())


def resolve(local: str = "", global_: str = "", namespace: str = "", broker: str = "", *, overridable: bool = True) -> Resolved:
    return effective(doc(local), doc(global_), doc(namespace), BrokerFacts(doc(broker), filters_overridable=overridable))


@pytest.mark.parametrize(
    ("levels", "source"),
    [
        (("max_producer_per_topic: 1",) * 4, LOCAL),
        (("", *("max_producer_per_topic: 1",) * 3), GLOBAL),
        (("", "", *("max_producer_per_topic: 1",) * 2), NAMESPACE),
        (("", "", "", "max_producer_per_topic: 1"), BROKER),
    ],
)
def test_the_first_level_that_sets_a_value_wins(levels: tuple[str, str, str, str], source: Source) -> None:
    found = resolve(*levels)
    assert found.sources == {"max_producer_per_topic": source}
    assert found.policies == doc("max_producer_per_topic: 1")


@pytest.mark.parametrize(
    ("nothing", "something"),
    [
        (f"{field}: -1", f"{field}: 0")
        for field in (
            "max_subscriptions_per_topic",
            "max_unacked_messages_on_consumer",
            "max_unacked_messages_on_subscription",
            "max_producer_per_topic",
            "max_consumer_per_topic",
            "max_consumers_per_subscription",
            "max_message_size",
            "message_ttl_in_seconds",
            "subscription_expiration_time_in_minutes",
        )
    ]
    + [
        (f"{field} {{ dispatch_throttling_rate_in_msg: 0 }}", f"{field} {{ dispatch_throttling_rate_in_byte: 1 }}")
        for field in ("dispatch_rate", "subscription_dispatch_rate", "replicator_dispatch_rate")
    ]
    + [
        ("publish_rate { publish_throttling_rate_in_msg: 0 }", "publish_rate { publish_throttling_rate_in_msg: 1 }"),
        (
            "subscribe_rate { subscribe_throttling_rate_per_consumer: 1 }",
            "subscribe_rate { subscribe_throttling_rate_per_consumer: 1 rate_period_in_second: 1 }",
        ),
    ],
)
def test_a_value_that_means_unset_is_passed_over_except_at_the_broker(nothing: str, something: str) -> None:
    assert resolve(nothing, something).policies == doc(something)
    assert list(resolve(nothing, nothing, something).sources.values()) == [NAMESPACE]
    assert resolve(nothing, nothing, nothing, nothing).policies == doc(nothing)


@pytest.mark.parametrize("field", ["compaction_threshold", "deduplication_snapshot_interval_seconds"])
def test_a_negative_number_of_another_field_is_a_value(field: str) -> None:
    assert resolve(f"{field}: -1", f"{field}: 5").sources == {field: LOCAL}


def test_backlog_quotas_are_resolved_per_type() -> None:
    size = 'back_log_quota_map { key: "destination_storage" value { limit_size: %d } }'
    age = 'back_log_quota_map { key: "message_age" value { limit_time: %d } }'
    found = resolve(size % 1, age % 2, size % 3 + age % 3)
    assert found.sources == {"back_log_quota_map.destination_storage": LOCAL, "back_log_quota_map.message_age": GLOBAL}
    assert found.policies == doc(size % 1 + age % 2)


def test_subscriptions_are_a_union_of_the_topics_documents() -> None:
    one = 'subscription_policies {{ key: "{}" value {{ dispatch_rate {{ dispatch_throttling_rate_in_msg: {} }} }} }}'
    found = resolve(one.format("a", 1), one.format("a", 2) + one.format("b.c", 2))
    assert found.sources == {"subscription_policies.a": LOCAL, "subscription_policies.`b.c`": GLOBAL}
    assert found.policies == doc(one.format("a", 1) + one.format("b.c", 2))


def test_offload_policies_are_merged_leaf_by_leaf_below_the_topics_first_document() -> None:
    found = resolve(
        'offload_policies { managed_ledger_offload_driver: "S3" managed_ledger_extra_configurations { key: "a" value: "topic" } }',
        'offload_policies { managed_ledger_offload_bucket: "never" }',
        'offload_policies { managed_ledger_offload_region: "eu" managed_ledger_extra_configurations { key: "a" value: "namespace" } }',
        "offload_policies { managed_ledger_offload_max_threads: 9 }",
    )
    offload = found.policies.offload_policies
    assert not offload.HasField("managed_ledger_offload_bucket")
    assert (offload.managed_ledger_offload_driver, offload.managed_ledger_offload_region) == ("S3", "eu")
    assert (offload.managed_ledger_offload_max_threads, offload.managed_ledger_offload_read_threads) == (9, 2)
    assert offload.managed_ledger_extra_configurations == {"a": "topic"}
    assert found.sources["offload_policies.managed_ledger_offload_region"] is NAMESPACE
    assert found.sources["offload_policies.managed_ledger_extra_configurations.a"] is LOCAL
    assert not resolve("").policies.HasField("offload_policies")


@pytest.mark.parametrize("text", ["auto_subscription_creation_override { allow_auto_subscription_creation: true }", 'shadow_topics: "a"'])
def test_some_policies_of_the_global_document_are_ignored(text: str) -> None:
    assert resolve("", text).sources == {}
    assert list(resolve(text, text).sources.values()) == [LOCAL]


def test_entry_filters_are_those_of_the_broker_unless_overriding_is_allowed() -> None:
    texts = [f'entry_filters {{ entry_filter_names: "{name}" }}' for name in ("topic", "global", "namespace", "broker")]
    assert resolve(*texts).sources == {"entry_filters": LOCAL}
    assert resolve(*texts, overridable=False).policies == doc(texts[3])


def test_delayed_delivery_is_resolved_field_by_field() -> None:
    half, whole = "delayed_delivery_enabled: true", "delayed_delivery_enabled: false delayed_delivery_tick_time_millis: 5"
    assert resolve(half, "", whole).policies == doc("delayed_delivery_enabled: true delayed_delivery_tick_time_millis: 5")


@given(policies(), policies(), policies(), policies())
def test_every_value_equals_that_of_its_source_and_is_a_copy(
    local: TopicPolicies, global_: TopicPolicies, namespace: TopicPolicies, broker: TopicPolicies
) -> None:
    levels = dict(zip(Source, (local, global_, namespace, broker), strict=True))
    found = effective(local, global_, namespace, BrokerFacts(broker))
    for name in FIELDS:
        value = getattr(found.policies, name)
        source = found.sources.get(name)
        if source is not None:
            assert value == getattr(levels[source], name)
    before = [level.SerializeToString(deterministic=True) for level in levels.values()]
    found.policies.Clear()
    assert before == [level.SerializeToString(deterministic=True) for level in levels.values()]
