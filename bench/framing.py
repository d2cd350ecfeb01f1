"""Messages that are nothing but records of one repeated field, taken apart without being parsed."""

from __future__ import annotations

from collections.abc import Iterator


def records(message: bytes) -> Iterator[tuple[int, int]]:
    """Where the content of each record begins and ends."""
    at, end = 0, len(message)
    while at < end:
        size, shift = message[at + 1], 7
        at += 2  # the tag, and the first part of the size
        while size >= 1 << shift:  # its highest bit says that another part follows
            size += (message[at] - 1) << shift
            shift += 7
            at += 1
        yield at, at + size
        at += size
