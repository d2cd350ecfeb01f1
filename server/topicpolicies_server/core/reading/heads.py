"""What a view keeps of one policy key: its cell, and in it the head.

A cell is all there is of a key: the fold's state, and the head that was told last. Mostly it is frozen (``cells``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..fold.fold import KeyState
from ..names import PolicyKey
from ..policies import documents
from ..policies.documents import Settings
from ..policies.events import Event, Placed, Position


class Before(NamedTuple):
    """What was there before a change."""

    document: Settings | None
    """None: there was none."""


class Head:
    """A head, and the event that made it. Immutable but for the cached bytes."""

    __slots__ = (
        "__weakref__",
        "_late",
        "_placed",
        "_size",
        "before",
        "document",
        "encoded",
        "key",
        "number",
        "partition",
        "previous",
        "version",
        "with_before",
    )

    def __init__(
        self,
        key: PolicyKey,
        document: Settings | None,
        version: Position,
        previous: Position,
        placed: Placed | None,
        number: int,
        partition: int = 0,
    ) -> None:
        self.key = key
        self.document = document
        self.version = version
        self.previous = previous
        """The version before; "" for what was loaded."""
        self._placed = placed
        self._late: Callable[[], Placed] | None = None
        self._size: int | None = None
        self.number = number
        """Counts the changes of this view; 0 for what is not a change."""
        self.partition = partition if placed is None else placed.partition
        """In which partition it stands."""
        self.before: Before | None = None
        """The document before, as long as somebody may want it; None: it is not known (any more)."""
        self.encoded: bytes | None = None
        """What watchers are told, made once for all of them."""
        self.with_before: bytes | None = None
        """The same with the document before."""

    @property
    def placed(self) -> Placed | None:
        """The event that made it; None for an absence that no event tells of."""
        if self._late is not None:
            self._placed, self._late = self._late(), None
        return self._placed

    @placed.setter
    def placed(self, placed: Placed) -> None:
        self._placed, self._late = placed, None

    def placed_late(self, partition: int, placed: Callable[[], Placed]) -> None:
        """The event that made it is made when somebody asks for it. ``partition``: in which it stands."""
        self.partition, self._late = partition, placed

    @property
    def size(self) -> int:
        """Bytes of its document's settings; 0 if there is none."""
        size = self._size
        if size is None:
            size = self._size = 0 if self.document is None else documents.size(self.document)
        return size

    @property
    def event(self) -> Event | None:
        """The event that made it."""
        return self.placed.event if self.placed is not None else None

    @property
    def place(self) -> Position:
        """Where it stands in its partition; of an absence that no event tells of, where the view stood that found it."""
        return self.placed.position if self.placed is not None else self.version

    @property
    def takes_back(self) -> bool:
        """Whether it puts right what was told under the same version, or a later one, so that whoever compares versions passes it over.

        To be asked as it comes. One absence is like another.
        """
        still_absent = self.document is None and self.before is not None and self.before.document is None
        return self.version <= self.previous and not still_absent

    def forget_before(self) -> None:
        """Lets go of the document before: heads stay for long."""
        self.before = self.with_before = None


class Cell:
    """One policy key of a view, while it is not frozen. Only the view changes it."""

    __slots__ = ("frozen", "head", "key", "lined_up", "name", "partition", "state", "touched", "touched_at")

    def __init__(self, key: PolicyKey, name: str, partition: int, state: KeyState) -> None:
        self.key = key
        self.name = name
        """The key in one text (``cells.name_of``)."""
        self.partition = partition
        """In which its last event stands: a log may get more partitions."""
        self.state = state
        """The fold's."""
        self.head: Head | None = None
        """None: no event of the key has made a head."""
        self.frozen: bytes | None = None
        """The same as bytes; None: it has changed since it was bytes."""
        self.lined_up = self.touched = 0
        """Which event was taken as it went to the end of the line, and as it was found last (``cells``)."""
        self.touched_at = 0
        """When its last event was published, in milliseconds since 1970."""

    @property
    def document(self) -> Settings | None:
        """The head's document; None if there is none."""
        return self.head.document if self.head is not None else None


def told_of(placed: Placed) -> Placed:
    """An event without what only folding it needed: whoever keeps its head keeps that for long."""
    event = placed.event
    if event is None or event.stamp is None or not event.stamp.remembered:
        return placed
    return placed._replace(event=event._replace(stamp=event.stamp._replace(remembered=())))
