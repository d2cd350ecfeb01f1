"""The interfaces to which a follower reports: its owner, which serves the view, and the recorder, which writes down what was folded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar

from ..core.fold.fold import Folded
from ..core.policies.events import Event, Placed, Position
from ..core.reading.view import Head
from ..logs.change_log import LogError, NamespaceLog

FollowerT_contra = TypeVar("FollowerT_contra", contravariant=True)


class Owner(Protocol[FollowerT_contra]):
    """The part of a namespace that follows its log through a follower of this type (``reports``)."""

    def acknowledged(self, events: Sequence[Placed]) -> Sequence[Placed]:
        """Takes note of events of ours that the log has acknowledged, and which may not count yet. Returns them."""

    def taken(self, follower: FollowerT_contra, placed: Placed, folded: Folded | None, change: Head | None, before: Head | None) -> None:
        """Reports an event that was folded into the view: it changed the head from ``before`` to ``change`` (None: it did not)."""

    def moved(self, follower: FollowerT_contra) -> None:
        """Reports that the view has moved on; called after the ``taken`` of one batch."""

    def loaded(self, follower: FollowerT_contra) -> None:
        """Reports that everything that was in the log when it was opened has been read."""

    def append_failed(self, follower: FollowerT_contra, event: Event, error: LogError) -> None:
        """Reports that an event of ours was not acknowledged."""

    def lost(self, follower: FollowerT_contra, error: LogError) -> None:
        """Reports that the log can't be followed any more."""

    def led(self, follower: FollowerT_contra) -> None:
        """Reports that the writer of the log may have changed."""

    def grown(self, follower: FollowerT_contra) -> None:
        """Reports that the view keeps more in memory than before, or less."""

    def refused(self, follower: FollowerT_contra, error: LogError) -> None:
        """Reports that there is no room in memory for what is being loaded."""

    def missed(self, error: LogError) -> None:
        """Reports that an attempt to load the namespace has failed."""


class Recorder(Protocol):
    """Writes down what was folded (``history.Recorder``). The methods must return soon and must not raise."""

    def knows(self, identity: str, positions: Sequence[Position]) -> bool:
        """Returns whether all events of a log up to these positions, by partition, are written down."""

    def opened(self, log: NamespaceLog) -> None:
        """Notes that the log is open; nothing of it has been folded yet."""

    def noted(self, events: Sequence[Taken]) -> None:
        """Writes down events that were folded."""

    def caught_up(self) -> None:
        """Notes that everything that was in the log when it was opened has been folded."""

    def closed(self) -> None:
        """Notes that the log is not followed any more."""


Taken: TypeAlias = tuple[Placed, Head | None, Folded | None, Head | None]
"""A log entry, the head before it, what it did, and the head after it; a head is None if the log knew no event of the key."""
Record: TypeAlias = Callable[[str], Awaitable[Recorder | None]]
"""Makes a recorder for one opening of the named namespace's log; returns None if it can't be recorded now."""
