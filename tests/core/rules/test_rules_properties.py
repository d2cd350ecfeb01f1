"""Properties of the rules for random documents, changes and known facts."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

from tests.core.policies import documents, heads, masks, policies
from tests.core.rules.examples import FACTS, TOPIC, judged
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.changes.change import Change, compile_change
from topicpolicies_server.core.changes.rules import RULES, needs
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import Document, digest, family, join
from topicpolicies_server.core.policies.facts import UNKNOWN, Facts, Need

KEYS = st.sampled_from([PolicyKey(TOPIC, scope) for scope in Scope])
MASKS: st.SearchStrategy[list[str]] = masks() | st.just(["*"])
KNOWN = st.sampled_from([None, UNKNOWN, FACTS, FACTS._replace(cluster=""), FACTS._replace(namespace=None), FACTS._replace(broker=None)])


@st.composite
def changes(draw: st.DrawFn, before: Document | None) -> Change:
    """Draws a change that applies to a document."""
    source = draw(policies())
    change = compile_change(source, draw(MASKS), {})
    return compile_change(source, ["*"], {}) if change.applied(before).violations else change


@given(st.data(), heads(), KEYS, KNOWN)
def test_every_violation_names_a_field_that_the_change_alters(
    data: st.DataObject, before: Document | None, key: PolicyKey, facts: Facts | None
) -> None:
    change = data.draw(changes(before))
    found = judged(change, before, facts, key).found
    event("refused" if found else "taken")
    altered = set(map(family, change.applied(before).changed))
    for rule, violation in found:
        assert rule.field in altered
        assert violation.field.startswith(f"policies.{rule.field}")
        assert violation.description.endswith(".")


@given(documents(), KEYS, KNOWN, masks())
def test_reading_and_writing_back_is_never_refused(document: Document, key: PolicyKey, facts: Facts | None, paths: list[str]) -> None:
    assert not judged(compile_change(join(document), paths, {}), document, facts, key).found


@given(documents(), KEYS, KNOWN)
def test_clearing_everything_is_never_refused_where_brokers_have_no_default_quota(
    document: Document, key: PolicyKey, facts: Facts | None
) -> None:
    assert not judged(compile_change(TopicPolicies(), ["*"], {}), document, facts, key).found


@given(st.data(), heads(), KEYS)
def test_missing_facts_add_no_violations_except_for_an_unknown_local_cluster(
    data: st.DataObject, before: Document | None, key: PolicyKey
) -> None:
    change = data.draw(changes(before))
    reasons = [{rule.reason for rule, _ in judged(change, before, facts, key).found} for facts in (UNKNOWN, FACTS)]
    assert reasons[0] - {"LOCAL_CLUSTER_UNKNOWN"} <= reasons[1]


@given(st.data(), heads(), KEYS)
def test_the_facts_that_a_violated_rule_needs_are_among_those_requested_for_the_change(
    data: st.DataObject, before: Document | None, key: PolicyKey
) -> None:
    change = data.draw(changes(before))
    for rule, _ in judged(change, before, FACTS, key).found:
        assert rule in RULES
        assert rule.needs & needs(change.plan) == rule.needs or rule.needs is Need.NOTHING


@given(st.data(), heads(), KEYS)
def test_the_settings_that_a_change_reads_have_the_digests_from_before_the_change(
    data: st.DataObject, before: Document | None, key: PolicyKey
) -> None:
    change = data.draw(changes(before))
    relied = judged(change, before, FACTS, key).reads
    assert relied == {setting: digest((before or {}).get(setting)) for setting in relied}
    if any(family(setting) == "back_log_quota_map" for setting in change.applied(before).changed):
        assert "retention_policies" in relied
