"""What is on its way into the file, and who hears what becomes of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from ...core.policies.events import Event, Placed


class Appender(Protocol):
    """Who appended, and hears what became of it. The methods are called on the loop's thread, in the order of the log."""

    def committed(self, placed: Sequence[Placed], size: int) -> None:
        """The next of its events are durable, at these places, in rows of so many bytes together, roughly."""

    def refused(self, count: int, error: sqlite3.Error) -> None:
        """The next so many of its events certainly are not in the file."""


class Space:
    """A namespace of the file, as far as the writer is concerned."""

    __slots__ = ("id", "last", "name")

    def __init__(self, name: str, namespace_id: int = 0, last: int = 0) -> None:
        self.name = name
        self.id = namespace_id
        """0: the file does not know it yet."""
        self.last = last
        """The highest row number that was given away."""


class NewRow(NamedTuple):
    """An event on its way into the file, as a row."""

    appender: Appender
    space: Space
    event: Event
    key: str
    properties: str
    """As JSON, without the requests that the event carries (``slim``)."""
    payload: bytes | None
    size: int
    """Bytes of what waits here, roughly."""


class Committed:
    """What is durable of an appender's events."""

    __slots__ = ("placed", "size")

    def __init__(self) -> None:
        """Nothing yet."""
        self.placed: list[Placed] = []
        self.size = 0
        """Bytes of their rows, roughly."""


def acknowledge(committed: Mapping[Appender, Committed]) -> None:
    """Tells each what is durable of its events."""
    for appender, mine in committed.items():
        appender.committed(mine.placed, mine.size)


def refuse(counts: Mapping[Appender, int], error: sqlite3.Error) -> None:
    """Tells each how many of its events are not in the file."""
    for appender, count in counts.items():
        appender.refused(count, error)
