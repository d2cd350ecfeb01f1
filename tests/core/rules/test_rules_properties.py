"""Properties of the rules for random documents, changes and known facts."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

from tests.core.policies import documents, heads, masks, policies
from tests.core.rules.examples import FACTS, TOPIC
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.changes.change import Change, compile_change
from topicpolicies_server.core.changes.rules import RULES, changed_settings, judge, needs, reads
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import Settings, digest, family, join
from topicpolicies_server.core.policies.facts import UNKNOWN, Facts, Need

KEYS = st.sampled_from([PolicyKey(TOPIC, scope) for scope in Scope])
MASKS: st.SearchStrategy[list[str]] = masks() | st.just(["*"])
KNOWN = st.sampled_from([None, UNKNOWN, FACTS, FACTS._replace(cluster=""), FACTS._replace(namespace=None), FACTS._replace(broker=None)])


@st.composite
def changes(draw: st.DrawFn, before: Settings | None) -> tuple[Change, Settings]:
    """Draws a change that applies to a document, and the document after it."""
    source = draw(policies())
    change = compile_change(source, draw(MASKS), {})
    try:
        return change, change.apply(before)
    except PolicyError:
        whole = compile_change(source, ["*"], {})
        return whole, whole.apply(before)


@given(st.data(), heads(), KEYS, KNOWN)
def test_every_violation_names_a_field_that_the_change_alters(
    data: st.DataObject, before: Settings | None, key: PolicyKey, facts: Facts | None
) -> None:
    change, after = data.draw(changes(before))
    found = judge(key, change.plan, before, after, facts)
    event("refused" if found else "taken")
    altered = {family(setting) for setting in changed_settings(change.plan, before, after)}
    for rule, violation in found:
        assert rule.field in altered
        assert violation.field.startswith(f"policies.{rule.field}")
        assert violation.description.endswith(".")


@given(documents(), KEYS, KNOWN, masks())
def test_reading_and_writing_back_is_never_refused(document: Settings, key: PolicyKey, facts: Facts | None, paths: list[str]) -> None:
    change = compile_change(join(document), paths, {})
    assert not judge(key, change.plan, document, change.apply(document), facts)


@given(documents(), KEYS, KNOWN)
def test_clearing_everything_is_never_refused_where_brokers_have_no_default_quota(
    document: Settings, key: PolicyKey, facts: Facts | None
) -> None:
    change = compile_change(TopicPolicies(), ["*"], {})
    assert not judge(key, change.plan, document, change.apply(document), facts)


@given(st.data(), heads(), KEYS)
def test_missing_facts_add_no_violations_except_for_an_unknown_local_cluster(
    data: st.DataObject, before: Settings | None, key: PolicyKey
) -> None:
    change, after = data.draw(changes(before))
    reasons = [{rule.reason for rule, _ in judge(key, change.plan, before, after, facts)} for facts in (UNKNOWN, FACTS)]
    assert reasons[0] - {"LOCAL_CLUSTER_UNKNOWN"} <= reasons[1]


@given(st.data(), heads(), KEYS)
def test_the_facts_that_a_violated_rule_needs_are_among_those_requested_for_the_change(
    data: st.DataObject, before: Settings | None, key: PolicyKey
) -> None:
    change, after = data.draw(changes(before))
    for rule, _ in judge(key, change.plan, before, after, FACTS):
        assert rule in RULES
        assert rule.needs & needs(change.plan) == rule.needs or rule.needs is Need.NOTHING


@given(st.data(), heads(), KEYS)
def test_the_settings_that_a_change_reads_have_the_digests_from_before_the_change(
    data: st.DataObject, before: Settings | None, key: PolicyKey
) -> None:
    change, after = data.draw(changes(before))
    relied = reads(key, change.plan, change.operands, before, after)
    assert relied == {setting: digest((before or {}).get(setting)) for setting in relied}
    if any(family(setting) == "back_log_quota_map" for setting in changed_settings(change.plan, before, after)):
        assert "retention_policies" in relied
