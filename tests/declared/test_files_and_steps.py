"""The file of declared policies: how it is parsed, how its errors are reported, and that an exported file is parsed back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from tests.core.policies import policies
from topicpolicies import SCOPE_GLOBAL, SCOPE_LOCAL, InvalidArgument, PolicyDocument, TopicPolicies
from topicpolicies.v1.policies_pb2 import SUBSCRIPTION_TYPE_EXCLUSIVE, SUBSCRIPTION_TYPE_SHARED
from topicpolicies_server.cli.rendering import declaring
from topicpolicies_server.declared.files import Declared, load, parse
from topicpolicies_server.declared.steps import steps, topics_of
from topicpolicies_server.declared.values import lines

TOPIC = "persistent://public/a/orders"


def wrong(text: str) -> dict[str, str]:
    with pytest.raises(InvalidArgument) as caught:
        parse(text, "file.yaml")
    return {violation.field: violation.reason for violation in caught.value.violations}


def test_all_parts_of_a_file_are_parsed() -> None:
    declared = parse(
        """
version: 1
namespaces: [public/a]
policies:
  - pattern: public/a/ord*
    set:
      subscription_types_enabled: [shared, key_shared]
      retention_policies: {retention_time_in_minutes: 10, retention_size_in_mb: -1}
  - topic: persistent://public/a/orders-partition-3
    scope: Global
    set:
      message_ttl_in_seconds: null
      subscription_policies:
        my.sub: {dispatch_rate: {dispatch_throttling_rate_in_msg: 9}}
      back_log_quota_map.destination_storage.policy: producer_exception
      deduplication_enabled: false
""",
        "file.yaml",
    )
    pattern, topic = declared.declarations
    assert declared.namespaces == ("public/a",)
    assert (pattern.topic, pattern.pattern, pattern.scope) == ("persistent://public/a/ord*", True, SCOPE_LOCAL)
    assert pattern.covers(TOPIC)
    assert not pattern.covers("persistent://public/a/invoices")
    assert (topic.topic, topic.pattern, topic.scope) == (TOPIC, False, SCOPE_GLOBAL)
    assert set(topic.paths) == {
        ("message_ttl_in_seconds",),
        ("subscription_policies", "my.sub", "dispatch_rate", "dispatch_throttling_rate_in_msg"),
        ("back_log_quota_map", "destination_storage", "policy"),
        ("deduplication_enabled",),
    }


def test_all_errors_are_reported_together_with_their_lines() -> None:
    assert wrong(
        """version: 2
