"""Paths of masks as text, and that a mask between two messages names nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.policies import masks, policies
from topicpolicies.masks import Path, PathError, format_path, parse_path, paths_between
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.changes.masks import apply, read

SEGMENTS = st.text() | st.text(alphabet="a_.`*/ ") | st.from_regex(r"[a-z_]{1,8}", fullmatch=True)


@given(st.lists(SEGMENTS).map(tuple))
def test_every_path_is_parsed_back_from_its_text(path: Path) -> None:
    assert parse_path(format_path(path)) == path


@given(st.text(alphabet="a.`*") | st.text())
def test_any_text_is_parsed_to_a_path_or_raises_path_error(text: str) -> None:
    reason, path = "", None
    try:
        path = parse_path(text)
    except PathError as error:
        reason = error.reason
    if path is None:
        assert reason in {"EMPTY_SEGMENT", "MALFORMED_PATH", "WILDCARD_NOT_ALONE"}
    else:
        assert parse_path(format_path(path)) == path


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("subscription_policies.my-sub", ("subscription_policies", "my-sub")),
        ("subscription_policies.a/ü b", ("subscription_policies", "a/ü b")),
        ("`retention_policies`", ("retention_policies",)),
        ("subscription_policies.a*", ("subscription_policies", "a*")),
    ],
)
def test_optional_backticks_may_be_left_out_or_added(text: str, path: Path) -> None:
    assert parse_path(text) == path


@pytest.mark.parametrize("text", ["a.`b", "`", "a`b`", "`a`b", "`a``", "a.`b`c.d", "`a`.`"])
def test_unpaired_or_misplaced_backticks_are_malformed(text: str) -> None:
    with pytest.raises(PathError) as caught:
        parse_path(text)
    assert caught.value.reason == "MALFORMED_PATH"


@given(policies(), policies(), masks(wildcard=False))
def test_the_mask_between_two_documents_has_only_paths_of_changed_fields(
    before: TopicPolicies, source: TopicPolicies, changed: list[str]
) -> None:
    after = TopicPolicies()
    after.CopyFrom(before)
    apply(read(changed)[0], after, source)
    named = [parse_path(text) for text in changed]
    for text in paths_between(before, after):
        path = parse_path(text)
        assert any(path[: len(other)] == other or other[: len(path)] == path for other in named)
