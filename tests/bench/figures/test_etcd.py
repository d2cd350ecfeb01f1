"""Puts have etcd's wire format, and carry as much as the updates with which they are compared."""

from __future__ import annotations

import pytest

from bench.figures.batches import like_the_changes_of
from bench.figures.etcd import put_request
from bench.framing import records
from bench.streaming import batches


def fields(message: bytes) -> list[tuple[int, bytes]]:
    """Returns the fields of a message that has only length-delimited fields."""
    return [(message[begin - len(_size(end - begin)) - 1] >> 3, message[begin:end]) for begin, end in records(message)]


def _size(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + _size(number >> 7)


@pytest.mark.parametrize("size", [0, 1, 127, 128, 300, 16_384, 3_000_000])
def test_a_put_has_its_key_in_field_1_and_its_value_in_field_2(size: int) -> None:
    assert fields(put_request(b"topic", b"x" * size)) == [(1, b"topic"), (2, b"x" * size)]
    assert fields(put_request(b"k" * size, b"v")) == [(1, b"k" * size), (2, b"v")]


def test_puts_carry_as_many_bytes_as_the_changes_that_they_are_compared_with() -> None:
    message = next(batches("acme/orders", 8, 64))
    keys, value = like_the_changes_of(message)
    assert len(keys) == 64 and len(set(keys)) == 8 and keys[0] == b"persistent://acme/orders/bench-0"
    puts = sum(len(put_request(key, b"x" * value)) for key in keys)
    assert 0.9 * len(message) < puts < 1.1 * len(message)
