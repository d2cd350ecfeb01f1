"""Positions of message ids sort as the log does, and are adjacent only if the ids prove it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicpolicies_server.core.policies.events import ABSENT
from topicpolicies_server.logs.pulsar.ids import MAX_NUMBER, MessageId, border_of, directly_follows, message_id_of, position_of

NUMBERS = st.one_of(st.integers(0, 1_200), st.integers(0, MAX_NUMBER))
IDS = st.builds(MessageId, NUMBERS, NUMBERS, st.one_of(st.just(-1), st.integers(0, 1_200)))


@given(IDS, IDS)
def test_positions_as_plain_strings_sort_as_their_ids(a: MessageId, b: MessageId) -> None:
    assert (position_of(a) < position_of(b)) == (a < b)
    assert (position_of(a) == position_of(b)) == (a == b)


@given(IDS)
def test_a_position_is_parsed_back_to_its_id_and_sorts_after_the_version_of_no_document(message: MessageId) -> None:
    assert message_id_of(position_of(message)) == message
    assert position_of(message) > ABSENT


@given(IDS, IDS)
def test_a_position_that_directly_follows_is_later_and_in_the_same_ledger(a: MessageId, b: MessageId) -> None:
    if directly_follows(position_of(a), position_of(b)):
        assert a < b
        assert a.ledger == b.ledger
        assert b.entry - a.entry in (0, 1)


@pytest.mark.parametrize(
    ("earlier", "later", "proven"),
    [
        ((7, 0, -1), (7, 1, -1), True),
        ((7, 9, -1), (7, 10, -1), True),
        ((7, 0, -1), (7, 1, 0), True),
        ((7, 0, -1), (7, 1, 1), False),
        ((7, 0, -1), (7, 2, -1), False),
        ((7, 0, -1), (7, 0, -1), False),
        ((7, 1, -1), (7, 0, -1), False),
        ((7, 0, -1), (8, 0, -1), False),
        ((7, 0, 0), (7, 0, 1), True),
        ((7, 0, 0), (7, 0, 2), False),
        ((7, 0, 4), (7, 1, -1), False),
        ((7, 0, 4), (7, 1, 0), False),
    ],
)
def test_a_position_directly_follows_only_if_the_ids_prove_it(
    earlier: tuple[int, int, int], later: tuple[int, int, int], proven: bool
) -> None:
    assert directly_follows(position_of(MessageId(*earlier)), position_of(MessageId(*later))) is proven


@given(IDS, IDS)
def test_a_ledgers_border_sorts_between_earlier_ledgers_and_its_own_entries(a: MessageId, b: MessageId) -> None:
    border = border_of(MessageId(b.ledger, -1))
    assert (position_of(a) > border) == (a.ledger >= b.ledger)
    assert border_of(a) == position_of(a)


@pytest.mark.parametrize(
    "text",
    ["", "0", "x", "b31", "b31a", "a31a3", "b31a3b1", "b31a3a1x", "b31a-1", "b01a3", "b31 a3", "s9999999999999999999a0"],
)
def test_a_text_that_is_not_a_position_is_refused_and_follows_nothing(text: str) -> None:
    with pytest.raises(ValueError, match="position"):
        message_id_of(text)
    assert not directly_follows(text, position_of(MessageId(7, 1)))
    assert not directly_follows(position_of(MessageId(7, 0)), text)


@pytest.mark.parametrize("message", [MessageId(-1, -1), MessageId(7, -1), MessageId(MAX_NUMBER + 1, 0), MessageId(7, 0, -2)])
def test_ids_that_are_not_of_a_message_have_no_position(message: MessageId) -> None:
    with pytest.raises(ValueError, match="not the place"):
        position_of(message)
