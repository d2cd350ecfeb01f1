"""What watchers notice when a view begins to answer: nothing but changes where the log is the same, and everything where it is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..config import Limits
from ..core.policies.events import Position
from ..core.reading.view import Head
from ..core.reading.watch import Token, WatchHub
from ..logs.change_log import NamespaceLog
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
        horizon = tuple(map(_complete_after(log), range(log.partitions), follower.positions))
        return WatchHub(follower.view, token, ring=limits.max_every_backlog_changes, horizon=horizon)
    if follower.continues:
        hub.moved(token)
    elif hub.token.log == identity:
        follower.passed(hub.token.widened(log.partitions).positions)
        token = Token(identity, tuple(follower.positions))
        changes = follower.view.succeed(older.view, token.positions)
        hub.succeed(follower.view, token, changes if older.trusted else _with_untold(changes, hub.token, follower))
    else:
        follower.view.supersede(older.view)
        hub.succeed(follower.view, token, ())
    return hub


def _with_untold(changes: Sequence[Head], told: Token, follower: Follower) -> list[Head]:
    """The changes since the view before, and what came behind the place that watchers were told of: that view may have had it already."""
    changed = {change.key for change in changes}
    return [head for head in follower.view.heads() if head.key in changed or told.is_before(head)]


def _complete_after(log: NamespaceLog) -> Callable[[int, Position], Position]:
    """Behind which position the heads tell everything that happened: nothing was compacted away there."""

    def position(partition: int, end: Position) -> Position:
        complete = log.complete_after(partition)
        return end if complete is None else min(complete, end)

    return position
