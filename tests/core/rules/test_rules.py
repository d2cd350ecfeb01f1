"""The rules, each alone and all together."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.core.rules.examples import FACTS, TOPIC, judged, policies, violated
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import ListOperation
from topicpolicies_server.core.changes.change import compile_change
from topicpolicies_server.core.changes.fields import fields
from topicpolicies_server.core.changes.plan import plan_of
from topicpolicies_server.core.changes.rules import RULES, needs, refused
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import split
from topicpolicies_server.core.policies.facts import Facts, Need

KEY = PolicyKey(TOPIC, Scope.LOCAL)
QUOTA = 'back_log_quota_map {{ key: "{}" value {{ limit_size: {} limit_time: {} policy: 1 }} }}'
GLOBAL = {"scope": Scope.GLOBAL}
NUMBERS = sorted(rule.field for rule in RULES if rule.reason == "NEGATIVE")


def quota(kind: str, size: int = -1, seconds: int = -1) -> str:
    return QUOTA.format(kind, size, seconds)


def retention(minutes: int, megabytes: int) -> str:
    return f"retention_policies {{ retention_time_in_minutes: {minutes} retention_size_in_mb: {megabytes} }}"


def persistence(ensemble: int, write: int, ack: int) -> str:
    return f"persistence {{ bookkeeper_ensemble: {ensemble} bookkeeper_write_quorum: {write} bookkeeper_ack_quorum: {ack} }}"


def clusters(*names: str) -> str:
    return " ".join(f'replication_clusters: "{name}"' for name in names)


def shadows(*names: str) -> str:
    return " ".join(f'shadow_topics: "{name}"' for name in names)


def offload(**leaves: str) -> str:
    return "offload_policies { " + " ".join(f'{name}: "{value}"' for name, value in leaves.items()) + " }"


@pytest.mark.parametrize("field", NUMBERS)
@pytest.mark.parametrize("scope", list(Scope))
def test_a_negative_number_is_refused_and_zero_is_accepted(field: str, scope: Scope) -> None:
    assert violated(f"{field}: -1", scope=scope) == {f"policies.{field}": "NEGATIVE"}
    assert violated(f"{field}: 0", scope=scope) == {}


TAKEN = [
    retention(-1, -1),
    retention(0, 0),
    retention(10, 100),
    persistence(5, 4, 3),
    persistence(1, 1, 1),
    "max_message_size: 1000",
    clusters("here"),
    clusters("there", "here"),
    shadows("persistent://acme/orders/shadow", "acme/orders/shadow"),
    'entry_filters { entry_filter_names: "known" }',
    'entry_filters { entry_filter_names: ", known ,," }',
    offload(managed_ledger_offload_driver="AWS-S3", managed_ledger_offload_bucket="b"),
    offload(managed_ledger_offload_driver="s3", s3_managed_ledger_offload_bucket="b"),
    offload(managed_ledger_offload_driver="google-cloud-storage", gcs_managed_ledger_offload_bucket="b"),
    offload(managed_ledger_offload_driver="filesystem"),
    'subscription_policies { key: "s" value { dispatch_rate { dispatch_throttling_rate_in_msg: 1 } } }',
    f"{retention(10, 100)} {quota('destination_storage', 100 * 1024 * 1024 - 1, 599)}",
    f"{retention(-1, -1)} {quota('destination_storage', 2**40, 10**6)}",
    "dispatch_rate { dispatch_throttling_rate_in_msg: -1 }",
    "schema_compatibility_strategy: SCHEMA_COMPATIBILITY_STRATEGY_FULL",
]

REFUSED = [
    (retention(-2, 5), {"retention_policies.retention_time_in_minutes": "BELOW_MINUS_ONE"}),
    (retention(5, -2), {"retention_policies.retention_size_in_mb": "BELOW_MINUS_ONE"}),
    (retention(0, 5), {"retention_policies": "HALF_ZERO"}),
    (retention(5, 0), {"retention_policies": "HALF_ZERO"}),
    (persistence(0, 0, 0), {f"persistence.bookkeeper_{leaf}": "NOT_POSITIVE" for leaf in ("ensemble", "write_quorum", "ack_quorum")}),
    (persistence(2, 3, 1), {"persistence": "QUORUM_ORDER"}),
    (persistence(3, 2, 3), {"persistence": "QUORUM_ORDER"}),
    (persistence(6, 4, 3), {"persistence.bookkeeper_ensemble": "ABOVE_BROKER_MAXIMUM"}),
    (persistence(5, 5, 3), {"persistence.bookkeeper_write_quorum": "ABOVE_BROKER_MAXIMUM"}),
    (persistence(5, 4, 4), {"persistence.bookkeeper_ack_quorum": "ABOVE_BROKER_MAXIMUM"}),
    ("max_message_size: 1001", {"max_message_size": "ABOVE_BROKER_MAXIMUM"}),
    (clusters("there"), {"replication_clusters": "LOCAL_CLUSTER_MISSING"}),
    (clusters("here", "nowhere"), {"replication_clusters": "CLUSTER_NOT_ALLOWED"}),
    (clusters("here", "forbidden"), {"replication_clusters": "CLUSTER_NOT_ALLOWED"}),
    (clusters("here", "there", "peer"), {"replication_clusters": "PEER_CLUSTERS"}),
    (shadows("non-persistent://acme/orders/shadow"), {"shadow_topics": "SHADOW_NOT_PERSISTENT"}),
    (shadows("x/y"), {"shadow_topics": "MALFORMED_NAME"}),
    (shadows("persistent://acme/orders/missing"), {"shadow_topics": "SHADOW_NOT_FOUND"}),
    ('entry_filters { entry_filter_names: " , " }', {"entry_filters.entry_filter_names": "BLANK"}),
    ('entry_filters { entry_filter_names: "known,other" }', {"entry_filters.entry_filter_names": "UNKNOWN_ENTRY_FILTER"}),
    (offload(managed_ledger_offload_bucket="b"), {"offload_policies.managed_ledger_offload_driver": "UNKNOWN_DRIVER"}),
    (offload(managed_ledger_offload_driver="tape"), {"offload_policies.managed_ledger_offload_driver": "UNKNOWN_DRIVER"}),
    (offload(managed_ledger_offload_driver="azureblob"), {"offload_policies.managed_ledger_offload_bucket": "NO_BUCKET"}),
    (
        offload(managed_ledger_offload_driver="S3", gcs_managed_ledger_offload_bucket="b"),
        {"offload_policies.managed_ledger_offload_bucket": "NO_BUCKET"},
    ),
    (
        'subscription_policies { key: "s.1" value { dispatch_rate { dispatch_throttling_rate_in_msg: 0 } } }',
        {"subscription_policies.`s.1`.dispatch_rate": "NO_LIMIT"},
    ),
    (
        f"{retention(10, 100)} {quota('destination_storage', 100 * 1024 * 1024)}",
        {"back_log_quota_map.destination_storage": "QUOTA_ABOVE_RETENTION"},
    ),
    (f"{retention(10, -1)} {quota('message_age', seconds=600)}", {"back_log_quota_map.message_age": "QUOTA_ABOVE_RETENTION"}),
]


@pytest.mark.parametrize("text", TAKEN)
def test_a_document_that_violates_no_rule_is_accepted(text: str) -> None:
    assert violated(text) == {}


@pytest.mark.parametrize(("text", "expected"), REFUSED)
def test_a_violation_of_a_rule_is_refused_with_its_field_and_reason(text: str, expected: dict[str, str]) -> None:
    assert violated(text) == {f"policies.{field}": reason for field, reason in expected.items()}


def test_a_global_list_of_clusters_must_be_within_the_clusters_of_the_namespace() -> None:
    assert violated(clusters("there"), **GLOBAL) == {}  # type: ignore[arg-type]
    alone = FACTS._replace(namespace=policies(clusters("here")))
    field = "policies.replication_clusters"
    assert violated(clusters("here"), scope=Scope.GLOBAL, facts=alone) == {field: "NAMESPACE_NOT_REPLICATED"}
    wide = FACTS._replace(allowed_clusters=None)
    assert violated(clusters("forbidden"), scope=Scope.GLOBAL, facts=wide) == {field: "CLUSTER_NOT_IN_NAMESPACE"}


@pytest.mark.parametrize("facts", [FACTS, None], ids=["a known cluster", "nothing known"])
@pytest.mark.parametrize("scope", list(Scope))
def test_the_longest_list_of_clusters_is_judged_within_a_moment(facts: Facts | None, scope: Scope) -> None:
    document = TopicPolicies(replication_clusters=[f"c{number}" for number in range(5_000)])
    change = compile_change(document, ["replication_clusters"], {})
    began = time.thread_time()
    judged(change, None, facts, PolicyKey(TOPIC, scope))
    assert time.thread_time() - began < 0.25, "comparing each cluster with all others took more than a second"


@pytest.mark.parametrize("names", [["unknown"] * 120_000, [f"{number:x}" for number in range(170_000)]], ids=["one", "many"])
def test_very_many_entry_filters_are_judged_within_a_moment(names: list[str]) -> None:
    change = compile_change(policies(f'entry_filters {{ entry_filter_names: "{",".join(names)}" }}'), ["entry_filters"], {})
    began = time.thread_time()
    found = judged(change, None, FACTS).found
    assert time.thread_time() - began < 0.3, "a violation for each took more than a second"
    assert {violation.reason for _, violation in found} == {"UNKNOWN_ENTRY_FILTER"}


@pytest.mark.parametrize(
    "text", [shadows("persistent://acme/orders/shadow"), "schema_compatibility_strategy: SCHEMA_COMPATIBILITY_STRATEGY_FULL"]
)
def test_a_field_of_the_local_scope_only_is_refused_in_the_global_scope(text: str) -> None:
    assert list(violated(text, scope=Scope.GLOBAL).values()) == ["LOCAL_SCOPE_ONLY"]


def test_only_persistent_topics_have_shadows() -> None:
    found = violated(shadows("persistent://acme/orders/shadow"), topic="non-persistent://acme/orders/one")
    assert found == {"policies.shadow_topics": "NOT_PERSISTENT"}


def test_all_violations_are_reported_at_once() -> None:
    text = f"max_producer_per_topic: -1 max_message_size: 5000 {retention(0, 5)} {clusters('there')} {persistence(6, 0, 7)}"
    change = compile_change(policies(text), ["*"], {})
    error = refused(judged(change, None, FACTS).found)
    assert error.kind is Kind.INVALID_ARGUMENT
    assert error.reason == "INVALID_REQUEST"
    assert sorted(violation.reason for violation in error.violations) == [
        "ABOVE_BROKER_MAXIMUM",
        "ABOVE_BROKER_MAXIMUM",
        "ABOVE_BROKER_MAXIMUM",
        "HALF_ZERO",
        "LOCAL_CLUSTER_MISSING",
        "NEGATIVE",
        "NOT_POSITIVE",
        "QUORUM_ORDER",
    ]


def test_violations_of_rules_are_reported_together_with_all_other_errors() -> None:
    half = policies("max_producer_per_topic: -1 retention_policies { retention_size_in_mb: 5 }")
    with pytest.raises(PolicyError) as refusal:
        compile_change(half, ["max_producer_per_topic", "retention_policies", "no_such_field"], {})
    assert {violation.reason for violation in refusal.value.violations} == {"UNKNOWN_PATH", "HALF_OBJECT", "NEGATIVE"}


def test_a_violation_that_depends_on_the_cluster_is_a_failed_precondition() -> None:
    change = compile_change(policies("max_message_size: 5000"), ["*"], {})
    error = refused(judged(change, None, FACTS).found)
    assert (error.kind, error.reason) == (Kind.FAILED_PRECONDITION, "RULE_VIOLATED")


def test_values_that_the_document_already_has_are_not_judged_again() -> None:
    wrong = f"max_producer_per_topic: -1 {clusters('there')} {retention(0, 5)}"
    assert violated(f"{wrong} max_consumer_per_topic: 1", before=wrong) == {}
    assert violated("max_consumer_per_topic: 1", before=wrong, mask=["max_consumer_per_topic"]) == {}


def test_clearing_a_document_with_violations_is_accepted() -> None:
    everything = f"max_producer_per_topic: -1 {clusters('there')} {retention(0, 5)} {persistence(0, 0, 0)} {shadows('x')}"
    assert violated("", before=everything) == {}


def test_without_facts_only_violations_of_rules_that_need_none_are_found() -> None:
    for text in ("max_message_size: 5000", persistence(9, 8, 7), quota("message_age", seconds=10), shadows("persistent://a/b/c")):
        assert violated(text, facts=None) == {}
    assert violated("max_message_size: -1", facts=None) == {"policies.max_message_size": "NEGATIVE"}
    assert violated(clusters("nowhere"), scope=Scope.GLOBAL, facts=None) == {}


def test_a_local_list_of_clusters_is_refused_while_the_local_clusters_name_is_unknown() -> None:
    assert violated(clusters("here"), facts=None) == {"policies.replication_clusters": "LOCAL_CLUSTER_UNKNOWN"}
    assert violated(clusters("here"), facts=FACTS._replace(cluster="")) == {"policies.replication_clusters": "LOCAL_CLUSTER_UNKNOWN"}


def test_retention_is_compared_with_quotas_of_the_document_then_the_namespace_then_the_broker() -> None:
    large, small = quota("destination_storage", 2**30), quota("destination_storage", 2**10)
    low = retention(-1, 1)
    clash = {"policies.retention_policies": "RETENTION_BELOW_QUOTA"}

    def known(namespace: str, broker: str) -> object:
        assert FACTS.broker is not None
        return FACTS._replace(namespace=policies(namespace), broker=FACTS.broker._replace(policies=policies(broker)))

    def judged(before: str, namespace: str, broker: str) -> dict[str, str]:
        return violated(low, before=before, facts=known(namespace, broker), mask=["retention_policies"])  # type: ignore[arg-type]

    assert judged(large, small, small) == clash
    assert judged(small, large, large) == {}
    assert judged("", large, small) == clash
    assert judged("", small, large) == {}
    assert judged("", "", large) == clash
    assert judged("", "", "") == {}


def test_a_quota_is_compared_with_retention_of_the_document_then_the_namespace() -> None:
    facts = FACTS._replace(namespace=policies(retention(10, 1)))
    given, path = quota("message_age", seconds=600), ["back_log_quota_map.message_age"]
    clash = {"policies.back_log_quota_map.message_age": "QUOTA_ABOVE_RETENTION"}
    assert violated(given, facts=facts, mask=path) == clash
    assert violated(given, before=retention(20, 1), facts=facts, mask=path) == {}
    assert violated(given, before=retention(5, 1), facts=FACTS, mask=path) == clash


def test_when_a_quota_is_removed_retention_is_compared_with_the_brokers_default_quota() -> None:
    assert FACTS.broker is not None
    facts = FACTS._replace(broker=FACTS.broker._replace(policies=policies(quota("message_age", seconds=600))))
    before = f"{retention(10, -1)} {quota('message_age', seconds=60)}"
    found = violated("", before=before, facts=facts, mask=["back_log_quota_map.message_age"])
    assert found == {"policies.back_log_quota_map.message_age": "QUOTA_ABOVE_RETENTION"}


def test_a_change_reads_the_settings_that_are_judged_together_with_what_it_sets() -> None:
    before = split(policies(f"{retention(10, 1)} {quota('message_age', seconds=60)}"))

    def relied(text: str, *mask: str) -> set[str]:
        change = compile_change(policies(text), mask, {})
        return set(judged(change, before, FACTS).reads)

    assert relied(retention(20, 1), "retention_policies") == {"back_log_quota_map/destination_storage", "back_log_quota_map/message_age"}
    assert relied(quota("message_age", seconds=30), "back_log_quota_map.message_age") == {"retention_policies"}
    assert relied(retention(10, 1), "retention_policies") == set()
    assert relied("max_producer_per_topic: 1", "max_producer_per_topic") == set()


@pytest.mark.parametrize(("scope", "expected"), [(Scope.LOCAL, {"replication_clusters"}), (Scope.GLOBAL, set())])
def test_a_list_operation_on_clusters_reads_the_list_in_the_local_scope_only(scope: Scope, expected: set[str]) -> None:
    before = split(policies(clusters("here", "there")))
    change = compile_change(
        policies(clusters("there")), ["replication_clusters"], {"replication_clusters": ListOperation.LIST_OPERATION_SUBTRACT}
    )
    assert set(judged(change, before, FACTS, PolicyKey(TOPIC, scope)).reads) == expected


def test_facts_are_requested_only_where_a_rule_needs_them() -> None:
    def needed(*mask: str) -> Need:
        return needs(plan_of(tuple(mask)))

    assert needed("max_producer_per_topic", "dispatch_rate") is Need.NOTHING
    assert needed("max_message_size") == Need.BROKER
    assert needed("retention_policies") == needed("back_log_quota_map") == Need.NAMESPACE | Need.BROKER
    assert needed("replication_clusters") == Need.CLUSTER | Need.CLUSTERS | Need.TENANT | Need.NAMESPACE
    assert needed("shadow_topics") == Need.SHADOWS
    assert needed("*") == ~Need.NOTHING


def test_the_table_of_rules_has_only_existing_fields_and_no_duplicate_reasons() -> None:
    known = fields(TopicPolicies.DESCRIPTOR)
    assert all(rule.field in known for rule in RULES)
    assert len({(rule.field, rule.reason) for rule in RULES}) == len(RULES)
    assert all(rule.needs is not Need.NOTHING for rule in RULES if rule.kind is Kind.FAILED_PRECONDITION)


def test_every_rule_is_documented() -> None:
    page = Path(__file__).parents[3] / "docs" / "rules.md"
    rows = {line.strip() for line in page.read_text(encoding="utf-8").splitlines()}
    for rule in RULES:
        assert f"| `{rule.field}` | {rule.statement} | {rule.kind.value} | `{rule.reason}` |" in rows
