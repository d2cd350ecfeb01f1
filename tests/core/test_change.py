"""Compiled changes: which updates are refused, and the documents after the others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.policies import EXTRAS
from topicpolicies.masks import parse_path
from topicpolicies.v1 import policies_pb2 as pb
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import ListOperation
from topicpolicies_server.core.changes.change import Change, compile_change
from topicpolicies_server.core.changes.masks import MAX_PATHS
from topicpolicies_server.core.changes.plan import touched_by
from topicpolicies_server.core.errors import Kind, PolicyError, Violation
from topicpolicies_server.core.policies import documents
from topicpolicies_server.core.policies.documents import EXTRAS_TAG, Document, join, split
from topicpolicies_server.core.policies.events import ListChange

UNION, SUBTRACT = ListOperation.LIST_OPERATION_UNION, ListOperation.LIST_OPERATION_SUBTRACT
REPLACE, UNSPECIFIED = ListOperation.LIST_OPERATION_REPLACE, ListOperation.LIST_OPERATION_UNSPECIFIED
RATE: dict[str, Any] = {
    "dispatch_throttling_rate_in_byte": -1,
    "dispatch_throttling_rate_in_msg": 5,
    "rate_period_in_second": 1,
    "relative_to_publish_rate": False,
}


def compiled(policies: TopicPolicies | None, *paths: str, lists: dict[str, int] | None = None) -> Change:
    return compile_change(policies, paths, lists or {})


def refused(policies: TopicPolicies | None, *paths: str, lists: dict[str, int] | None = None) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        compiled(policies, *paths, lists=lists)
    assert caught.value.kind is Kind.INVALID_ARGUMENT
    assert caught.value.violations
    return caught.value


def pairs(violations: tuple[Violation, ...]) -> list[tuple[str, str]]:
    return [(violation.field, violation.reason) for violation in violations]


def retention(time: int | None = None, size: int | None = None) -> TopicPolicies:
    return TopicPolicies(retention_policies=pb.RetentionPolicies(retention_time_in_minutes=time, retention_size_in_mb=size))


def subscription(name: str, rate: pb.DispatchRate | None = None) -> TopicPolicies:
    policies = TopicPolicies()
    policies.subscription_policies[name].CopyFrom(pb.SubscriptionPolicies(dispatch_rate=rate))
    return policies


def with_extras(policies: TopicPolicies, data: bytes = b"{}") -> TopicPolicies:
    """Returns the document, with a newer broker's leaf added to its retention."""
    policies.retention_policies.MergeFromString(EXTRAS + bytes([len(data)]) + data)
    return policies


# Refusals


def test_an_update_without_a_mask_and_without_values_is_refused() -> None:
    assert pairs(refused(None).violations) == [("update_mask", "EMPTY_MASK")]
    nothing = TopicPolicies(schema_compatibility_strategy=pb.SCHEMA_COMPATIBILITY_STRATEGY_UNSPECIFIED)
    nothing.subscription_policies["s"].SetInParent()
    nothing.entry_filters.SetInParent()
    assert refused(nothing).violations[0].reason == "EMPTY_MASK"


def test_all_errors_of_an_update_are_reported_at_once() -> None:
    policies = TopicPolicies(schema_compatibility_strategy=50)  # type: ignore[arg-type]
    policies.retention_policies.retention_size_in_mb = 1
    policies.dispatch_rate.MergeFromString(b"\xc0\x3e\x01")
    error = refused(
        policies,
        "schema_compatibility_strategy",
        "no_such_field",
        "retention_policies",
        "dispatch_rate",
        "entry_filters..x",
        lists={"shadow_topics": UNION},
    )
    assert sorted(pairs(error.violations)) == [
        ("list_operations.shadow_topics", "NOT_IN_MASK"),
        ("policies.dispatch_rate", "UNKNOWN_FIELD"),
        ("policies.retention_policies", "HALF_OBJECT"),
        ("policies.schema_compatibility_strategy", "UNKNOWN_ENUM_VALUE"),
        ("update_mask.paths[1]", "UNKNOWN_PATH"),
        ("update_mask.paths[4]", "EMPTY_SEGMENT"),
    ]
    assert error.reason == "INVALID_REQUEST"
    assert all(violation.description in error.message for violation in error.violations)


