"""Who is told of what a follower reads: whoever serves with it, and whoever writes it down."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ..core.fold.fold import Folded
from ..core.policies.documents import Settings
from ..core.policies.events import Event, Placed, Position
from ..core.reading.view import Head
from ..logs.change_log import LogError, NamespaceLog

if TYPE_CHECKING:
    from .follower import Follower


class Owner(Protocol):
    """Whoever follows a log through a follower."""

    def computed_on(self, event: Event) -> Settings | None:
        """From which document an event was computed, if this process did that and waits for it (``core/fold/fold``); else None."""

    def acknowledged(self, events: Sequence[Placed]) -> Sequence[Placed]:
        """The log has acknowledged events of ours, which may not count yet; returns them."""

    def taken(self, follower: Follower, placed: Placed, folded: Folded | None, change: Head | None, before: Head | None) -> None:
        """An event was folded into the follower's view, and changed the head ``before`` to ``change`` (None: not)."""

    def folded_late(self, follower: Follower, topic: str, unreadable: int) -> None:
        """What was kept of a topic is folded; so many of its entries could not be read."""

    def moved(self, follower: Follower) -> None:
        """The view has come further; called after the ``taken`` of one report."""

    def loaded(self, follower: Follower) -> None:
        """What was in the log when it was opened has been folded."""

    def append_failed(self, follower: Follower, event: Event, error: LogError) -> None:
        """An event of ours was not acknowledged."""

    def lost(self, follower: Follower, error: LogError) -> None:
        """The log can't be followed any more."""

    def led(self, follower: Follower) -> None:
        """Who may append may have changed."""

    def grown(self, follower: Follower) -> None:
        """The view keeps more than before, or less."""

    def refused(self, follower: Follower, error: LogError) -> None:
        """There is no room for what is being loaded."""

    def missed(self, error: LogError) -> None:
        """A try to load it has failed."""


class Recorder(Protocol):
    """Whoever writes down what was folded (``history.Scribe``). The methods must return soon and must not raise."""

    def knows(self, identity: str, positions: Sequence[Position]) -> bool:
        """Whether all events up to some positions of a log, by partition, are written down."""

    def opened(self, log: NamespaceLog) -> None:
        """The log is open; nothing of it was folded yet."""

    def noted(self, events: Sequence[Taken]) -> None:
        """Events were folded."""

    def caught_up(self) -> None:
        """What was in the log when it was opened has been folded."""

    def closed(self) -> None:
        """The log is not followed any more."""


Taken: TypeAlias = tuple[Placed, Head | None, Folded | None, Head | None]
"""An event that was folded, the head before it, what it did, and the head after it; None for a head: the log knew no event of the key."""
Record: TypeAlias = Callable[[str], Awaitable[Recorder | None]]
"""Gives a recorder for one opening of the named namespace's log; None if it can't be recorded now."""
