"""Positions of rows sort as the row numbers do, and show which rows are adjacent; the properties of a row are JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicpolicies_server.core.policies.events import ABSENT
from topicpolicies_server.logs.sqlite.file import directly_follows, position_of, row_of, text_of

ROWS = st.integers(min_value=1, max_value=16**15 - 1)


@given(ROWS, ROWS)
def test_positions_as_plain_strings_sort_as_their_rows(a: int, b: int) -> None:
    assert (position_of(a) < position_of(b)) == (a < b)
    assert (position_of(a) == position_of(b)) == (a == b)


@given(ROWS)
def test_a_position_is_parsed_back_to_its_row_and_sorts_after_the_version_of_no_document(row: int) -> None:
    assert row_of(position_of(row)) == row
    assert position_of(row) > ABSENT


@given(ROWS, ROWS)
def test_only_the_next_row_directly_follows(a: int, b: int) -> None:
    assert directly_follows(position_of(a), position_of(b)) == (b == a + 1)


def test_only_the_first_row_directly_follows_the_beginning() -> None:
    assert directly_follows("", position_of(1))
    assert not directly_follows("", position_of(2))


@pytest.mark.parametrize("text", ["0", "10", "2f", "212345", "x", "1x", "101", "2 1", "11_"])
def test_a_text_that_is_not_a_position_is_refused_and_follows_nothing(text: str) -> None:
    with pytest.raises(ValueError, match=r"row|invalid"):
        row_of(text)
    assert not directly_follows(text, position_of(1))
    assert not directly_follows("", text)


@given(st.dictionaries(st.text(), st.text() | st.text(st.sampled_from('a"\\\n\x1f\x7f'))))
def test_properties_are_written_as_compact_json(properties: dict[str, str]) -> None:
    assert text_of(properties) == json.dumps(properties, ensure_ascii=False, separators=(",", ":"))
