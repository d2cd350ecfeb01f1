"""Field masks on messages: what is refused, and what applying replaces, clears and leaves unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import pytest
from google.protobuf.message import Message
from hypothesis import given

from tests.core.policies import EXTRAS, masks, policies
from topicpolicies.masks import Path
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.changes.fields import Form, fields
from topicpolicies_server.core.changes.masks import MAX_MASK_LENGTH, MAX_PATH_LENGTH, MAX_PATHS, Mask, apply, covers, populated, read


def read_all(*texts: str) -> Mask:
    mask, violations = read(texts)
    assert violations == ()
    return mask


def reasons(*texts: str) -> dict[str, str]:
    _, violations = read(texts)
    return {violation.field: violation.reason for violation in violations}


def applied(mask: Mask, target: TopicPolicies, source: TopicPolicies) -> TopicPolicies:
    result = TopicPolicies()
    result.CopyFrom(target)
    apply(mask, result, source)
    return result


# Reading


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nothing_like_it", "UNKNOWN_PATH"),
        ("maxProducerPerTopic", "UNKNOWN_PATH"),
        ("retention_policies.nothing", "UNKNOWN_PATH"),
        ("subscription_policies.a.nothing", "UNKNOWN_PATH"),
        ("`*`", "UNKNOWN_PATH"),
        (" max_producer_per_topic", "UNKNOWN_PATH"),
        ("replication_clusters.0", "INDEX_INTO_LIST"),
        ("subscription_types_enabled.`0`", "INDEX_INTO_LIST"),
        ("max_producer_per_topic.value", "THROUGH_SCALAR"),
        ("retention_policies.retention_size_in_mb.x", "THROUGH_SCALAR"),
        ("offload_policies.managed_ledger_extra_configurations.k.l", "THROUGH_SCALAR"),
        ("", "EMPTY_SEGMENT"),
        (".", "EMPTY_SEGMENT"),
        ("retention_policies.", "EMPTY_SEGMENT"),
        (".retention_policies", "EMPTY_SEGMENT"),
        ("subscription_policies..dispatch_rate", "EMPTY_SEGMENT"),
        ("subscription_policies.`a", "MALFORMED_PATH"),
        ("subscription_policies.a`b`", "MALFORMED_PATH"),
        ("subscription_policies.`a`b", "MALFORMED_PATH"),
        ("subscription_policies.\ud800", "MALFORMED_PATH"),
        ("subscription_policies.*", "WILDCARD_NOT_ALONE"),
        ("subscription_policies.*.dispatch_rate", "WILDCARD_NOT_ALONE"),
        ("*.dispatch_rate", "WILDCARD_NOT_ALONE"),
        ("back_log_quota_map.message_size", "INVALID_MAP_KEY"),
        ("subscription_policies.``", "INVALID_MAP_KEY"),
        ("subscription_policies." + "a" * MAX_PATH_LENGTH, "PATH_TOO_LONG"),
    ],
)
def test_a_bad_path_is_refused_with_its_reason(text: str, reason: str) -> None:
    assert reasons(text) == {"update_mask.paths[0]": reason}


def test_all_bad_paths_are_reported_at_once_and_no_good_ones() -> None:
    assert reasons("nothing", "max_producer_per_topic", "a..b", "replication_clusters.1") == {
        "update_mask.paths[0]": "UNKNOWN_PATH",
        "update_mask.paths[2]": "EMPTY_SEGMENT",
        "update_mask.paths[3]": "INDEX_INTO_LIST",
    }


def test_a_wildcard_among_other_paths_is_refused() -> None:
    assert reasons("max_producer_per_topic", "*") == {"update_mask.paths[1]": "WILDCARD_NOT_ALONE"}
    assert read_all("*", "*") == ((),)


def test_a_path_in_json_spelling_is_refused_with_the_right_spelling() -> None:
    _, (violation,) = read(["messageTTLInSeconds"])
    assert '"message_ttl_in_seconds"' in violation.description


def test_an_error_repeats_only_the_beginning_of_a_long_path() -> None:
    _, (violation,) = read(["x" * 4_000])
    assert len(violation.description) < 500


def test_a_mask_with_too_many_or_too_long_paths_is_refused() -> None:
    paths = [f"subscription_policies.s{index}" for index in range(MAX_PATHS + 1)]
    assert len(read_all(*paths[:MAX_PATHS])) == MAX_PATHS
    assert reasons(*paths) == {"update_mask.paths": "TOO_MANY_PATHS"}
    long = [f"subscription_policies.{index}{'s' * 4_000}" for index in range(MAX_MASK_LENGTH // 4_000 + 1)]
    assert reasons(*long) == {"update_mask.paths": "MASK_TOO_LONG"}


def test_a_path_absorbs_its_repetitions_and_the_paths_below_it() -> None:
    assert read_all(
        "subscription_policies.a.dispatch_rate",
        "retention_policies.retention_size_in_mb",
        "subscription_policies.`a`",
        "retention_policies",
        "retention_policies",
        "subscription_policies.ab",
    ) == (("retention_policies",), ("subscription_policies", "a"), ("subscription_policies", "ab"))


# Applying


def test_clearing_below_an_absent_parent_creates_nothing() -> None:
    mask = read_all(
        "retention_policies.retention_size_in_mb",
        "subscription_policies.t.dispatch_rate.rate_period_in_second",
        "back_log_quota_map.message_age.limit_size",
        "offload_policies.managed_ledger_extra_configurations.k",
        "offload_policies.managed_ledger_extra_configurations.other",
    )
    source = TopicPolicies()
    source.retention_policies.SetInParent()
    source.subscription_policies["t"].dispatch_rate.SetInParent()
    assert applied(mask, TopicPolicies(), source) == TopicPolicies()


def test_a_path_to_a_whole_map_removes_the_entries_that_the_source_lacks() -> None:
    target, source = TopicPolicies(), TopicPolicies()
    target.subscription_policies["other"].dispatch_rate.rate_period_in_second = 9
    source.subscription_policies["s"].dispatch_rate.rate_period_in_second = 1
    assert applied(read_all("subscription_policies"), target, source) == source


def test_unknown_fields_of_the_target_stay_with_their_objects_and_those_of_the_source_are_ignored() -> None:
    target = TopicPolicies()
    target.retention_policies.MergeFromString(b"\x08\x01" + EXTRAS + b"\x02{}")
    source = TopicPolicies()
    source.retention_policies.MergeFromString(b"\x08\x02" + EXTRAS + b"\x02[]")
    source.dispatch_rate.MergeFromString(EXTRAS + b"\x02[]")
    for mask in (read_all("*"), read_all("retention_policies", "dispatch_rate")):
        result = applied(mask, target, source)
        assert result.retention_policies.SerializeToString() == b"\x08\x02" + EXTRAS + b"\x02{}"
        assert result.dispatch_rate.SerializeToString() == b""
    assert applied(read_all("retention_policies"), target, TopicPolicies()) == TopicPolicies()


Flat: TypeAlias = Mapping[Path, Any]


def flat(message: Message, at: Path = ()) -> dict[Path, Any]:
    """Returns the values of a message by path; objects and entries have paths too. An independent model for the property below."""
    places: dict[Path, Any] = {}
    shapes = fields(message.DESCRIPTOR)
    for field, value in message.ListFields():
        path = (*at, field.name)
        if shapes[field.name].form is Form.OBJECT:
            places |= {path: "object"} | flat(value, path)
        elif shapes[field.name].form is Form.MAP:
            for key in value:
                if shapes[field.name].object is None:
                    places[*path, key] = value[key]
                else:
                    places |= {(*path, key): "object"} | flat(value[key], (*path, key))
        else:
            places[path] = list(value) if field.is_repeated else value
    return places


def flatly_applied(mask: Mask, target: Flat, source: Flat) -> Flat:
    """Returns the result of a mask, by path: everything below a masked path comes from the source, with the objects above it."""
    result = dict(target)
    for path in mask:
        taken = {place: value for place, value in source.items() if place[: len(path)] == path}
        result = {place: value for place, value in result.items() if place[: len(path)] != path}
        result |= {place: value for place, value in source.items() if taken and path[: len(place)] == place and value == "object"}
        result |= taken
    return result


@given(masks(), policies(), policies(complete=False))
def test_applying_takes_from_the_source_exactly_what_is_masked(texts: list[str], target: TopicPolicies, source: TopicPolicies) -> None:
    mask = read_all(*texts)
    assert flat(applied(mask, target, source)) == flatly_applied(mask, flat(target), flat(source))


ENUMS = {"schema_compatibility_strategy", "policy", "inactive_topic_delete_mode", "managed_ledger_offloaded_read_priority"}


@given(policies(complete=False))
def test_populated_names_every_value_but_unspecified_enums_and_nothing_else(source: TopicPolicies) -> None:
    result = applied(tuple(populated(source)), TopicPolicies(), source)
    values = {place: value for place, value in flat(source).items() if value != "object"}
    brought = {place: value for place, value in flat(result).items() if value != "object"}
    assert brought == {place: value for place, value in values.items() if place[-1] not in ENUMS or value != 0}


def test_an_object_of_which_every_leaf_is_set_is_populated_as_a_whole() -> None:
    source = TopicPolicies(max_producer_per_topic=0)
    source.retention_policies.retention_size_in_mb = 1
    source.retention_policies.retention_time_in_minutes = 1
    source.dispatch_rate.rate_period_in_second = 1
    source.entry_filters.SetInParent()
    source.offload_policies.managed_ledger_extra_configurations["k"] = "v"
    for leaf, value in (("dispatch_throttling_rate_in_byte", 1), ("dispatch_throttling_rate_in_msg", 1), ("rate_period_in_second", 1)):
        setattr(source.subscription_policies["s"].dispatch_rate, leaf, value)
    source.subscription_policies["s"].dispatch_rate.relative_to_publish_rate = False
    source.subscription_policies["empty"].SetInParent()
    assert sorted(populated(source)) == [
        ("dispatch_rate", "rate_period_in_second"),
        ("max_producer_per_topic",),
        ("offload_policies", "managed_ledger_extra_configurations", "k"),
        ("retention_policies",),
        ("subscription_policies", "s"),
    ]


def test_naming_all_leaves_covers_an_object_and_naming_some_does_not() -> None:
    size, time = "retention_policies.retention_size_in_mb", "retention_policies.retention_time_in_minutes"
    assert covers(read_all(size, time), ("retention_policies",))
    assert not covers(read_all(size), ("retention_policies",))
    assert covers(read_all("subscription_policies.s.dispatch_rate"), ("subscription_policies", "s"))
    assert not covers(read_all("subscription_policies.t.dispatch_rate"), ("subscription_policies", "s"))
    assert not covers(read_all("offload_policies.managed_ledger_extra_configurations.k"), ("offload_policies",))
