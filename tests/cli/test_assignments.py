"""Assignments on the command line are parsed by the type of their field, or refused with a reason."""

from __future__ import annotations

import json

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.core.policies import policies
from topicpolicies import LIST_OPERATION_SUBTRACT, LIST_OPERATION_UNION, InvalidArgument, TopicPolicies
from topicpolicies.masks import format_path
from topicpolicies.requests import update_request
from topicpolicies.secrets import REDACTED
from topicpolicies_server.cli.assignments import Assignments, parse
from topicpolicies_server.declared.values import lines


def message(assignments: Assignments) -> TopicPolicies:
    """Returns the policies of the update with these assignments."""
    return update_request("a/b/c", assignments.values).policies


def mask(*texts: str, unset: tuple[str, ...] = (), paths: tuple[str, ...] = ()) -> list[str]:
    """Returns the mask of the update with these assignments; empty: there is no mask."""
    assignments = parse(texts, unset)
    request = update_request("a/b/c", assignments.values, mask=assignments.mask(paths), list_operations=assignments.list_operations)
    return list(request.update_mask.paths)


def refused(*texts: str, unset: tuple[str, ...] = ()) -> dict[str, str]:
    with pytest.raises(InvalidArgument) as caught:
        parse(texts, unset)
    return {violation.field: violation.reason for violation in caught.value.violations}


def test_the_example_of_the_help_is_parsed() -> None:
    found = parse(
        ["max_producer_per_topic=5", "retention_policies.retention_time_in_minutes=10", "retention_policies.retention_size_in_mb=100"],
        ["message_ttl_in_seconds"],
    )
    assert found == Assignments(
        {
            "max_producer_per_topic": 5,
            "retention_policies.retention_time_in_minutes": 10,
            "retention_policies.retention_size_in_mb": 100,
            "message_ttl_in_seconds": None,
        }
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("max_producer_per_topic=-1", -1),
        ("compaction_threshold=9223372036854775807", 2**63 - 1),
        ("deduplication_enabled=true", True),
        ("deduplication_enabled=No", False),
        ("persistence.managed_ledger_max_mark_delete_rate=0.5", 0.5),
        ("persistence.managed_ledger_max_mark_delete_rate=2", 2.0),
        ("entry_filters.entry_filter_names=one,two", "one,two"),
        ("offload_policies.managed_ledger_offload_bucket=a=b=c", "a=b=c"),
        ("offload_policies.managed_ledger_offload_bucket=", ""),
        ("schema_compatibility_strategy=full_transitive", "full_transitive"),
        ("schema_compatibility_strategy=SCHEMA_COMPATIBILITY_STRATEGY_FULL", "SCHEMA_COMPATIBILITY_STRATEGY_FULL"),
        ("subscription_types_enabled=shared, KEY_SHARED", ["shared", "KEY_SHARED"]),
        ('subscription_types_enabled=["shared", 4]', ["shared", 4]),
        ("replication_clusters=", []),
        ("replication_clusters=a", ["a"]),
        ('replication_clusters=["a,b"]', ["a,b"]),
        ("offload_policies.managed_ledger_extra_configurations.`k.l`=v", "v"),
    ],
)
def test_values_are_parsed_by_the_type_of_the_field(text: str, value: object) -> None:
    (found,) = parse([text]).values.values()
    assert found == value
    assert type(found) is type(value) or isinstance(value, list)


def test_objects_and_maps_are_json_with_either_form_of_names_and_short_enums() -> None:
    found = parse(
        [
            'retention_policies={"retention_size_in_mb": "100", "retentionTimeInMinutes": 10}',
            'back_log_quota_map={"message_age": {"limit_time": 60, "policy": "producer_exception"}}',
            'subscription_policies.`a=b`={"dispatch_rate": {"dispatch_throttling_rate_in_msg": 5}}',
        ]
    )
    expected = TopicPolicies()
    expected.retention_policies.retention_size_in_mb = 100
    expected.retention_policies.retention_time_in_minutes = 10
    expected.back_log_quota_map["message_age"].limit_time = 60
    expected.back_log_quota_map["message_age"].policy = 2  # type: ignore[assignment]
    expected.subscription_policies["a=b"].dispatch_rate.dispatch_throttling_rate_in_msg = 5
    assert message(found) == expected