def test_values_outside_the_mask_are_not_validated() -> None:
    policies = TopicPolicies(max_producer_per_topic=1, schema_compatibility_strategy=50)  # type: ignore[arg-type]
    policies.retention_policies.retention_size_in_mb = 1
    policies.dispatch_rate.MergeFromString(b"\xc0\x3e\x01")
    change = compiled(policies, "max_producer_per_topic", "dispatch_rate.rate_period_in_second")
    assert change.apply(None) == split(TopicPolicies(max_producer_per_topic=1))


def test_an_implied_mask_of_too_many_paths_is_refused() -> None:
    policies = TopicPolicies()
    for index in range(MAX_PATHS + 1):
        policies.subscription_policies[f"s{index}"].dispatch_rate.rate_period_in_second = 1
    assert refused(policies).violations[0].reason == "TOO_MANY_PATHS"
    assert compiled(policies, "subscription_policies").plan.families == {"subscription_policies"}


@pytest.mark.parametrize(
    ("lists", "reason"),
    [
        ({"max_producer_per_topic": UNION}, "NOT_A_LIST"),
        ({"no_such_field": REPLACE}, "NOT_A_LIST"),
        ({"replication_clusters": 17}, "UNKNOWN_LIST_OPERATION"),
        ({"shadow_topics": UNION}, "NOT_IN_MASK"),
        ({"shadow_topics": REPLACE}, "NOT_IN_MASK"),
        ({"subscription_types_enabled": UNION}, "NO_ELEMENTS"),
        ({"subscription_types_enabled": SUBTRACT}, "NO_ELEMENTS"),
    ],
)
def test_invalid_list_operations_are_refused(lists: dict[str, int], reason: str) -> None:
    policies = TopicPolicies(replication_clusters=["a"], shadow_topics=["t"])
    error = refused(policies, "replication_clusters", "subscription_types_enabled", lists=lists)
    assert pairs(error.violations) == [(f"list_operations.{next(iter(lists))}", reason)]


def test_with_a_wildcard_lists_are_replaced_and_other_list_operations_are_refused() -> None:
    policies = TopicPolicies(replication_clusters=["a"])
    assert refused(policies, "*", lists={"replication_clusters": UNION}).violations[0].reason == "NOT_IN_MASK"
    assert compiled(policies, "*", lists={"replication_clusters": REPLACE}).apply(None) == split(policies)


@given(
    st.lists(st.text() | st.text(alphabet="ab.`*_ \ud800"), max_size=5),
    st.dictionaries(st.text() | st.sampled_from(sorted(documents.LISTS)), st.integers(-(2**31), 2**31 - 1), max_size=3),
)
def test_a_bad_request_never_raises_anything_but_a_policy_error(paths: list[str], lists: dict[str, int]) -> None:
    violations: tuple[Violation, ...] = ()
    try:
        compile_change(retention(1, 1), paths, lists)
    except PolicyError as error:
        violations = error.violations
    named = [parse_path(path)[:1] for path in paths] if not violations else []
    assert violations or all(path == () or path[0] in documents.FIELDS for path in named)


# Properties of a compiled change


def test_a_change_of_whole_settings_reads_none_of_them() -> None:
    change = compiled(retention(1, 1), "retention_policies", "max_producer_per_topic")
    assert change.plan.paths == ("max_producer_per_topic", "retention_policies")
    assert change.plan.settings == {"retention_policies", "max_producer_per_topic"}
    assert not change.partial
    assert change.applied(split(retention(5, 5))).reads == {}


def test_a_change_of_some_leaves_of_a_setting_reads_the_setting() -> None:
    head = split(retention(5, 5))
    change = compiled(retention(1), "retention_policies.retention_time_in_minutes")
    assert change.plan.settings == change.partial == {"retention_policies"}
    assert change.applied(head).reads == {"retention_policies": documents.digest(head["retention_policies"])}
    assert change.applied(None).reads == {"retention_policies": ""}


def test_a_change_of_all_leaves_of_a_setting_replaces_the_whole_setting() -> None:
    paths = ("retention_policies.retention_size_in_mb", "retention_policies.retention_time_in_minutes")
    change = compiled(retention(1, 2), *paths)
    assert change.plan.paths == paths
    assert not change.partial
    assert change.apply(split(retention(5, 5))) == split(retention(1, 2))
    assert compiled(subscription("s"), "subscription_policies.s.dispatch_rate").partial == frozenset()


