"""Splits messages that consist only of records of one repeated field, without parsing them."""

from __future__ import annotations

from collections.abc import Iterator


def records(message: bytes) -> Iterator[tuple[int, int]]:
    """Yields the start and the end of the content of each record."""
    at, end = 0, len(message)
    while at < end:
        size, shift = message[at + 1], 7
        at += 2  # behind the tag and the first byte of the size
        while size >= 1 << shift:  # the highest bit says that another byte follows
            size += (message[at] - 1) << shift
            shift += 7
            at += 1
        yield at, at + size
        at += size