colour: red
namespaces: [public]
policies:
  - topic: public/a/orders
    set:
      max_producer_per_topic: many
      max_producers: 5
  - pattern: public/*/orders
    scope: everywhere
    set: {}
  - topic: orders
    pattern: public/a/*
  - 7
"""
    ) == {
        "file.yaml:1": "UNKNOWN_VERSION",
        "file.yaml:2": "UNKNOWN_KEY",
        "file.yaml:3": "MALFORMED_NAME",
        "file.yaml:7": "WRONG_TYPE",
        "file.yaml:8": "UNKNOWN_PATH",
        "file.yaml:9": "MALFORMED_NAME",
        "file.yaml:10": "UNKNOWN_SCOPE",
        "file.yaml:12": "WRONG_TYPE",
        "file.yaml:14": "WRONG_TYPE",
    }


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("version: 1\nversion: 1\n", "file.yaml:2"),
        ("version: 1\npolicies: [\n", "file.yaml:3"),
        ("version: 1\npolicies:\n  - topic: public/a/b\n    set: {max_producer_per_topic: 1, max_producer_per_topic: 2}\n", "file.yaml:4"),
    ],
)
def test_invalid_yaml_and_duplicate_keys_are_refused(text: str, place: str) -> None:
    assert wrong(text) == {place: "NOT_YAML"}


def test_the_word_no_is_not_parsed_as_false() -> None:
    assert set(wrong("version: 1\npolicies:\n  - topic: public/a/b\n    set:\n      deduplication_enabled: no\n").values()) == {
        "WRONG_TYPE"
    }


@pytest.mark.parametrize("text", ["", "7", "[]", "version: 1\npolicies: {}\n", "version: 1\npolicies: text\n"])
def test_a_file_of_another_shape_is_refused(text: str) -> None:
    assert set(wrong(text).values()) <= {"WRONG_TYPE", "UNKNOWN_VERSION"}


@given(policies())
def test_an_exported_document_is_declared_without_differences(document: TopicPolicies) -> None:
    here = PolicyDocument(topic=TOPIC, scope=SCOPE_GLOBAL, policies=document, version="v1")
    declared = parse(declaring([here], ["public/a"], as_json=False), "file.yaml")
    (declaration,) = declared.declarations
    assert declared.namespaces == ("public/a",)
    assert set(declaration.paths) == {path for path, _ in lines(document)}
    assert not steps(topics_of(declared, [TOPIC]), {(TOPIC, SCOPE_GLOBAL): here}, prune=("public/a",))


@pytest.mark.parametrize("text", ["\x85", "a\x85b", "a\u2028b c " * 30, f"{'a' * 120}\x80?yword word \xa0[2026"])
def test_an_exported_text_is_read_as_it_was(text: str) -> None:
    document = TopicPolicies(replication_clusters=[text])
    document.subscription_policies[text].dispatch_rate.dispatch_throttling_rate_in_msg = 1
    topic = f"{TOPIC}{text}"
    declared = parse(
        declaring([PolicyDocument(topic=topic, scope=SCOPE_LOCAL, policies=document, version="v1")], [], as_json=False), "file.yaml"
    )
    assert [(each.topic, each.values) for each in declared.declarations] == [(topic, document)]


def test_a_character_that_yaml_may_not_have_is_reported_with_its_line_and_what_to_write() -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse("version: 1\npolicies:\n  - topic: public/a/b\x07\n", "file.yaml")
    (violation,) = caught.value.violations
    assert (violation.field, violation.reason) == ("file.yaml:3", "NOT_YAML")
    assert "U+0007" in violation.description and r'write "\u0007"' in violation.description and "\n" not in violation.description


def test_a_second_document_in_a_file_is_told_in_a_sentence() -> None:
    with pytest.raises(InvalidArgument, match=r"file\.yaml:2: expected a single document in the stream, but found another document"):
        parse("version: 1\n---\nversion: 1\n", "file.yaml")


def plan(text: str, present: TopicPolicies | None, prune: tuple[str, ...] | None = None) -> list[tuple[str, tuple[str, ...]]]:
    declared: Declared = parse(f"version: 1\npolicies:\n{text}", "file.yaml")
    here = {(TOPIC, SCOPE_LOCAL): PolicyDocument(topic=TOPIC, scope=SCOPE_LOCAL, policies=present, version="v1")}
    found = steps(topics_of(declared, [TOPIC]), here, prune=prune)
    return [(step.document.topic, step.mask) for step in found]


ENTRY = "  - topic: public/a/orders\n    set: "


def test_a_step_names_only_the_leaves_that_differ() -> None:
    present = TopicPolicies(max_producer_per_topic=5, subscription_types_enabled=[SUBSCRIPTION_TYPE_EXCLUSIVE, SUBSCRIPTION_TYPE_SHARED])
    present.retention_policies.retention_size_in_mb = 100
    present.retention_policies.retention_time_in_minutes = 10
    declared = "{max_producer_per_topic: 5, subscription_types_enabled: [shared, exclusive], message_ttl_in_seconds: null, "
    assert plan(f"{ENTRY}{declared}retention_policies: {{retention_size_in_mb: 100}}}}\n", present) == []
    changed = plan(f"{ENTRY}{declared}retention_policies: {{retention_size_in_mb: 200}}}}\n", present)
    assert changed == [(TOPIC, ("retention_policies.retention_size_in_mb",))]


def test_a_later_declaration_overrides_an_earlier_one_and_a_topic_overrides_a_pattern() -> None:
    present = TopicPolicies(max_producer_per_topic=3, message_ttl_in_seconds=60)
    text = (
        "  - {topic: public/a/orders, set: {max_producer_per_topic: 3}}\n"
        "  - {pattern: public/a/*, set: {max_producer_per_topic: 1, message_ttl_in_seconds: 1, compaction_threshold: 1}}\n"
        "  - {pattern: public/a/o*, set: {message_ttl_in_seconds: 60, compaction_threshold: null}}\n"
        "  - {pattern: public/a/x*, set: {message_ttl_in_seconds: 61}}\n"
    )
    assert plan(text, present) == []


def test_entries_of_a_map_are_declared_and_pruned_one_by_one() -> None:
    present = TopicPolicies()
    for name in ("a", "b"):
        present.subscription_policies[name].dispatch_rate.dispatch_throttling_rate_in_msg = 5
    present.max_message_size = 7
    text = f"{ENTRY}{{subscription_policies: {{a: {{dispatch_rate: {{dispatch_throttling_rate_in_msg: 5}}}}}}}}\n"
    assert plan(text, present) == []
    assert plan(text, present, prune=()) == [(TOPIC, ("max_message_size", "subscription_policies.b"))]


def test_undeclared_documents_are_deleted_only_in_the_named_namespaces() -> None:
    other = "persistent://public/a/other"
    declared = parse(f"version: 1\npolicies:\n{ENTRY}{{max_producer_per_topic: 1}}\n", "file.yaml")
    here = {
        (topic, SCOPE_LOCAL): PolicyDocument(topic=topic, scope=SCOPE_LOCAL, policies=TopicPolicies(max_producer_per_topic=1), version="v1")
        for topic in (TOPIC, other)
    }
    by_key = topics_of(declared, [TOPIC, other])
    assert not steps(by_key, here, prune=None)
    assert not steps(by_key, here, prune=())
    (step,) = steps(by_key, here, prune=("public/a",))
    assert (step.document.topic, step.deletes) == (other, True)


@pytest.mark.parametrize(
    "use",
    [
        "namespaces: [{}]",
        "policies: [{{topic: {}, set: {{}}}}]",
        "policies: [{{pattern: {}, set: {{}}}}]",
        "policies: [{{topic: public/a/b, scope: {}, set: {{}}}}]",
        "policies: [{{topic: public/a/b, set: {{max_producer_per_topic: {}}}}}]",
        "policies: [{{topic: public/a/b, set: {{shadow_topics: {}}}}}]",
        "policies: [{{topic: public/a/b, set: {{retention_policies: {}}}}}]",
        "policies: [{{topic: public/a/b, set: {{subscription_policies: {{a: {}}}}}}}]",
        "? {}\n: 1",
        "version: {}",
    ],
)
def test_a_small_file_that_stands_for_a_very_large_one_is_refused_at_once(use: str) -> None:
    lists = ["l0: &l0 [x, x]", *(f"l{index}: &l{index} [*l{index - 1}, *l{index - 1}]" for index in range(1, 60))]
    text = "\n".join([*lists, *(["version: 1"] if "version" not in use else []), use.format("*l59 ")])
    with pytest.raises(InvalidArgument) as caught:
        parse(text, "f.yaml")
    assert len(str(caught.value)) < 100_000


def test_the_problems_of_all_files_of_a_folder_are_reported_together(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("version: 2\n")
    (tmp_path / "b.yaml").write_text("version: 1\nconstraints: [public/default/*]\n")
    (tmp_path / "c.yaml").write_text(
        "version: 1\nconstraints:\n  - pattern: public/default/*\n    fields: {max_producer_per_topic: {allowed: [a]}}\n"
    )
    fields = "max_producer_per_topic: {min: 3, max: 2}"
    (tmp_path / "d.yaml").write_text(f"version: 1\nconstraints:\n  - pattern: public/default/*\n    fields: {{{fields}}}\n")
    with pytest.raises(InvalidArgument) as refused:
        load([tmp_path])
    assert [(each.field, each.reason) for each in refused.value.violations] == [
        ("a.yaml:1", "UNKNOWN_VERSION"),
        ("b.yaml:2", "WRONG_TYPE"),
        ("c.yaml:4", "WRONG_TYPE"),
        ("d.yaml:4", "WRONG_VALUE"),
    ]


def test_a_file_of_constraints_has_no_owner_that_contradicts_others(tmp_path: Path) -> None:
    declared = f"policies:\n  - {{topic: {TOPIC}, set: {{max_producer_per_topic: 1}}}}\n"
    (tmp_path / "a.yaml").write_text(f"version: 1\nowner: payments\n{declared}")
    constraints = "constraints:\n  - {pattern: public/a/*, fields: {max_producer_per_topic: {max: 9}}}\n"
    (tmp_path / "b.yaml").write_text(f"version: 1\n{constraints}")
    found = load([tmp_path])
    assert (found.owner, len(found.declarations), len(found.constraints)) == ("payments", 1, 0)
    (tmp_path / "b.yaml").write_text(f"version: 1\n{declared}")
    with pytest.raises(InvalidArgument, match="several owners"):
        load([tmp_path])


def test_what_declares_a_value_that_a_constraint_of_another_file_forbids_is_refused(tmp_path: Path) -> None:
    fields = "{max_producer_per_topic: {max: 9}}"
    (tmp_path / "bounds.yaml").write_text(f"version: 1\nconstraints:\n  - {{pattern: public/a/o*, fields: {fields}}}\n")
    entry = "version: 1\nowner: one\npolicies:\n  - {{{}, set: {{max_producer_per_topic: {}}}}}\n"
    for topic, value, refused in (
        ("topic: public/a/one", 10, True),
        ("pattern: public/a/on*", 10, True),
        ("topic: public/a/one", 9, False),
    ):
        (tmp_path / "one.yaml").write_text(entry.format(topic, value))
        if not refused:
            load([tmp_path])
            continue
        with pytest.raises(InvalidArgument, match=r"^one\.yaml:4: max_producer_per_topic is 10, and a constraint .* allows at most 9"):
            load([tmp_path])


def test_what_breaks_a_constraint_is_told_with_units_and_with_the_pattern() -> None:
    fields = (
        "{retention_policies.retention_size_in_mb: {max: 10G}, message_ttl_in_seconds: {min: 1h}, replication_clusters: {allowed: [a]}}"
    )
    size, time, clusters = parse(f"version: 1\nconstraints:\n  - {{pattern: public/a/*, fields: {fields}}}\n", "file.yaml").constraints
    this = "a constraint of the declared policies, for persistent://public/a/*,"
    assert size.problem(20_480) == (
        f"retention_policies.retention_size_in_mb is 20G, and {this} allows at most 10G: give no more than that."
    )
    assert time.problem(60) == f"message_ttl_in_seconds is 1m, and {this} wants at least 1h: give no less than that."
    assert clusters.problem(["a", "b"]) == f"replication_clusters: b is not allowed by {this.rstrip(',')}; allowed: a."
