"""Lists and maps that a change makes too long."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.chains.computing import crowded
from topicpolicies_server.core.policies.documents import MOST_ELEMENTS, split


def subscriptions(count: int, *, others: bool = False) -> TopicPolicies:
    document = TopicPolicies(max_producer_per_topic=1 + others)
    for number in range(count):
        document.subscription_policies[f"s{number}"].dispatch_rate.dispatch_throttling_rate_in_msg = 1
    return document


def clusters(count: int, *, others: bool = False) -> TopicPolicies:
    return TopicPolicies(max_producer_per_topic=1 + others, replication_clusters=[f"c{number}" for number in range(count)])


def configurations(count: int, *, others: bool = False) -> TopicPolicies:
    document = TopicPolicies(max_producer_per_topic=1 + others)
    for number in range(count):
        document.offload_policies.managed_ledger_extra_configurations[f"k{number}"] = "v"
    return document


KINDS: dict[str, Callable[..., TopicPolicies]] = {
    "subscription_policies": subscriptions,
    "replication_clusters": clusters,
    "offload_policies.managed_ledger_extra_configurations": configurations,
}


@pytest.mark.parametrize("path", KINDS)
def test_a_change_makes_no_list_or_map_longer_than_there_may_be_elements(path: str) -> None:
    made = KINDS[path]
    most, more = split(made(MOST_ELEMENTS)), split(made(MOST_ELEMENTS + 1))
    assert list(crowded(None, most)) == []
    assert list(crowded(None, more)) == list(crowded(most, more)) == [(path, MOST_ELEMENTS + 1)]


@pytest.mark.parametrize("path", KINDS)
def test_what_others_made_too_long_can_be_made_shorter_and_other_settings_can_be_changed_beside_it(path: str) -> None:
    made = KINDS[path]
    long, shorter, beside = (made(count, others=others) for count, others in ((6_000, False), (5_999, False), (6_000, True)))
    assert list(crowded(split(long), split(shorter))) == list(crowded(split(long), split(beside))) == []
