"""Message keys and partitions are those that Pulsar's Java client computes."""

from __future__ import annotations

import pytest

from tests.logs.routing import message_key, partition_of
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.logs.avro.codec import java_hash

ORDERS = "persistent://public/default/orders"


def test_the_message_key_of_a_local_key_is_the_topic_and_that_of_a_global_key_has_a_prefix() -> None:
    assert message_key(PolicyKey(ORDERS, Scope.LOCAL)) == ORDERS
    assert message_key(PolicyKey(ORDERS, Scope.GLOBAL)) == "__G__" + ORDERS


@pytest.mark.parametrize(
    ("text", "expected"),
    [  # as printed by JDK 17: text.hashCode() & Integer.MAX_VALUE
        ("", 0),
        ("hello", 99162322),
        (ORDERS, 36069654),
        ("__G__" + ORDERS, 2023423453),
        ("persistent://public/default/Auftr\u00e4ge", 177069091),
        ("persistent://public/default/\u6ce8\u6587", 1655002192),
        ("persistent://public/default/\U0001f680", 1655884948),
        ("polygenelubricants", 0),  # Integer.MIN_VALUE, which has no absolute value
    ],
)
def test_the_hash_equals_javas(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_each_scope_of_a_topic_is_routed_by_its_own_message_key() -> None:
    assert partition_of(PolicyKey(ORDERS, Scope.LOCAL), 7) == java_hash(ORDERS) % 7
    assert partition_of(PolicyKey(ORDERS, Scope.GLOBAL), 7) == java_hash("__G__" + ORDERS) % 7


def test_a_single_partition_holds_all_keys() -> None:
    assert {partition_of(PolicyKey(f"{ORDERS}-{n}", scope), 1) for n in range(50) for scope in Scope} == {0}


def test_keys_are_spread_over_all_partitions() -> None:
    assert {partition_of(PolicyKey(f"{ORDERS}-{n}", Scope.LOCAL), 3) for n in range(50)} == {0, 1, 2}
