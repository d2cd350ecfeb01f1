"""Fields of a newer client: none of them is lost silently, and very many of them cost little."""

from __future__ import annotations

import time

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given
from hypothesis import strategies as st

from topicpolicies.v1.policies_pb2 import DispatchRate, RetentionPolicies, TopicPolicies
from topicpolicies_server.core.changes.change import compile_change
from topicpolicies_server.core.changes.fields import MOST_NAMED, unknown_bytes, unknown_fields
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.policies.documents import EXTRAS_FIELD, EXTRAS_TAG, record, tag

NEWER = b"\xc0\x3e\x01"
"""Field 1000, a number."""
RATE = DispatchRate(dispatch_throttling_rate_in_msg=5).SerializeToString()


def refused(policies: TopicPolicies, *paths: str) -> list[tuple[str, str]]:
    with pytest.raises(PolicyError) as refusal:
        compile_change(policies, paths, {})
    return [(violation.field, violation.reason) for violation in refusal.value.violations]


def with_rate(rate: bytes, rest: bytes = b"") -> TopicPolicies:
    return TopicPolicies.FromString(record(tag(TopicPolicies.DESCRIPTOR.fields_by_name["dispatch_rate"].number), rate) + rest)


def test_without_a_mask_what_is_set_and_not_known_is_refused_like_anything_that_is_set() -> None:
    number = TopicPolicies(max_producer_per_topic=1).SerializeToString()
    assert refused(TopicPolicies.FromString(number + NEWER)) == [("policies", "UNKNOWN_FIELD")]
    assert refused(TopicPolicies.FromString(NEWER)) == [("policies", "UNKNOWN_FIELD")], "something is set"
    assert refused(with_rate(RATE + NEWER)) == [("policies.dispatch_rate", "UNKNOWN_FIELD")]
    assert refused(with_rate(NEWER)) == [("policies.dispatch_rate", "UNKNOWN_FIELD")]
    inside = TopicPolicies(max_producer_per_topic=1)
    inside.subscription_policies["s"].MergeFromString(NEWER)
    assert refused(inside) == [("policies.subscription_policies.s", "UNKNOWN_FIELD")]


def test_outside_the_mask_and_in_leaves_of_a_newer_broker_they_do_not_count() -> None:
    document = with_rate(RATE + NEWER, NEWER)
    assert compile_change(document, ["max_producer_per_topic"], {}).plan.paths == ("max_producer_per_topic",)
    assert compile_change(document, ["dispatch_rate.dispatch_throttling_rate_in_msg"], {}).partial
    extras = with_rate(RATE + record(EXTRAS_TAG, b'{"burst": 1}'))
    assert unknown_bytes(extras)
    assert compile_change(extras, [], {}).plan.paths == ("dispatch_rate.dispatch_throttling_rate_in_msg",)


def test_a_field_is_named_once_for_each_object_however_often_it_is_there() -> None:
    document = with_rate(RATE + NEWER * 3, NEWER * 2)
    assert refused(document, "*") == [("policies", "UNKNOWN_FIELD"), ("policies.dispatch_rate", "UNKNOWN_FIELD")]


@given(st.binary(max_size=40))
def test_they_are_the_ones_that_protobuf_does_not_know(raw: bytes) -> None:
    try:
        message = RetentionPolicies.FromString(raw)
    except Exception:  # noqa: BLE001 (it is no message)
        return
    unknown = UnknownFieldSet(message)
    numbers = {unknown[index].field_number for index in range(len(unknown))} - {EXTRAS_FIELD}
    assert {int(violation.description.split()[7]) for violation in unknown_fields(message)} == numbers


FLOODS = {
    "one field": b"\x58\x00" * 500_000,
    "many fields": b"".join(bytes((0x80 | low, 0x80 | high, 1, 0)) for low in range(0, 128, 8) for high in range(128)) * 100,
}


@pytest.mark.parametrize("flood", FLOODS)
@pytest.mark.parametrize("paths", ["", "*", "retention_policies", "retention_policies,offload_policies"])
def test_half_a_million_of_them_are_refused_within_a_moment(paths: str, flood: str) -> None:
    document = TopicPolicies()
    document.retention_policies.MergeFromString(FLOODS[flood])
    document.offload_policies.MergeFromString(NEWER * 1_000)
    began = time.thread_time()
    found = refused(document, *paths.split(",") if paths else ())
    assert time.thread_time() - began < 0.1, "listing all of them took seconds"
    assert 0 < sum(reason == "UNKNOWN_FIELD" for _, reason in found) <= MOST_NAMED