def test_delayed_delivery_is_one_setting_of_three_fields() -> None:
    head = split(TopicPolicies(delayed_delivery_enabled=True, delayed_delivery_tick_time_millis=1, delayed_delivery_max_delay_in_millis=2))
    one = compiled(TopicPolicies(delayed_delivery_tick_time_millis=9), "delayed_delivery_tick_time_millis")
    assert one.partial == {"delayed_delivery"}
    assert join(one.apply(head)) == TopicPolicies(
        delayed_delivery_enabled=True, delayed_delivery_tick_time_millis=9, delayed_delivery_max_delay_in_millis=2
    )
    assert join(compiled(None, "delayed_delivery_enabled").apply(head)) == TopicPolicies(
        delayed_delivery_tick_time_millis=1, delayed_delivery_max_delay_in_millis=2
    )
    three = ("delayed_delivery_enabled", "delayed_delivery_max_delay_in_millis", "delayed_delivery_tick_time_millis")
    assert not compiled(None, *three).partial
    assert compiled(None, *three).apply(head) == {}


# Applying


def test_a_compiled_change_is_not_affected_by_later_changes_of_the_message() -> None:
    policies = retention(1, 1)
    change = compiled(policies, "retention_policies.retention_time_in_minutes")
    policies.retention_policies.retention_time_in_minutes = 99
    assert change.apply(split(retention(5, 6))) == split(retention(1, 6))


# Settings and leaves of a newer broker


def test_settings_of_a_newer_broker_are_not_touched() -> None:
    head: Document = {"?newerPolicy": b"1", **split(retention(1, 1))}
    for change in (compiled(None, "*"), compiled(None, "retention_policies")):
        assert change.apply(head) == {"?newerPolicy": b"1"}
        assert "?newerPolicy" not in touched_by(change.plan.paths, head, {"?newerPolicy": b"1"})


@pytest.mark.parametrize(
    "paths",
    [
        ["*"],
        ["retention_policies"],
        ["retention_policies.retention_time_in_minutes"],
        ["retention_policies.retention_time_in_minutes", "retention_policies.retention_size_in_mb"],
    ],
)
def test_leaves_of_a_newer_broker_stay_and_their_setting_is_read(paths: list[str]) -> None:
    head = split(with_extras(retention(5, 6)))
    change = compiled(with_extras(retention(1, 6), b"[]"), *paths)
    assert change.apply(head) == split(with_extras(retention(1, 6)))
    assert change.applied(head).reads == {"retention_policies": documents.digest(head["retention_policies"])}


def test_leaves_of_a_newer_broker_are_removed_with_their_object() -> None:
    head = split(with_extras(retention(5, 6)))
    assert compiled(None, "*").apply(head) == {}
    assert compiled(None, "retention_policies").apply(head) == {}
    assert compiled(None, "retention_policies.retention_time_in_minutes", "retention_policies.retention_size_in_mb").apply(head) == {}


def test_a_newer_brokers_policy_of_a_subscription_stays_when_the_rate_is_cleared() -> None:
    newer = subscription("s")
    newer.subscription_policies["s"].MergeFromString(EXTRAS + b"\x02{}")
    both = subscription("s", pb.DispatchRate(**RATE))
    both.subscription_policies["s"].MergeFromString(EXTRAS + b"\x02{}")
    change = compiled(None, "subscription_policies.s.dispatch_rate")
    assert change.apply(split(both)) == split(newer)
    assert set(change.applied(split(both)).reads) == {"subscription_policies/s"}
    assert compiled(None, "subscription_policies.s").apply(split(both)) == {}


@pytest.mark.parametrize("paths", [["*"], ["subscription_policies", "offload_policies"], ["subscription_policies.s", "offload_policies"]])
def test_an_object_set_to_an_empty_one_is_removed_with_its_leaves_of_a_newer_broker(paths: list[str]) -> None:
    newer = TopicPolicies()
    newer.subscription_policies["s"].MergeFromString(EXTRAS + b"\x02{}")
    newer.offload_policies.MergeFromString(EXTRAS + b"\x02{}")
    head = split(newer)
    assert set(head) == {"subscription_policies/s", "offload_policies"}
    empty = subscription("s")
    empty.offload_policies.SetInParent()
    assert compiled(empty, *paths).apply(head) == compiled(None, *paths).apply(head) == {}


