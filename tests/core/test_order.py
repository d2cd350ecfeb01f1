"""``Order`` keeps keys sorted while keys are added and removed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from topicpolicies_server.core.reading.orders import Order


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
    assert list(keys.after(None)) == [key(number) for number in sorted(expected)]
    assert list(keys.after(key(start))) == [key(number) for number in sorted(expected) if number > start]
    assert list(keys.after(key(start), including=True)) == [key(number) for number in sorted(expected) if number >= start]
