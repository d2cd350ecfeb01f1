"""Completing the objects that a change touches, and refusing invalid values."""

from __future__ import annotations

import re
from pathlib import Path as FilePath
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor
from hypothesis import given

from tests.core.policies import EXTRAS, masks, policies
from topicpolicies.v1 import policies_pb2 as pb
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.changes.completion import COMPLETIONS, check, complete
from topicpolicies_server.core.changes.fields import Form, fields, unknown_fields
from topicpolicies_server.core.changes.masks import read

PROTO = FilePath(__file__).parents[2] / "proto" / "topicpolicies" / "v1" / "policies.proto"


def completed(policies: TopicPolicies, *texts: str) -> list[tuple[str, str]]:
    mask, violations = read(texts)
    assert violations == ()
    return [(violation.field, violation.reason) for violation in complete(policies, mask)]


def a_quota(**leaves: Any) -> TopicPolicies:
    document = TopicPolicies()
    document.back_log_quota_map["message_age"].CopyFrom(pb.BacklogQuota(policy=pb.BACKLOG_QUOTA_POLICY_PRODUCER_EXCEPTION, **leaves))
    return document


# The table


def documented() -> dict[tuple[str, str], str]:
    """Returns the comments in policies.proto on fields, by message and field."""
    found: dict[tuple[str, str], str] = {}
    message, comment = "", ""
    for line in PROTO.read_text().splitlines():
        text = line.strip()
        if match := re.match(r"message (\w+) \{", text):
            message = match[1]
        elif text.startswith("//"):
            comment += f" {text[2:].strip()}"
            continue
        elif match := re.match(r"(?:optional |repeated )?[\w<>, ]+? (\w+) = \d+.*;", text):
            found[message, match[1]] = comment
        comment = ""
    return found


def nested() -> list[Descriptor]:
    """Returns all message types of objects inside a document."""
    return [message for message in pb.DESCRIPTOR.message_types_by_name.values() if message.name not in ("TopicPolicies", "PolicyDocument")]


def test_the_table_has_every_type_of_object() -> None:
    assert set(COMPLETIONS) == set(nested())


@pytest.mark.parametrize("descriptor", nested(), ids=lambda descriptor: descriptor.name)
def test_the_table_agrees_with_the_comments_in_the_proto_file(descriptor: Descriptor) -> None:
    completion = COMPLETIONS[descriptor]
    for name, field in fields(descriptor).items():
        comment = documented()[descriptor.name, name]
        left_out = re.search(r"Left out in an update: ([-\w]+)", comment)
        assert (name in completion.required) == ("Must be given in an update" in comment), name
        assert (name in completion.defaults) == (left_out is not None), name
        if left_out is not None:
            assert str(completion.defaults[name]).lower().removesuffix(".0") == left_out[1], name
        assert (name in completion.objects) == (field.form is Form.OBJECT), name


@given(policies())
def test_a_complete_document_is_not_modified(document: TopicPolicies) -> None:
    before = document.SerializeToString(deterministic=True)
    assert complete(document, ((),)) == []
    assert document.SerializeToString(deterministic=True) == before


@given(policies(complete=False), masks())
def test_completing_twice_is_completing_once(document: TopicPolicies, texts: list[str]) -> None:
    first = completed(document, *texts)
    once = document.SerializeToString(deterministic=True)
    assert completed(document, *texts) == first
    assert document.SerializeToString(deterministic=True) == once


# Defaults and incomplete objects


def test_an_incomplete_object_is_refused_with_the_names_of_the_missing_leaves() -> None:
    document = TopicPolicies()
    document.retention_policies.retention_size_in_mb = 1
    document.persistence.bookkeeper_ensemble = 3
    document.back_log_quota_map["message_age"].limit_time = 60
    mask, _ = read(["*"])
    violations = {violation.field: violation for violation in complete(document, mask)}
    assert {violation.reason for violation in violations.values()} == {"HALF_OBJECT"}
    assert "retention_time_in_minutes" in violations["policies.retention_policies"].description
    assert "bookkeeper_ack_quorum and bookkeeper_write_quorum" in violations["policies.persistence"].description
    assert "give policy too" in violations["policies.back_log_quota_map.message_age"].description