def test_plus_and_minus_assignments_add_and_remove_elements() -> None:
    found = parse(["replication_clusters+=a,b", "replication_clusters+=c", "shadow_topics-=x"])
    assert found.values == {"replication_clusters": ["a", "b", "c"], "shadow_topics": ["x"]}
    assert found.list_operations == {"replication_clusters": LIST_OPERATION_UNION, "shadow_topics": LIST_OPERATION_SUBTRACT}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("max_producer_per_topic", "NOT_AN_ASSIGNMENT"),
        ("", "NOT_AN_ASSIGNMENT"),
        ("=5", "EMPTY_SEGMENT"),
        ("+=5", "EMPTY_SEGMENT"),
        ("`a=5", "MALFORMED_PATH"),
        ("max_producers=5", "UNKNOWN_PATH"),
        ("max_producer_per_topic=", "WRONG_TYPE"),
        ("max_producer_per_topic=five", "WRONG_TYPE"),
        ("max_producer_per_topic=5.0", "WRONG_TYPE"),
        ("max_producer_per_topic=\u0665", "WRONG_TYPE"),
        ("max_producer_per_topic=2147483648", "WRONG_VALUE"),
        ("max_producer_per_topic=" + "9" * 10_000, "WRONG_TYPE"),
        ("deduplication_enabled=1", "WRONG_TYPE"),
        ("persistence.managed_ledger_max_mark_delete_rate=nan", "WRONG_TYPE"),
        ("schema_compatibility_strategy=sideways", "WRONG_VALUE"),
        ("subscription_types_enabled=shared,sideways", "WRONG_VALUE"),
        ('subscription_types_enabled=["sideways"]', "WRONG_VALUE"),
        ("subscription_types_enabled=[", "WRONG_TYPE"),
        ("replication_clusters=[1]", "WRONG_TYPE"),
        ("retention_policies=10", "WRONG_TYPE"),
        ("retention_policies=[]", "WRONG_TYPE"),
        ("retention_policies=null", "WRONG_VALUE"),
        ('retention_policies={"retention": 10}', "UNKNOWN_PATH"),
        ('retention_policies={"retention_size_in_mb": "many"}', "WRONG_TYPE"),
        ("retention_policies=" + "[" * 100_000, "WRONG_TYPE"),
        ("subscription_policies=a", "WRONG_TYPE"),
        ("max_producer_per_topic+=5", "WRONG_TYPE"),
    ],
)
def test_an_invalid_assignment_is_refused_with_its_reason(text: str, reason: str) -> None:
    assert refused(text) == {text: reason}


@pytest.mark.parametrize(
    "texts",
    [
        ("max_producer_per_topic=1", "max_producer_per_topic=2"),
        ("shadow_topics+=a", "shadow_topics-=b"),
        ("shadow_topics=a", "shadow_topics+=b"),
        ("shadow_topics+=a", "shadow_topics=b"),
    ],
)
def test_a_path_that_is_assigned_twice_is_refused(texts: tuple[str, str]) -> None:
    assert refused(*texts) == {texts[1]: "OVERLAPPING_PATHS"}


def test_a_path_that_is_both_set_and_unset_is_refused() -> None:
    assert refused("max_producer_per_topic=1", unset=("max_producer_per_topic",)) == {"max_producer_per_topic": "OVERLAPPING_PATHS"}
    assert mask(unset=("max_producer_per_topic", "max_producer_per_topic")) == ["max_producer_per_topic"], "twice is as once"
    assert refused(unset=("no_such",)) == {"no_such": "UNKNOWN_PATH"}


def test_all_errors_are_reported_together_with_suggestions() -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse(["max_producers_per_topic=1", "max_producer_per_topic=x"], ["nonsense"])
    assert len(caught.value.violations) == 3
    assert "Is max_producer_per_topic or" in caught.value.violations[0].description


def test_assignments_need_no_mask_unless_one_clears_or_sets_nothing() -> None:
    rate = 'publish_rate={"publish_throttling_rate_in_msg": 1}'
    assert mask("max_producer_per_topic=5", rate, "shadow_topics+=a") == []
    assert sorted(mask(rate, unset=("message_ttl_in_seconds",))) == [
        "message_ttl_in_seconds",
        "publish_rate.publish_throttling_rate_in_msg",
    ]
    assert mask("publish_rate={}") == ["publish_rate"]
    assert mask("replication_clusters=") == ["replication_clusters"]


def test_a_given_mask_is_extended_by_the_unset_paths() -> None:
    rate = 'publish_rate={"publish_throttling_rate_in_msg": 1}'
    assert mask(rate, paths=("publish_rate",)) == ["publish_rate"]
    assert mask(rate, unset=("message_ttl_in_seconds",), paths=("publish_rate",)) == ["publish_rate", "message_ttl_in_seconds"]
    assert mask(rate, unset=("message_ttl_in_seconds",), paths=("*",)) == ["*"]


@given(policies())
def test_a_document_assigned_leaf_by_leaf_as_shown_is_the_same_document(document: TopicPolicies) -> None:
    """The output of ``get`` can be passed to ``update``, except for secrets and empty elements of lists."""
    shown = dict(lines(document))
    assume("" not in (*document.replication_clusters, *document.shadow_topics))
    if shown and REDACTED not in shown.values():
        assert message(parse([f"{format_path(path)}={value}" for path, value in shown.items()])) == document


@given(policies())
def test_a_document_assigned_from_its_json_is_the_same_document(document: TopicPolicies) -> None:
    for preserving in (True, False):
        as_json = MessageToDict(document, preserving_proto_field_name=preserving)
        names = {field.json_name: field.name for field in TopicPolicies.DESCRIPTOR.fields}
        typed = []
        for name, value in as_json.items():
            text = value if isinstance(value, str) else json.dumps(value)
            typed.append(f"{names.get(name, name)}={text}")
        assert not typed or message(parse(typed)) == document


@given(st.text() | st.from_regex(r"[a-z_`.]{0,30}[+-]?=.{0,20}", fullmatch=True))
def test_any_text_is_parsed_or_refused_as_an_invalid_argument(text: str) -> None:
    try:
        parse([text])
    except InvalidArgument as error:
        assert error.violations


def test_an_unpaired_backtick_is_a_malformed_path() -> None:
    for text in ("subscription_policies.`ab.dispatch_rate={}", "subscription_policies.`ab.dispatch_rate"):
        assert refused(text) == {text: "MALFORMED_PATH"}
    with pytest.raises(InvalidArgument, match=r'The path "subscription_policies\.`a=b" can\'t be followed: a backtick is unpaired'):
        parse(["subscription_policies.`a=b=1"])
