"""Names of topics are read as Pulsar reads them."""

from __future__ import annotations

import pytest

from topicpolicies.names import namespace_of, topic_name

ORDERS = "persistent://public/default/orders"


@pytest.mark.parametrize("name", ["public/default/orders", ORDERS, f"{ORDERS}-partition-0", f"{ORDERS}-partition-{2**31 - 1}"])
def test_a_topic_and_its_partitions_have_one_name(name: str) -> None:
    assert topic_name(name) == ORDERS


@pytest.mark.parametrize(
    "suffix",
    ["-partition-01", "-partition-00", f"-partition-{2**31}", "-partition-99999999999", "-partition-", "-partition--1", "-partition-+1"],
)
def test_what_pulsar_takes_for_no_partition_is_a_topic_of_its_own(suffix: str) -> None:
    assert topic_name(ORDERS + suffix) == ORDERS + suffix


def test_digits_of_other_scripts_make_no_partition() -> None:
    assert topic_name(f"{ORDERS}-partition-\u0663") == f"{ORDERS}-partition-\u0663"


def test_only_the_last_suffix_counts() -> None:
    assert topic_name(f"{ORDERS}-partition-1-partition-2") == f"{ORDERS}-partition-1"


@pytest.mark.parametrize("topic", ["persistent://public/a/t", "public/a/t", "persistent://public/a/t/with/slashes"])
def test_the_namespace_of_a_topic(topic: str) -> None:
    assert namespace_of(topic) == "public/a"
