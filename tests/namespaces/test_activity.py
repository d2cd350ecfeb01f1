"""Documents and their differences as they are written in the server's log."""

from __future__ import annotations

import pytest

from topicpolicies.v1.policies_pb2 import DispatchRate, RetentionPolicies, SubscriptionPolicies, TopicPolicies
from topicpolicies_server.core.policies.documents import split
from topicpolicies_server.namespaces.activity import difference, document


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (
            TopicPolicies(retention_policies=RetentionPolicies(retention_time_in_minutes=5)),
            TopicPolicies(retention_policies=RetentionPolicies(retention_size_in_mb=5)),
            'retention_policies: {"retention_time_in_minutes":5} -> {"retention_size_in_mb":"5"}',
        ),
        (
            TopicPolicies(delayed_delivery_tick_time_millis=7),
            TopicPolicies(delayed_delivery_max_delay_in_millis=7),
            'delayed_delivery: {"delayed_delivery_tick_time_millis":"7"} -> {"delayed_delivery_max_delay_in_millis":"7"}',
        ),
        (
            TopicPolicies(subscription_policies={"s": SubscriptionPolicies(dispatch_rate=DispatchRate(rate_period_in_second=1))}),
            TopicPolicies(subscription_policies={"s": SubscriptionPolicies()}),
            'subscription_policies/s: {"dispatch_rate":{"rate_period_in_second":1}} -> {}',
        ),
        (TopicPolicies(max_producer_per_topic=1), TopicPolicies(), "max_producer_per_topic: 1 -> unset"),
    ],
)
def test_a_difference_names_the_setting_once_and_every_field_within_it(before: TopicPolicies, after: TopicPolicies, words: str) -> None:
    assert difference(split(before), split(after)) == words


def test_a_document_names_each_setting_with_its_value() -> None:
    policies = TopicPolicies(max_producer_per_topic=1, replication_clusters=["east"])
    assert document(split(policies)) == '{max_producer_per_topic: 1; replication_clusters: ["east"]}'