def test_an_object_whose_leaves_are_all_cleared_is_removed() -> None:
    document = TopicPolicies()
    document.dispatch_rate.SetInParent()
    document.retention_policies.SetInParent()
    document.subscription_policies["s"].dispatch_rate.SetInParent()
    assert (
        completed(
            document,
            "dispatch_rate.rate_period_in_second",
            "retention_policies.retention_size_in_mb",
            "subscription_policies.s.dispatch_rate.rate_period_in_second",
        )
        == []
    )
    assert document == TopicPolicies()


@pytest.mark.parametrize("text", ["offload_policies", "*", "offload_policies.offloaders_directory"])
def test_offload_policies_without_any_leaf_are_removed(text: str) -> None:
    document = TopicPolicies()
    document.offload_policies.SetInParent()
    assert completed(document, text) == []
    assert not document.HasField("offload_policies")


def test_an_object_with_only_leaves_of_a_newer_broker_is_kept() -> None:
    document = TopicPolicies()
    document.offload_policies.MergeFromString(EXTRAS + b"\x02{}")
    document.subscription_policies["s"].MergeFromString(EXTRAS + b"\x02{}")
    assert completed(document, "*") == []
    assert document.HasField("offload_policies")
    assert set(document.subscription_policies) == {"s"}


# Values


def test_all_invalid_values_are_reported_at_once() -> None:
    document = a_quota(limit_size=2)
    document.back_log_quota_map["other"].policy = 77  # type: ignore[assignment]
    document.schema_compatibility_strategy = 99  # type: ignore[assignment]
    document.inactive_topic_policies.inactive_topic_delete_mode = -1  # type: ignore[assignment]
    document.subscription_types_enabled.extend([0, 1, 42])  # type: ignore[list-item]
    document.subscription_policies[""].dispatch_rate.rate_period_in_second = 1
    assert sorted((violation.field, violation.reason) for violation in check(document)) == [
        ("policies.back_log_quota_map.other", "INVALID_MAP_KEY"),
        ("policies.back_log_quota_map.other.policy", "UNKNOWN_ENUM_VALUE"),
        ("policies.inactive_topic_policies.inactive_topic_delete_mode", "UNKNOWN_ENUM_VALUE"),
        ("policies.schema_compatibility_strategy", "UNKNOWN_ENUM_VALUE"),
        ("policies.subscription_policies.``", "INVALID_MAP_KEY"),
        ("policies.subscription_types_enabled", "UNKNOWN_ENUM_VALUE"),
        ("policies.subscription_types_enabled", "UNSPECIFIED_ELEMENT"),
    ]


def test_values_without_any_effect_are_removed_but_not_an_empty_object_with_defaults() -> None:
    document = TopicPolicies()
    document.offload_policies.managed_ledger_offloaded_read_priority = pb.OFFLOADED_READ_PRIORITY_UNSPECIFIED
    document.subscription_policies["s"].SetInParent()
    document.dispatch_rate.SetInParent()
    assert check(document) == []
    assert document == TopicPolicies(dispatch_rate=pb.DispatchRate())


@given(policies(extras=True))
def test_a_document_that_was_read_is_valid_and_not_modified(document: TopicPolicies) -> None:
    before = document.SerializeToString(deterministic=True)
    assert check(document) == []
    assert list(unknown_fields(document)) == []
    assert document.SerializeToString(deterministic=True) == before


def test_unknown_fields_of_a_newer_client_are_reported_with_their_paths() -> None:
    document = TopicPolicies()
    document.MergeFromString(b"\xc0\x3e\x01")  # field 1000
    document.dispatch_rate.MergeFromString(b"\xc0\x3e\x01")
    document.subscription_policies["a.b"].dispatch_rate.MergeFromString(b"\xc0\x3e\x01")
    assert [(violation.field, violation.reason) for violation in unknown_fields(document)] == [
        ("policies", "UNKNOWN_FIELD"),
        ("policies.dispatch_rate", "UNKNOWN_FIELD"),
        ("policies.subscription_policies.`a.b`.dispatch_rate", "UNKNOWN_FIELD"),
    ]
