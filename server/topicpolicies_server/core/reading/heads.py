"""What a view keeps of one policy key: a cell, with the fold's state of the key and its head.

The head in a cell is the last one that watchers were sent. Most cells are frozen (``cells``), and exist as objects only while in use.
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
    """The state of a key before a change."""

    document: Settings | None
    """None: there was no document."""


class Head:
    """A head, and the event that made it. Immutable, but for cached values, ``before``, and ``number`` where a view is renumbered."""

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
        """The version before this one; "" if unknown, as for the first event seen of a key whose log was compacted."""
        self._placed = placed
        self._late: Callable[[], Placed] | None = None
        self._size: int | None = None
        self.number = number
        """The number of the change that made this head: the view counts its changes. 0: no change made it."""
        self.partition = partition if placed is None else placed.partition
        """The partition of the event that made this head."""
        self.before: Before | None = None
        """The document before this one, as long as it may be needed; None: it is not known (any more)."""
        self.encoded: bytes | None = None
        """The change as watchers are sent it, serialized once for all of them."""
        self.with_before: bytes | None = None
        """The change as watchers are sent it that want the document before too."""

    @property
    def placed(self) -> Placed | None:
        """The event that made this head; None for an absence of which there is no event."""
        if self._late is not None:
            self._placed, self._late = self._late(), None
        return self._placed

    @placed.setter
    def placed(self, placed: Placed) -> None:
        self._placed, self._late = placed, None

    def placed_late(self, partition: int, placed: Callable[[], Placed]) -> None:
        """Sets a function that makes ``placed`` when it is first read. ``partition``: the event's."""
        self.partition, self._late = partition, placed

    @property
    def size(self) -> int:
        """The size of the document's settings in bytes; 0 if there is no document."""
        size = self._size
        if size is None:
            size = self._size = 0 if self.document is None else documents.size(self.document)
        return size

    @property
    def event(self) -> Event | None:
        """The decoded event that made this head; None for an absence of which there is no event."""
        return self.placed.event if self.placed is not None else None

    @property
    def place(self) -> Position:
        """The position of the event that made this head; of an absence without an event, where the view stood that found it."""
        return self.placed.position if self.placed is not None else self.version

    @property
    def is_correction(self) -> bool:
        """Whether this head corrects one that watchers were sent with the same version, or a greater one.

        A reader that compares versions would ignore the correction. To be read before ``forget_before``. A change from one absence to
        another corrects nothing.
        """
        still_absent = self.document is None and self.before is not None and self.before.document is None
        return self.version <= self.previous and not still_absent

    def forget_before(self) -> None:
        """Drops the document before this one: heads are kept for long."""
        self.before = self.with_before = None


class Cell:
    """One policy key of a view, while it is live (not frozen, see ``cells``). Only the view changes it."""

    __slots__ = ("frozen", "frozen_head", "head", "key", "lined_up", "name", "partition", "state", "touched", "touched_at")

    def __init__(self, key: PolicyKey, name: str, partition: int, state: KeyState) -> None:
        self.key = key
        self.name = name
        """The key as one string (``cells.name_of``)."""
        self.partition = partition
        """The partition of the key's last event, which may not be that of earlier events: a log may get more partitions."""
        self.state = state
        """The fold's state of the key."""
        self.head: Head | None = None
        """None: no event of the key has made a head."""
        self.frozen: bytes | None = None
        """This cell as bytes; None: it was never frozen, or may have changed since it was thawed."""
        self.frozen_head: bytes | None = None
        """This cell as it was frozen last, if it may have changed since, but not its head; for those who keep the head (``walk``)."""
        self.lined_up = self.touched = 0
        """The value of ``Cells``' event counter when the cell went to the end of the line, and when it was last found (``cells``)."""
        self.touched_at = 0
        """When the key's last event was published, in milliseconds since 1970."""

    @property
    def document(self) -> Settings | None:
        """The head's document; None if there is none."""
        return self.head.document if self.head is not None else None


def without_requests(placed: Placed) -> Placed:
    """Returns an event without the requests that its stamp carries: only the fold needs them, and heads are kept for long."""
    event = placed.event
    if event is None or event.stamp is None or not event.stamp.remembered:
        return placed
    return placed._replace(event=event._replace(stamp=event.stamp._replace(remembered=())))
