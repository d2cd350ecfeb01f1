"""Arguments of calls become requests, with a mask only if they clear or name fields; all errors of arguments are reported together."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Mapping
from typing import Any, get_type_hints

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from hypothesis import given

import topicpolicies as tp
from tests.core.policies import policies
from topicpolicies.edits import Edit
from topicpolicies.fields import PolicyFields
from topicpolicies.masks import format_path, set_paths
from topicpolicies.requests import (
    ChangeOptions,
    HistoryOptions,
    HistoryWatchOptions,
    Selection,
    UpdateOptions,
    delete_request,
    history_request,
    update_request,
)
from topicpolicies.v1 import policies_pb2, service_pb2
from topicpolicies.values import assign, enum_name, enum_number, locate
from topicpolicies.watches import history_progress, policy_progress
from topicpolicies_server.core.changes.masks import apply, populated, read

TOPIC = "persistent://public/default/orders"


def request(values: Any = None, /, **arguments: Any) -> service_pb2.UpdatePolicyRequest:
    return update_request(TOPIC, values, **arguments)


def refused(values: Any = None, /, **arguments: Any) -> dict[str, str]:
    with pytest.raises(tp.InvalidArgument) as caught:
        request(values, **arguments)
    return {violation.field: violation.reason for violation in caught.value.violations}


def paths(made: service_pb2.UpdatePolicyRequest) -> list[str] | None:
    """Returns the paths of the mask; None: there is no mask."""
    return list(made.update_mask.paths) if made.HasField("update_mask") else None


def test_values_are_sent_without_a_mask() -> None:
    made = request(max_producer_per_topic=5, replication_clusters=["a", "b"])
    assert made.topic == TOPIC
    assert paths(made) is None
    assert made.policies == tp.TopicPolicies(max_producer_per_topic=5, replication_clusters=["a", "b"])
    assert made.scope == tp.SCOPE_LOCAL
    assert paths(request(tp.TopicPolicies(max_producer_per_topic=0))) is None
    assert paths(request({"retention_policies.retention_size_in_mb": 1})) is None


def test_a_field_set_to_none_is_cleared_by_the_mask() -> None:
    made = request(max_producer_per_topic=None, subscription_policies=None)
    assert paths(made) == ["max_producer_per_topic", "subscription_policies"]
    assert made.policies == tp.TopicPolicies()


@pytest.mark.parametrize(
    "nothing",
    [{"replication_clusters": []}, {"back_log_quota_map": {}}, {"dispatch_rate": {}}, {"subscription_policies.`a`": {}}],
)
def test_a_value_that_sets_nothing_is_named_in_the_mask(nothing: Mapping[str, Any]) -> None:
    assert paths(request(nothing)) == [next(iter(nothing)).replace("`", "")]


@given(policies(), policies())
def test_set_paths_are_the_paths_that_the_service_changes_without_a_mask(before: tp.TopicPolicies, values: tp.TopicPolicies) -> None:
    ours, theirs = tp.TopicPolicies(), tp.TopicPolicies()
    ours.CopyFrom(before)
    theirs.CopyFrom(before)
    mask, violations = read(set_paths(values))
    assert not violations
    apply(mask, ours, values)
    apply(tuple(populated(values)), theirs, values)
    assert ours == theirs


def test_paths_can_name_nested_fields_and_entries_of_maps() -> None:
    made = request(
        {
            "retention_policies.retention_time_in_minutes": 10,
            "subscription_policies.`my.sub`.dispatch_rate.dispatch_throttling_rate_in_msg": 7,
            "subscription_policies.gone": None,
            "back_log_quota_map.message_age": {"limit_time": 60, "policy": "producer_exception"},
        },
        shadow_topics=["persistent://a/b/c"],
    )
    assert set(paths(made) or ()) == {
        "retention_policies.retention_time_in_minutes",
        "shadow_topics",
        "subscription_policies.`my.sub`.dispatch_rate.dispatch_throttling_rate_in_msg",
        "back_log_quota_map.message_age.limit_time",
        "back_log_quota_map.message_age.policy",
        "subscription_policies.gone",
    }
    expected = tp.TopicPolicies(shadow_topics=["persistent://a/b/c"])
    expected.retention_policies.retention_time_in_minutes = 10
    expected.subscription_policies["my.sub"].dispatch_rate.dispatch_throttling_rate_in_msg = 7
    expected.back_log_quota_map["message_age"].limit_time = 60
    expected.back_log_quota_map["message_age"].policy = policies_pb2.BACKLOG_QUOTA_POLICY_PRODUCER_EXCEPTION
    assert made.policies == expected


@pytest.mark.parametrize(
    "value",
    [
        tp.RetentionPolicies(retention_size_in_mb=100, retention_time_in_minutes=10),
        {"retention_size_in_mb": 100, "retention_time_in_minutes": 10},
    ],
)
def test_objects_can_be_messages_or_mappings(value: object) -> None:
    made = request(retention_policies=value)
    assert made.policies.retention_policies == tp.RetentionPolicies(retention_size_in_mb=100, retention_time_in_minutes=10)
    assert paths(made) is None


def test_an_object_or_map_argument_replaces_that_of_the_message() -> None:
    older = tp.TopicPolicies(retention_policies=tp.RetentionPolicies(retention_size_in_mb=1))
    assert request(older, retention_policies={"retention_time_in_minutes": 2}).policies == tp.TopicPolicies(
        retention_policies=tp.RetentionPolicies(retention_time_in_minutes=2)
    )
    before = tp.TopicPolicies(shadow_topics=["x"])
    before.subscription_policies["gone"].dispatch_rate.dispatch_throttling_rate_in_msg = 1
    made = request(before, subscription_policies={"c": {"dispatch_rate": {"rate_period_in_second": 2}}})
    assert set(made.policies.subscription_policies) == {"c"}
    assert paths(made) is None
    configured = request({"offload_policies.managed_ledger_extra_configurations": {"k": "v"}})
    assert configured.policies.offload_policies.managed_ledger_extra_configurations == {"k": "v"}


@pytest.mark.parametrize("name", ["shared", "SHARED", "Shared", "SUBSCRIPTION_TYPE_SHARED", 2, policies_pb2.SUBSCRIPTION_TYPE_SHARED])
def test_enums_can_be_numbers_or_names_with_or_without_prefix(name: object) -> None:
    assert list(request(subscription_types_enabled=[name, "key-shared"]).policies.subscription_types_enabled) == [2, 4]


def test_the_name_of_an_enum_value_is_read_back_as_its_number() -> None:
    strategy = policies_pb2.SchemaCompatibilityStrategy.DESCRIPTOR
    for value in strategy.values:
        assert enum_number(strategy, enum_name(strategy, value.number)) == value.number
    assert enum_name(strategy, 99) == "99"


def test_a_field_argument_replaces_the_field_of_the_message() -> None:
    made = request(tp.TopicPolicies(max_producer_per_topic=1, shadow_topics=["x"]), max_producer_per_topic=None, shadow_topics=["y"])
    assert paths(made) == ["shadow_topics", "max_producer_per_topic"]
    assert made.policies == tp.TopicPolicies(shadow_topics=["y"])


@pytest.mark.parametrize("mask", ["*", ["*"], FieldMask(paths=["*"])])
def test_an_explicit_mask_is_sent_as_it_is(mask: Any) -> None:
    made = request(tp.TopicPolicies(max_producer_per_topic=1), mask=mask)
    assert list(made.update_mask.paths) == ["*"]


def test_a_mask_without_values_clears_its_fields() -> None:
    made = request(mask=["max_producer_per_topic", "dispatch_rate"])
    assert list(made.update_mask.paths) == ["max_producer_per_topic", "dispatch_rate"]
    assert made.policies == tp.TopicPolicies()


def test_a_value_outside_the_mask_is_refused_and_not_dropped() -> None:
    mask = ["max_consumer_per_topic", "retention_policies"]
    assert refused(mask=mask, max_producer_per_topic=1) == {"max_producer_per_topic": "NOT_IN_MASK"}
    assert paths(request({"retention_policies.retention_size_in_mb": 1}, mask=mask)) == mask


def test_all_other_options_are_passed_on() -> None:
    made = request(
        scope=tp.SCOPE_GLOBAL,
        version="v1",
        skip_if_absent=True,
        validate_only=True,
        include_previous=True,
        request_id="id",
        actor="Jürgen",
        reason="why",
        list_operations={"shadow_topics": tp.LIST_OPERATION_UNION},
        shadow_topics=["x"],
    )
    expected = service_pb2.UpdatePolicyRequest(
        topic=TOPIC,
        scope=tp.SCOPE_GLOBAL,
        policies=tp.TopicPolicies(shadow_topics=["x"]),
        list_operations={"shadow_topics": tp.LIST_OPERATION_UNION},
        precondition=service_pb2.Precondition(version="v1"),
        skip_if_absent=True,
        validate_only=True,
        include_previous=True,
        request_id="id",
        actor="Jürgen",
        reason="why",
    )
    assert made == expected


def test_every_update_has_a_new_request_id() -> None:
    ids = {request(max_producer_per_topic=1).request_id for _ in range(100)}
    assert len(ids) == 100
    assert all(uuid.UUID(each).hex == each for each in ids)


@pytest.mark.parametrize("mask", [None, [], FieldMask()])
def test_an_update_of_nothing_is_sent_for_the_service_to_refuse(mask: Any) -> None:
    assert paths(request(tp.TopicPolicies(), mask=mask)) is None


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"no_such_field": 1}, "UNKNOWN_PATH"),
        ({"retention_policies.no_such": 1}, "UNKNOWN_PATH"),
        ({"max_producer_per_topic.deeper": 1}, "UNKNOWN_PATH"),
        ({"shadow_topics.0": "x"}, "UNKNOWN_PATH"),
        ({"retention_policies": {"no_such": 1}}, "UNKNOWN_PATH"),
        ({"*": 1}, "UNKNOWN_PATH"),
        ({"": 1}, "EMPTY_SEGMENT"),
        ({"a..b": 1}, "EMPTY_SEGMENT"),
        ({"subscription_policies.`a": 1}, "MALFORMED_PATH"),
        ({"max_producer_per_topic": "5"}, "WRONG_TYPE"),
        ({"max_producer_per_topic": True}, "WRONG_TYPE"),
        ({"max_producer_per_topic": 1.0}, "WRONG_TYPE"),
        ({"max_producer_per_topic": 2**31}, "WRONG_VALUE"),
        ({"compaction_threshold": -(2**63) - 1}, "WRONG_VALUE"),
        ({"deduplication_enabled": 1}, "WRONG_TYPE"),
        ({"schema_compatibility_strategy": "sideways"}, "WRONG_VALUE"),
        ({"schema_compatibility_strategy": 1.5}, "WRONG_TYPE"),
        ({"schema_compatibility_strategy": True}, "WRONG_TYPE"),
        ({"replication_clusters": "one"}, "WRONG_TYPE"),
        ({"replication_clusters": {"one": 1}}, "WRONG_TYPE"),
        ({"replication_clusters": [1]}, "WRONG_TYPE"),
        ({"retention_policies": 5}, "WRONG_TYPE"),
        ({"retention_policies": tp.DispatchRate()}, "WRONG_TYPE"),
        ({"subscription_policies": []}, "WRONG_TYPE"),
        ({"subscription_policies": {1: {}}}, "WRONG_TYPE"),
        ({"subscription_policies.a": {"dispatch_rate": []}}, "WRONG_TYPE"),
        ({"persistence.managed_ledger_max_mark_delete_rate": "1"}, "WRONG_TYPE"),
    ],
)
def test_an_invalid_path_or_value_is_refused_with_its_path_and_reason(values: Mapping[str, Any], reason: str) -> None:
    assert refused(values) == {next(iter(values)): reason}


def test_all_violations_are_reported_together() -> None:
    assert refused({"no_such": 1, "max_producer_per_topic": "x"}, max_consumer_per_topic=True) == {
        "no_such": "UNKNOWN_PATH",
        "max_producer_per_topic": "WRONG_TYPE",
        "max_consumer_per_topic": "WRONG_TYPE",
    }


@pytest.mark.parametrize(
    "values",
    [
        {"retention_policies": {}, "retention_policies.retention_size_in_mb": 1},
        {"retention_policies.retention_size_in_mb": 1, "retention_policies": None},
        {"subscription_policies.a": {}, "subscription_policies.`a`": None},
    ],
)
def test_overlapping_paths_are_refused(values: Mapping[str, Any]) -> None:
    assert "OVERLAPPING_PATHS" in refused(values).values()


def test_a_field_that_is_given_twice_is_refused() -> None:
    assert refused({"max_producer_per_topic": 1}, max_producer_per_topic=2)["max_producer_per_topic"] == "OVERLAPPING_PATHS"


def test_a_malformed_mask_is_refused() -> None:
    assert refused(mask=["a..b"], max_producer_per_topic=1) == {"update_mask": "EMPTY_SEGMENT"}


@given(policies(), policies())
def test_an_edit_turns_one_document_into_the_other_and_its_mask_has_no_unchanged_paths(
    before: tp.TopicPolicies, after: tp.TopicPolicies
) -> None:
    document = tp.PolicyDocument(topic=TOPIC, scope=tp.SCOPE_GLOBAL, policies=before, version="v7")
    made = Edit(TOPIC, lambda edited: edited.CopyFrom(after), 1.0, scope=tp.SCOPE_GLOBAL).request(document)
    if isinstance(made, tp.ChangeResult):
        assert before == after
        return
    assert (made.precondition.version, made.scope) == ("v7", tp.SCOPE_GLOBAL)
    mask, violations = read(made.update_mask.paths)
    assert not violations
    result = tp.TopicPolicies()
    result.CopyFrom(before)
    apply(mask, result, made.policies)
    assert result == after
    for left_out in mask:
        result.CopyFrom(before)
        apply(tuple(path for path in mask if path != left_out), result, made.policies)
        assert result != after, format_path(left_out)


def test_a_change_demands_a_version_or_that_there_is_or_is_no_document() -> None:
    assert request(max_producer_per_topic=1, version="0").precondition == service_pb2.Precondition(version="0")
    assert request(max_producer_per_topic=1, exists=False).precondition == service_pb2.Precondition(exists=False)
    assert not delete_request(TOPIC).HasField("precondition")
    assert refused(max_producer_per_topic=1, version="0", exists=True) == {"precondition": "CONTRADICTION"}


def test_a_deletion_has_one_scope_a_request_id_and_its_options() -> None:
    made = delete_request(TOPIC)
    assert made == service_pb2.DeletePolicyRequest(topic=TOPIC, scope=tp.SCOPE_LOCAL, request_id=made.request_id)
    assert uuid.UUID(made.request_id).hex == made.request_id
    options = ChangeOptions(
        scope=tp.SCOPE_GLOBAL, version="v1", validate_only=True, include_previous=True, request_id="id", actor="Jürgen", reason="why"
    )
    assert delete_request(TOPIC, **options) == service_pb2.DeletePolicyRequest(
        topic=TOPIC,
        scope=tp.SCOPE_GLOBAL,
        precondition=service_pb2.Precondition(version="v1"),
        validate_only=True,
        include_previous=True,
        request_id="id",
        actor="Jürgen",
        reason="why",
    )


def test_the_keyword_arguments_are_the_fields_of_the_document() -> None:
    assert set(get_type_hints(PolicyFields)) == set(tp.TopicPolicies.DESCRIPTOR.fields_by_name)
    assert not set(get_type_hints(PolicyFields)) & set(get_type_hints(UpdateOptions)), "no option has the name of a field"


def test_the_typed_options_are_the_keyword_arguments_of_their_functions() -> None:
    for options, function in (
        (UpdateOptions, update_request),
        (ChangeOptions, delete_request),
        (Selection, policy_progress),
        (HistoryWatchOptions, history_progress),
        (HistoryOptions, history_request),
    ):
        keywords = {name for name, each in inspect.signature(function).parameters.items() if each.kind is each.KEYWORD_ONLY}
        assert keywords == set(get_type_hints(options)), options


SECRET = "s3_managed_ledger_offload_credential_secret"
EXTRA = "managed_ledger_extra_configurations"


@pytest.mark.parametrize(
    "values",
    [
        {"offload_policies": {SECRET: b"hunter2"}},
        {"offload_policies": [SECRET, "hunter2"]},
        {"offload_policies": {EXTRA: {"account.password": ["hunter2"]}}},
        {f"offload_policies.{SECRET}": ["hunter2"]},
    ],
)
def test_the_error_of_a_secret_of_a_wrong_type_does_not_show_it(values: dict[str, Any]) -> None:
    with pytest.raises(tp.InvalidArgument, match="not a value of the type") as caught:
        request(values)
    assert "hunter2" not in str(caught.value)


def test_the_error_of_another_value_of_a_wrong_type_shows_its_beginning() -> None:
    with pytest.raises(tp.InvalidArgument, match="takes a whole number, not 'many'"):
        request(max_producer_per_topic="many")
    nested: list[object] = []
    for _ in range(60):
        nested = [nested, nested]
    with pytest.raises(tp.InvalidArgument) as caught:
        request(max_producer_per_topic=nested)
    assert len(str(caught.value)) < 2000


def test_a_list_with_an_element_of_a_wrong_type_leaves_the_old_list() -> None:
    message = tp.TopicPolicies(shadow_topics=["old"])
    with pytest.raises(ValueError, match="takes a text"):
        assign(message, locate(tp.TopicPolicies.DESCRIPTOR, "shadow_topics"), ["new", 1])
    assert list(message.shadow_topics) == ["old"]