def test_leaves_of_a_newer_broker_in_an_entry_of_a_replaced_map_stay() -> None:
    rate = pb.DispatchRate(**RATE)
    newer = subscription("s", rate)
    newer.subscription_policies["s"].MergeFromString(EXTRAS + b"\x02{}")
    head = split(newer) | split(subscription("t", rate))
    change = compiled(subscription("s", rate), "subscription_policies")
    assert change.apply(head) == split(newer)
    assert set(change.applied(head).reads) == {"subscription_policies/s"}


@pytest.mark.parametrize("number", [4_294_967_290, 549_755_813_120, 549_755_813_247])
def test_a_number_with_the_bytes_of_a_newer_brokers_leaf_is_replaced_like_any_other(number: int) -> None:
    head = split(TopicPolicies(compaction_threshold=number))
    assert EXTRAS_TAG in head["compaction_threshold"]
    for wanted in (
        TopicPolicies(compaction_threshold=5),
        TopicPolicies(compaction_threshold=5, retention_policies=retention(1, 2).retention_policies),
    ):
        change = compiled(wanted)
        assert change.apply(head) == split(wanted)
        assert change.applied(head).reads == {}
    assert compiled(None, "compaction_threshold").apply(head) == {}


# List operations


def test_a_union_adds_at_the_end_and_a_subtraction_removes() -> None:
    exclusive, shared, failover = pb.SUBSCRIPTION_TYPE_EXCLUSIVE, pb.SUBSCRIPTION_TYPE_SHARED, pb.SUBSCRIPTION_TYPE_FAILOVER
    head = split(TopicPolicies(replication_clusters=["a", "b"], subscription_types_enabled=[exclusive, shared, failover]))
    change = compiled(
        TopicPolicies(replication_clusters=["c", "b", "c"], subscription_types_enabled=[failover, exclusive]),
        "replication_clusters",
        "subscription_types_enabled",
        lists={"replication_clusters": UNION, "subscription_types_enabled": SUBTRACT},
    )
    assert {setting: operation for setting, (operation, _) in change.operands.items()} == {
        "replication_clusters": ListChange.UNION,
        "subscription_types_enabled": ListChange.SUBTRACT,
    }
    assert not change.partial
    assert join(change.apply(head)) == TopicPolicies(replication_clusters=["a", "b", "c"], subscription_types_enabled=[shared])


@pytest.mark.parametrize("number", [REPLACE, UNSPECIFIED])
def test_replacing_a_list_is_not_recorded_as_a_list_operation(number: int) -> None:
    change = compiled(TopicPolicies(replication_clusters=["b"]), "replication_clusters", lists={"replication_clusters": number})
    assert not change.operands
    assert join(change.apply(split(TopicPolicies(replication_clusters=["a"])))).replication_clusters == ["b"]


# Which settings a mask touches


def test_the_settings_of_a_mask_are_found_from_its_paths_alone() -> None:
    paths = (
        "delayed_delivery_enabled",
        "delayed_delivery_tick_time_millis",
        "retention_policies.retention_size_in_mb",
        "subscription_policies.`a.b`.dispatch_rate",
        "back_log_quota_map.message_age",
    )
    assert sorted(touched_by(paths, None, None)) == [
        "back_log_quota_map/message_age",
        "delayed_delivery",
        "retention_policies",
        "subscription_policies/a.b",
    ]


def test_unknown_paths_of_a_newer_sidecar_are_resolved_as_far_as_possible() -> None:
    paths = ("newer_policy.leaf", "max_producer_per_topic.newer", "``` malformed", "subscription_policies..x")
    assert list(touched_by(paths, None, None)) == ["?newerPolicy", "max_producer_per_topic"]


def test_an_entry_that_is_masked_together_with_its_whole_map_is_touched_once() -> None:
    document = split(subscription("s", pb.DispatchRate(**RATE)))
    assert touched_by(("subscription_policies", "subscription_policies.s"), document, document) == ["subscription_policies/s"]
