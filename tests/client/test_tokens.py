"""Tokens are read back as they were saved, and folding a position never moves a token back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import topicpolicies as tp

tokens = st.builds(tp.WatchToken, st.text(), st.lists(st.text(), max_size=4).map(tuple), st.text())


@given(st.dictionaries(st.text(), tokens, max_size=4))
def test_a_saved_token_is_read_back(namespaces: dict[str, tp.WatchToken]) -> None:
    token = tp.ResumeToken(namespaces)
    saved = token.dumps()
    assert "\n" not in saved
    assert tp.ResumeToken.loads(saved) == token


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        "null",
        '{"namespaces":[]}',
        '{"namespaces":{"a/b":{}}}',
        '{"namespaces":{"a/b":{"log":"x","positions":[]}}}',
        '{"namespaces":{"a/b":{"log":1,"positions":[],"left_out":""}}}',
        '{"namespaces":{"a/b":{"log":"x","positions":[1],"left_out":""}}}',
        '{"namespaces":{"a/b":{"log":"x","positions":null,"left_out":""}}}',
        '{"namespaces":{"a/b":{"log":"x","positions":[],"left_out":1}}}',
        "[" * 100_000,
    ],
)
def test_a_text_that_is_not_a_token_is_refused(text: str) -> None:
    with pytest.raises(tp.InvalidArgument) as caught:
        tp.ResumeToken.loads(text)
    assert caught.value.reason == "MALFORMED_TOKEN"


@given(tokens, st.integers(0, 6), st.text())
def test_folding_keeps_the_greater_position_and_changes_no_other_partition(token: tp.WatchToken, partition: int, position: str) -> None:
    folded = token.folded(partition, position)
    assert (folded.log, folded.left_out) == (token.log, token.left_out)
    assert folded.at(partition) == max(position, token.at(partition))
    assert all(folded.at(other) == token.at(other) for other in range(8) if other != partition)
    assert folded.folded(partition, position) == folded


@given(tokens)
def test_a_token_is_read_back_from_its_message(token: tp.WatchToken) -> None:
    assert tp.WatchToken.of(token.message()) == token
