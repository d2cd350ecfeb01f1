"""Protobuf varints: every number of 64 bits is read back, and other bytes are refused, however long they are."""

from __future__ import annotations

import pytest

from topicpolicies_server.core.policies.documents import read_varint, varint


@pytest.mark.parametrize("number", [0, 1, 127, 128, 0x3FFF, 0x4000, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_a_varint_is_read_back_with_the_position_of_its_end(number: int) -> None:
    data = b"before" + varint(number) + b"behind"
    assert read_varint(data, 6) == (number, len(data) - 6)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x80", b"\x80" * 9, b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\x01", b"\xff" * 1_000_000 + b"\x01"],
    ids=["nothing", "one byte", "nine bytes", "65 bits", "eleven bytes", "a million bytes"],
)
def test_bytes_that_are_no_varint_of_64_bits_raise_index_error(data: bytes) -> None:
    with pytest.raises(IndexError):
        read_varint(data, 0)
