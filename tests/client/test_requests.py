"""What callers say becomes a request with an explicit mask; what is wrong with it is said at once, all of it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, get_type_hints

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from hypothesis import given

import topicpolicies as tp
from tests.core.policies import policies
from topicpolicies.edits import edit_request
from topicpolicies.fields import PolicyFields
from topicpolicies.masks import format_path
from topicpolicies.requests import Options, delete_request, update_request
from topicpolicies.v1 import policies_pb2, service_pb2
from topicpolicies_server.core.masks import apply, read

TOPIC = "persistent://public/default/orders"


def request(values: Any = None, /, options: Options = Options(), **fields: Any) -> service_pb2.UpdatePolicyRequest:
    return update_request(TOPIC, values, fields, options)


def refused(values: Any = None, /, options: Options = Options(), **fields: Any) -> dict[str, str]:
    with pytest.raises(tp.InvalidArgument) as caught:
        request(values, options, **fields)
    return {violation.field: violation.reason for violation in caught.value.violations}


def test_fields_make_the_mask() -> None:
    made = request(max_producer_per_topic=5, replication_clusters=["a", "b"])
    assert made.topic == TOPIC
    assert list(made.update_mask.paths) == ["max_producer_per_topic", "replication_clusters"]
    assert made.policies == tp.TopicPolicies(max_producer_per_topic=5, replication_clusters=["a", "b"])
    assert made.scope == tp.Scope.LOCAL.number


def test_none_clears() -> None:
    made = request(max_producer_per_topic=None, subscription_policies=None)
    assert list(made.update_mask.paths) == ["max_producer_per_topic", "subscription_policies"]
    assert made.policies == tp.TopicPolicies()


def test_paths_reach_below_fields_and_into_maps() -> None:
    made = request(
        {
            "retention_policies.retention_time_in_minutes": 10,
            "subscription_policies.`my.sub`.dispatch_rate.dispatch_throttling_rate_in_msg": 7,
            "subscription_policies.gone": None,
            "back_log_quota_map.message_age": {"limit_time": 60, "policy": "producer_exception"},
        },
        shadow_topics=["persistent://a/b/c"],
    )
    assert list(made.update_mask.paths) == [
        "retention_policies.retention_time_in_minutes",
        "subscription_policies.`my.sub`.dispatch_rate.dispatch_throttling_rate_in_msg",
        "subscription_policies.gone",
        "back_log_quota_map.message_age",
        "shadow_topics",
    ]
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
def test_objects_are_messages_or_mappings(value: object) -> None:
    made = request(retention_policies=value)
    assert made.policies.retention_policies == tp.RetentionPolicies(retention_size_in_mb=100, retention_time_in_minutes=10)
    assert list(made.update_mask.paths) == ["retention_policies"]


def test_a_whole_map_is_replaced_by_the_given_one() -> None:
    made = request(tp.TopicPolicies(shadow_topics=["x"]), subscription_policies={"a.b": {}, "c": tp.SubscriptionPolicies()})
    assert list(made.update_mask.paths) == ["shadow_topics", "subscription_policies"]
    assert set(made.policies.subscription_policies) == {"a.b", "c"}
    before = tp.TopicPolicies()
    before.subscription_policies["gone"].dispatch_rate.dispatch_throttling_rate_in_msg = 1
    assert set(request(before, subscription_policies={"c": {}}).policies.subscription_policies) == {"c"}
    configured = request({"offload_policies.managed_ledger_extra_configurations": {"k": "v"}})
    assert configured.policies.offload_policies.managed_ledger_extra_configurations == {"k": "v"}


def test_an_empty_object_is_there() -> None:
    assert request(dispatch_rate={}).policies.HasField("dispatch_rate")
    assert request({"subscription_policies.a": {}}).policies.subscription_policies == {"a": tp.SubscriptionPolicies()}


@pytest.mark.parametrize("name", ["shared", "SHARED", "Shared", "SUBSCRIPTION_TYPE_SHARED", 2, policies_pb2.SUBSCRIPTION_TYPE_SHARED])
def test_enums_are_numbers_or_names_with_or_without_prefix(name: object) -> None:
    assert list(request(subscription_types_enabled=[name, "key-shared"]).policies.subscription_types_enabled) == [2, 4]


def test_a_message_means_its_set_fields() -> None:
    made = request(tp.TopicPolicies(max_producer_per_topic=0, shadow_topics=["x"]), max_consumer_per_topic=1)
    assert list(made.update_mask.paths) == ["max_producer_per_topic", "shadow_topics", "max_consumer_per_topic"]
    assert made.policies.HasField("max_producer_per_topic")


def test_a_field_beside_a_message_wins_over_the_messages_own() -> None:
    made = request(tp.TopicPolicies(max_producer_per_topic=1, shadow_topics=["x"]), max_producer_per_topic=None, shadow_topics=["y"])
    assert list(made.update_mask.paths) == ["max_producer_per_topic", "shadow_topics"]
    assert made.policies == tp.TopicPolicies(shadow_topics=["y"])


@pytest.mark.parametrize("mask", ["*", ["*"], FieldMask(paths=["*"])])
def test_an_explicit_mask_is_sent_as_it_is(mask: Any) -> None:
    made = request(tp.TopicPolicies(max_producer_per_topic=1), Options(mask=mask))
    assert list(made.update_mask.paths) == ["*"]


def test_a_mask_alone_clears() -> None:
    made = request(None, Options(mask=["max_producer_per_topic", "dispatch_rate"]))
    assert list(made.update_mask.paths) == ["max_producer_per_topic", "dispatch_rate"]
    assert made.policies == tp.TopicPolicies()


def test_a_mask_of_entries_keeps_their_keys() -> None:
    mask = ["subscription_policies.`a.b`", "subscription_policies.`c``d`"]
    assert list(request(None, Options(mask=mask)).update_mask.paths) == mask


def test_a_value_that_the_mask_leaves_out_is_refused_instead_of_dropped() -> None:
    mask = Options(mask=["max_consumer_per_topic", "retention_policies"])
    assert refused(None, mask, max_producer_per_topic=1) == {"max_producer_per_topic": "NOT_IN_MASK"}
    assert request({"retention_policies.retention_size_in_mb": 1}, mask).update_mask.paths == mask.mask


def test_everything_else_is_passed_on() -> None:
    options = Options(
        scope=tp.Scope.GLOBAL,
        etag="v1",
        skip_if_absent=True,
        validate_only=True,
        request_id="id",
        list_operations={"shadow_topics": tp.ListOperation.UNION},
    )
    made = request(None, options, shadow_topics=["x"])
    assert (made.scope, made.etag, made.skip_if_absent, made.validate_only, made.request_id) == (2, "v1", True, True, "id")
    assert made.list_operations == {"shadow_topics": service_pb2.LIST_OPERATION_UNION}


def test_every_update_has_an_id_of_its_own() -> None:
    ids = {request(max_producer_per_topic=1).request_id for _ in range(100)}
    assert len(ids) == 100
    assert all(str(uuid.UUID(each)) == each for each in ids)


def test_nothing_to_change_is_refused() -> None:
    assert refused() == {"update_mask": "EMPTY_MASK"}
    assert refused({}) == {"update_mask": "EMPTY_MASK"}
    assert refused(tp.TopicPolicies()) == {"update_mask": "EMPTY_MASK"}
    assert refused(None, Options(mask=[])) == {"update_mask": "EMPTY_MASK"}


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
def test_a_bad_path_or_value_is_refused_by_its_path(values: Mapping[str, Any], reason: str) -> None:
    assert refused(values) == {next(iter(values)): reason}


def test_all_violations_are_said_at_once() -> None:
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


def test_a_field_is_not_given_twice() -> None:
    assert refused({"max_producer_per_topic": 1}, max_producer_per_topic=2)["max_producer_per_topic"] == "OVERLAPPING_PATHS"


def test_a_malformed_mask_is_refused() -> None:
    assert refused(None, Options(mask=["a..b"]), max_producer_per_topic=1) == {"update_mask": "EMPTY_SEGMENT"}


@given(policies(), policies())
def test_an_edit_turns_one_document_into_the_other_and_names_nothing_that_is_equal(
    before: tp.TopicPolicies, after: tp.TopicPolicies
) -> None:
    document = tp.Document(TOPIC, tp.Scope.GLOBAL, before, "v7")
    made = edit_request(document, after)
    if made is None:
        assert before == after
        return
    assert (made.etag, made.scope) == ("v7", tp.Scope.GLOBAL.number)
    mask, violations = read(made.update_mask.paths, tp.TopicPolicies.DESCRIPTOR)
    assert not violations
    result = tp.TopicPolicies()
    result.CopyFrom(before)
    apply(mask, result, made.policies)
    assert result == after
    for left_out in mask:
        result.CopyFrom(before)
        apply(tuple(path for path in mask if path != left_out), result, made.policies)
        assert result != after, format_path(left_out)


def test_an_edit_of_an_absent_document_is_bound_to_its_absence() -> None:
    made = edit_request(tp.Document(TOPIC, tp.Scope.LOCAL, None, "0"), tp.TopicPolicies(max_producer_per_topic=1))
    assert made is not None
    assert made.etag == "0"


@pytest.mark.parametrize(
    ("scopes", "expected"),
    [
        (tp.Scope.GLOBAL, [(2, "")]),
        ([tp.Scope.GLOBAL, tp.Scope.LOCAL], [(2, ""), (1, "")]),
        ({tp.Scope.LOCAL: "v1", tp.Scope.GLOBAL: ""}, [(1, "v1"), (2, "")]),
    ],
)
def test_a_deletion_names_each_scope_once(scopes: Any, expected: list[tuple[int, str]]) -> None:
    made = delete_request(TOPIC, scopes, "")
    assert [(each.scope, each.etag) for each in made.deletes] == expected
    assert str(uuid.UUID(made.request_id)) == made.request_id
    assert delete_request(TOPIC, scopes, "id").request_id == "id"


def test_a_deletion_of_nothing_is_refused() -> None:
    with pytest.raises(tp.InvalidArgument):
        delete_request(TOPIC, [], "")


def test_the_keyword_arguments_are_the_fields_of_the_document() -> None:
    assert set(get_type_hints(PolicyFields)) == set(tp.TopicPolicies.DESCRIPTOR.fields_by_name)
