"""Numbers as Protobuf writes them: every one of 64 bits comes back, and what is none is told, however long it is."""

from __future__ import annotations

import pytest

from topicpolicies_server.core.policies.documents import read_varint, varint


@pytest.mark.parametrize("number", [0, 1, 127, 128, 0x3FFF, 0x4000, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_a_number_comes_back_with_its_end(number: int) -> None:
    data = b"before" + varint(number) + b"behind"
    assert read_varint(data, 6) == (number, len(data) - 6)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x80", b"\x80" * 9, b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\x01", b"\xff" * 1_000_000 + b"\x01"],
    ids=["nothing", "one byte", "nine bytes", "65 bits", "eleven bytes", "a million bytes"],
)
def test_what_is_no_number_of_64_bits_is_told_as_such(data: bytes) -> None:
    with pytest.raises(IndexError):
        read_varint(data, 0)
