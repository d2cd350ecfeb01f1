"""Row positions sort as their numbers do, and tell neighbours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicpolicies_server.core.policies.events import ABSENT
from topicpolicies_server.logs.rows import MAX_ROW, directly_follows, position_of, row_of

ROWS = st.integers(min_value=1, max_value=MAX_ROW)


@given(ROWS, ROWS)
def test_plain_string_order_is_row_order(a: int, b: int) -> None:
    assert (position_of(a) < position_of(b)) == (a < b)
    assert (position_of(a) == position_of(b)) == (a == b)


@given(ROWS)
def test_a_position_reads_back_and_is_after_the_version_of_no_document(row: int) -> None:
    assert row_of(position_of(row)) == row
    assert position_of(row) > ABSENT


@given(ROWS, ROWS)
def test_only_the_next_row_follows(a: int, b: int) -> None:
    assert directly_follows(position_of(a), position_of(b)) == (b == a + 1)


def test_the_first_row_follows_the_beginning() -> None:
    assert directly_follows("", position_of(1))
    assert not directly_follows("", position_of(2))


@pytest.mark.parametrize("text", ["0", "10", "2f", "212345", "x", "1x", "101", "2 1", "11_"])
def test_what_is_no_position_is_refused_and_follows_nothing(text: str) -> None:
    with pytest.raises(ValueError, match=r"row|invalid"):
        row_of(text)
    assert not directly_follows(text, position_of(1))
    assert not directly_follows("", text)
