"""Properties of random changes applied to random documents."""

from __future__ import annotations

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from tests.core.policies import documents, heads, masks, policies
from topicpolicies.masks import parse_path
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import ListOperation
from topicpolicies_server.core.changes import completion
from topicpolicies_server.core.changes import masks as field_masks
from topicpolicies_server.core.changes.change import Change, compile_change
from topicpolicies_server.core.changes.plan import touched_by
from topicpolicies_server.core.changes.rules import RULES
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.policies.documents import LISTS, Document, digest, join, merged, split

LIST_OPERATIONS = st.dictionaries(
    st.sampled_from(sorted(LISTS)), st.sampled_from([ListOperation.LIST_OPERATION_UNION, ListOperation.LIST_OPERATION_SUBTRACT])
)

RULE_REASONS = {rule.reason for rule in RULES}
"""The reasons of rules, whose violations are reported together with other errors."""


SOURCES = policies(complete=False, extras=True) | policies(extras=True)
MASKS: st.SearchStrategy[list[str]] = masks() | st.just([])


@st.composite
def changes(draw: st.DrawFn, *, lists: bool = True) -> Change:
    """Draws valid updates, compiled."""
    source = draw(SOURCES)
    paths = draw(MASKS)
    wanted = draw(LIST_OPERATIONS) if lists else {}
    operations = {name: number for name, number in wanted.items() if getattr(source, name) and (name in paths or not paths)}
    try:
        return compile_change(source, paths, operations)
    except PolicyError:
        assume(False)
        raise


def outcome(change: Change, head: Document | None) -> Document | str:
    """Returns the document after a change, or the reason of its refusal."""
    try:
        return change.apply(head)
    except PolicyError as error:
        return error.reason


@given(documents(extras=True), masks())
def test_reading_and_writing_back_with_the_same_mask_changes_nothing(document: Document, paths: list[str]) -> None:
    assert compile_change(join(document), paths, {}).apply(document) == document


@given(documents())
def test_writing_back_without_a_mask_changes_nothing(document: Document) -> None:
    assume(document)
    assert compile_change(join(document), [], {}).apply(document) == document


@given(changes(), heads(extras=True))
def test_applying_twice_is_applying_once(change: Change, head: Document | None) -> None:
    once = outcome(change, head)
    assume(not isinstance(once, str))
    assert not isinstance(once, str)
    assert change.apply(once) == once


@given(changes(), heads(extras=True))
def test_only_masked_settings_are_touched(change: Change, head: Document | None) -> None:
    after = outcome(change, head)
    assume(not isinstance(after, str))
    assert not isinstance(after, str)
    touched = set(touched_by(change.plan.paths, head, after))
    before = head or {}
    assert {name: value for name, value in after.items() if name not in touched} == {
        name: value for name, value in before.items() if name not in touched
    }
    if not change.plan.whole:
        assert touched == change.plan.settings | {name for name in {*before, *after} if name.partition("/")[0] in change.plan.families}


@given(changes(), heads(extras=True))
def test_applying_a_change_modifies_no_input_and_always_has_the_same_result(change: Change, head: Document | None) -> None:
    before = None if head is None else dict(head)
    first = outcome(change, head)
    assert head == before
    event(first if isinstance(first, str) else "applied")
    assert outcome(change, head) == first


@given(policies(complete=False, extras=True), MASKS)
def test_compiling_does_not_modify_the_request(source: TopicPolicies, paths: list[str]) -> None:
    before, asked = source.SerializeToString(deterministic=True), list(paths)
    try:
        compile_change(source, paths, {})
    except PolicyError as error:
        event(error.reason)
    assert source.SerializeToString(deterministic=True) == before
    assert paths == asked


@given(SOURCES, masks(), heads(extras=True))
@settings(max_examples=100)
def test_a_change_of_settings_has_the_result_of_its_mask_applied_to_the_message(
    source: TopicPolicies, paths: list[str], head: Document | None
) -> None:
    mask, _ = field_masks.read(paths)
    given_values = TopicPolicies()
    field_masks.apply(mask, given_values, source)
    problems = completion.check(given_values)
    message = join(head or {})
    field_masks.apply(mask, message, given_values)
    problems += completion.complete(message, mask)
    expected = split(message) | {name: value for name, value in (head or {}).items() if name.startswith("?")}

    result, blamed = None, set()
    try:
        result = compile_change(source, paths, {}).apply(head)
    except PolicyError as error:
        assert error.violations
        blamed = {violation.field for violation in error.violations if violation.reason not in RULE_REASONS}
    if result is None:
        event("refused")
        assert problems
        assert blamed <= {violation.field for violation in problems}
    else:
        event("applied")
        assert not problems
        assert result == expected


@given(changes(), heads(extras=True))
def test_the_fold_takes_over_from_the_document_exactly_what_the_change_did(change: Change, head: Document | None) -> None:
    after = outcome(change, head)
    assume(not isinstance(after, str))
    assert not isinstance(after, str)
    assert merged(head, after, touched_by(change.plan.paths, head, after)) == after


@given(changes(lists=False), heads(extras=True), heads(extras=True))
def test_a_change_computed_on_another_base_has_the_same_effect_if_the_settings_it_read_are_equal(
    change: Change, base: Document | None, head: Document | None
) -> None:
    computed, expected = outcome(change, base), outcome(change, head)
    same = all(digest((head or {}).get(setting)) == read for setting, read in change.applied(base).reads.items())
    assume(same and change.applied(base).reads.keys() == change.applied(head).reads.keys())
    event("partial" if change.partial else "whole")
    if isinstance(computed, str) or isinstance(expected, str):
        assert computed == expected
    else:
        assert merged(head, computed, touched_by(change.plan.paths, head, computed)) == expected


@given(changes())
def test_a_change_compiled_from_its_canonical_paths_is_the_same_change(change: Change) -> None:
    paths = [parse_path(text) for text in change.plan.paths]
    assert paths == sorted(set(paths))
    assert not any(one != other and one == other[: len(one)] for one in paths for other in paths)
    again = compile_change(change.given, change.plan.paths, {})
    assert again.plan.paths == change.plan.paths
    assert (again.plan.settings, again.partial, again.plan.families, again.plan.whole) == (
        change.plan.settings,
        change.partial,
        change.plan.families,
        change.plan.whole,
    )
