"""What watchers notice when a view begins to answer: nothing but changes where the log is the same, and everything where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..config import Limits
from ..core.policies.events import Position
from ..core.reading.view import Head, View
from ..core.reading.watch import Token, WatchHub
from .follower import Follower


def next_hub(hub: WatchHub | None, older: Follower | None, follower: Follower, limits: Limits) -> WatchHub:
    """The watchers of a view that has been read.

    Args:
        hub: those of the view before; None: there was none.
        older: the opening before.
        follower: the opening whose view answers from now on.
        limits: how many changes are kept for those who fall behind.
    """
    log = follower.log
    assert log is not None, "open"
    identity = log.identity
    token = Token(identity, tuple(follower.positions))
    if hub is None or older is None:
        behind = known_behind(log, follower.view, token.positions)
        return WatchHub(follower.view, token, ring=limits.max_every_backlog_changes, horizon=behind)
    if follower.continues:
        hub.moved(token)
    elif hub.token.log == identity:
        follower.passed(hub.token.widened(log.partitions).positions)
        token = Token(identity, tuple(follower.positions))
        behind = known_behind(log, follower.view, token.positions)
        changes = follower.view.succeed(older.view, token.positions)
        hub.succeed(follower.view, token, changes if older.trusted else _with_untold(changes, hub.token, follower), behind)
    else:
        follower.view.supersede(older.view)
        hub.succeed(follower.view, token, ())
    return hub


def _with_untold(changes: Sequence[Head], told: Token, follower: Follower) -> list[Head]:
    """The changes since the view before, and what came behind the place that watchers were told of: that view may have had it already."""
    changed = {change.key for change in changes}
    view = follower.view
    found = [trace for trace in view.traces() if trace.key in changed or told.is_before(trace)]
    found.reverse()
    return list(view.traced(found))


class Log(Protocol):
    """What is asked of an opened log (``logs.change_log.NamespaceLog``)."""

    def complete_after(self, partition: int) -> Position | None:
        """Behind which position nothing was compacted away; None: it is not known."""


def known_behind(log: Log, view: View, positions: Sequence[Position]) -> tuple[Position, ...]:
    """Behind which positions a view tells of every key that has changed: nothing was compacted away there, nor is forgotten.

    Args:
        log: what it was read from.
        view: as it was read, before it succeeds another one.
        positions: where it stands.
    """

    def behind(partition: int, end: Position) -> Position:
        complete = log.complete_after(partition)
        return max(end if complete is None else min(complete, end), view.forgotten.get(partition, ""))

    return tuple(behind(partition, end) for partition, end in enumerate(positions))
