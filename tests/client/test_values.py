"""Values are assigned at paths, and replace the previous values."""

from __future__ import annotations

import pytest

import topicpolicies as tp
from topicpolicies.v1 import policies_pb2
from topicpolicies.values import assign, enum_name, enum_number, locate

STRATEGY = policies_pb2.SchemaCompatibilityStrategy.DESCRIPTOR


def put(message: tp.TopicPolicies, path: str, value: object) -> tp.TopicPolicies:
    assign(message, locate(tp.TopicPolicies.DESCRIPTOR, path), value)
    return message


def test_lists_maps_and_objects_are_replaced_and_not_merged() -> None:
    message = tp.TopicPolicies(shadow_topics=["old"])
    message.subscription_policies["old"].dispatch_rate.dispatch_throttling_rate_in_msg = 1
    message.subscription_policies["kept"].dispatch_rate.dispatch_throttling_rate_in_msg = 1
    message.retention_policies.retention_size_in_mb = 1
    put(message, "shadow_topics", ["new"])
    put(message, "retention_policies", {"retention_time_in_minutes": 2})
    put(message, "subscription_policies.kept", {})
    assert list(message.shadow_topics) == ["new"]
    assert message.retention_policies == tp.RetentionPolicies(retention_time_in_minutes=2)
    assert message.subscription_policies["kept"] == tp.SubscriptionPolicies()
    put(message, "subscription_policies", {"new": tp.SubscriptionPolicies()})
    assert set(message.subscription_policies) == {"new"}


def test_assigning_a_nested_value_creates_its_parents_and_assigning_none_does_not() -> None:
    message = put(tp.TopicPolicies(), "subscription_policies.`a.b`.dispatch_rate.dispatch_throttling_rate_in_msg", 5)
    assert message.subscription_policies["a.b"].dispatch_rate.dispatch_throttling_rate_in_msg == 5
    assert put(tp.TopicPolicies(), "retention_policies.retention_size_in_mb", None) == tp.TopicPolicies()


def test_a_list_with_an_element_of_a_wrong_type_leaves_the_old_list() -> None:
    message = tp.TopicPolicies(shadow_topics=["old"])
    with pytest.raises(ValueError, match="takes a text"):
        put(message, "shadow_topics", ["new", 1])
    assert list(message.shadow_topics) == ["old"]


def test_the_name_of_an_enum_value_is_read_back_as_its_number() -> None:
    for value in STRATEGY.values:
        assert enum_number(STRATEGY, enum_name(STRATEGY, value.number)) == value.number
    assert enum_name(STRATEGY, 99) == "99"
