"""``Order`` keeps keys sorted while keys are added and removed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from topicpolicies_server.core.reading.orders import MOST, Order


def key(number: int) -> str:
    return f"persistent://acme/orders/{number:05d}"


@given(st.lists(st.integers(0, 60)), st.integers(-1, 61))
def test_an_order_has_the_keys_of_a_sorted_set(toggled: list[int], start: int) -> None:
    keys, expected = Order(most=4), set[int]()
    for number in toggled:
        if number in expected:
            keys.remove(key(number))
            expected.remove(number)
        else:
            keys.add(key(number))
            expected.add(number)
    assert len(keys) == len(expected)
    assert list(keys.after(None)) == [key(number) for number in sorted(expected)]
    assert list(keys.after(key(start))) == [key(number) for number in sorted(expected) if number > start]
    assert list(keys.after(key(start), including=True)) == [key(number) for number in sorted(expected) if number >= start]


def test_keys_that_are_added_in_order_fill_their_blocks() -> None:
    keys = Order()
    for number in range(10_000):
        keys.add(key(number))
    assert len(keys._blocks) < 2 * 10_000 / MOST
    for number in range(10_000):
        keys.remove(key(number))
    assert len(keys._blocks) == len(keys) == 0 and list(keys.after(None)) == []


class Counted(str):
    """A key that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __lt__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__lt__(self, str(other))


def test_adding_and_finding_a_key_takes_a_few_binary_searches_among_many_keys() -> None:
    keys = Order()
    for number in range(0, 20_000, 2):
        keys.add(Counted(key(number)))
    added = [Counted(key(number)) for number in range(1, 101, 2)]
    Counted.compared = 0
    for each in added:
        keys.add(each)
        assert next(keys.after(each, including=True)) == each
    assert 50 < Counted.compared < 50 * 4 * 16
