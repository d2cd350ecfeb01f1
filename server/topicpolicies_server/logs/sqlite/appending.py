"""Events on their way into the file, and the callbacks that report whether they were committed."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from ...core.policies.events import Event, Placed


class Appender(Protocol):
    """Appends events and is notified of their outcomes. The methods are called on the event loop's thread, in the order of the log."""

    def committed(self, placed: Sequence[Placed], size: int) -> None:
        """Called when the appender's next events are durable, with their positions and the total size of their rows (bytes, roughly)."""

    def refused(self, count: int, error: sqlite3.Error) -> None:
        """Called when the appender's next ``count`` events certainly are not in the file."""


class WriterNamespace:
    """A namespace of the file, as the writer sees it."""

    __slots__ = ("id", "last", "name")

    def __init__(self, name: str, namespace_id: int = 0, last: int = 0) -> None:
        self.name = name
        self.id = namespace_id
        """The namespace's id in the file; 0 if the file has no row for the namespace yet."""
        self.last = last
        """The highest row number that was assigned."""


class NewRow(NamedTuple):
    """An event that waits to be committed, as a row."""

    appender: Appender
    namespace: WriterNamespace
    event: Event
    key: str
    properties: str
    """The message's properties as JSON."""
    payload: bytes | None
    size: int
    """The row's size in memory: bytes, roughly."""


class Committed:
    """The events of one appender that a commit made durable."""

    __slots__ = ("placed", "size")

    def __init__(self) -> None:
        """Starts empty."""
        self.placed: list[Placed] = []
        self.size = 0
        """The total size of the events' rows: bytes, roughly."""


def acknowledge(committed: Mapping[Appender, Committed]) -> None:
    """Notifies each appender of its committed events."""
    for appender, mine in committed.items():
        appender.committed(mine.placed, mine.size)


def refuse(counts: Mapping[Appender, int], error: sqlite3.Error) -> None:
    """Notifies each appender of how many of its events are not in the file."""
    for appender, count in counts.items():
        appender.refused(count, error)
