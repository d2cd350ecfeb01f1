"""Heads: what callers and watchers are shown of a policy key, and the event that made it."""

from __future__ import annotations

from typing import NamedTuple

from ..names import PolicyKey
from ..policies import documents
from ..policies.documents import Settings
from ..policies.events import Event, Placed, Position


class Before(NamedTuple):
    """The state of a key before a change."""

    document: Settings | None
    """None: there was no document."""


class Head:
    """A head, and the event that made it. Immutable, but for cached values and ``before``."""

    __slots__ = (
        "before",
        "document",
        "encoded",
        "key",
        "number",
        "partition",
        "placed",
        "previous",
        "size",
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
        self.placed = placed
        """The event that made this head; None for an absence of which there is no event."""
        self.size = 0 if document is None else documents.size(document)
        """The size of the document's settings in bytes; 0 if there is no document."""
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
    def event(self) -> Event | None:
        """The decoded event that made this head; None for an absence of which there is no event."""
        return self.placed.event if self.placed is not None else None

    @property
    def position(self) -> Position:
        """The position of the event that made this head; of an absence without an event, where the view stood that found it."""
        return self.placed.position if self.placed is not None else self.version

    def forget_before(self) -> None:
        """Drops the document before this one: heads are kept for long."""
        self.before = self.with_before = None
