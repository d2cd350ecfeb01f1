"""Names of topics mean here what they mean to Pulsar (``TopicName``)."""

from __future__ import annotations

import pytest

from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.names import parse_topic


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("orders-partition-0", "orders"),
        ("orders-partition-7", "orders"),
        ("orders-partition-2147483647", "orders"),
        ("orders-partition-1-partition-2", "orders-partition-1"),
        ("orders-partition-\u0667", "orders"),  # Integer.parseInt reads digits of every script
        ("orders-partition-01", "orders-partition-01"),
        ("orders-partition-00", "orders-partition-00"),
        ("orders-partition-2147483648", "orders-partition-2147483648"),
        ("orders-partition-99999999999", "orders-partition-99999999999"),
        ("orders-partition--1", "orders-partition--1"),
        ("orders-partition-+1", "orders-partition-+1"),
        ("orders-partition-", "orders-partition-"),
        ("orders-partition-1x", "orders-partition-1x"),
        ("orders-partition-²", "orders-partition-²"),
        ("orders-partition-\U0001d7d5", "orders-partition-\U0001d7d5"),  # digits of two UTF-16 units are none to Integer.parseInt
    ],
)
def test_a_partition_is_what_pulsar_takes_for_one(name: str, base: str) -> None:
    assert str(parse_topic(f"persistent://tenant/namespace/{name}")) == f"persistent://tenant/namespace/{base}"


@pytest.mark.parametrize("name", ["t/c/ns/x", "persistent://t/c/ns/x", "persistent://t/c/ns/x/y"])
def test_a_name_of_the_old_form_is_refused_and_belongs_to_no_other_namespace(name: str) -> None:
    with pytest.raises(PolicyError, match="cluster") as refused:
        parse_topic(name)
    assert [violation.reason for violation in refused.value.violations] == ["MALFORMED_NAME"]


@pytest.mark.parametrize("name", ["", "x", "t/n", "t/n/", "t//x", "t/n/x/", "kafka://t/n/x", "t/n/-partition-3", "t/n/\ud800"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(PolicyError):
        parse_topic(name)
