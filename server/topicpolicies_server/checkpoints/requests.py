"""The requests that a view remembers, as they are stored in the file: several in each row, so that no row holds the interpreter for long.

A row has each request as the view keeps it (``core/fold/recent``), in two texts, which are parsed only when a request is looked up.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

from ..core.fold.recent import Texts

A_ROW = 256
"""The most requests in a row: about a millisecond of JSON, in which no other thread runs."""
Requests: TypeAlias = Sequence[Texts]
"""Requests, the oldest first."""


class RequestRow(NamedTuple):
    """A row of requests."""

    number: int
    requests: Requests


class Rows:
    """The rows of requests that the file has: their numbers, and how many requests are in each. None is empty."""

    def __init__(self, rows: Iterable[tuple[int, int]] = ()) -> None:
        """``rows``: the number and size of each row that is there, the oldest first."""
        self._rows = deque(rows)
        self._next = self._rows[-1][0] + 1 if self._rows else 1
        self._count = sum(count for _, count in self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, requests: Requests) -> list[RequestRow]:
        """Returns the rows of further requests, which come behind the present ones, and counts them as present."""
        added = []
        for at in range(0, len(requests), A_ROW):
            some = requests[at : at + A_ROW]
            added.append(RequestRow(self._next, some))
            self._rows.append((self._next, len(some)))
            self._count += len(some)
            self._next += 1
        return added

    def first(self, most: int) -> int:
        """Returns the number of the first row that is still needed; a view would remember no request of the rows before it.

        Args:
            most: how many requests a view remembers.
        """
        rows = self._rows
        while len(rows) > 1 and self._count - rows[0][1] >= most:
            self._count -= rows.popleft()[1]
        return rows[0][0] if rows else self._next

    def take_back(self, added: Sequence[RequestRow]) -> None:
        """Removes the last rows again, because they were not written."""
        while added and self._rows and self._rows[-1][0] >= added[0].number:
            self._count -= self._rows.pop()[1]

    def clear(self) -> None:
        """Removes all rows."""
        self._rows.clear()
        self._count = 0


def to_bytes(requests: Requests) -> bytes:
    """Returns requests as they are stored in a row."""
    return json.dumps(requests, separators=(",", ":")).encode("ascii")


def from_bytes(data: bytes) -> Requests:
    """Reads the requests of a row.

    Raises:
        ValueError, TypeError: the row has no requests.
    """
    found: Requests = json.loads(data)
    if not set(map(type, chain.from_iterable(found))) <= {str}:
        raise ValueError("a request is not two texts")
    return found
