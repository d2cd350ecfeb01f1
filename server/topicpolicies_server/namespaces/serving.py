"""What watchers get when another view begins to answer: only the changes if the log is the same, everything if it is another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..config import Limits
from ..core.policies.events import Position
from ..core.reading.view import Head, View
from ..core.reading.watch import Token, WatchHub
from .follower import Follower


def next_hub(hub: WatchHub | None, older: Follower | None, follower: Follower, limits: Limits) -> WatchHub:
    """Returns the hub of a view that has been read: the former one, moved to that view, or a new one.

    Args:
        hub: the hub of the view before; None: there was none.
        older: the follower of the view before.
        follower: the follower whose view answers from now on.
        limits: among them, how many changes are kept for watchers that fall behind.
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
    """Returns the changes since the view before, and all behind the watchers' place: the view before may have had them already."""
    changed = {change.key for change in changes}
    view = follower.view
    found = [trace for trace in view.traces() if trace.key in changed or told.is_before(trace)]
    found.reverse()
    return view.traced(found)


class Log(Protocol):
    """An opened log (``logs.change_log.NamespaceLog``), as far as it is needed here."""

    def complete_after(self, partition: int) -> Position | None:
        """The position behind which nothing was compacted away; None: it is not known."""


def known_behind(log: Log, view: View, positions: Sequence[Position]) -> tuple[Position, ...]:
    """Returns the positions behind which a view knows of every key that has changed: nothing is compacted away or forgotten there.

    Args:
        log: the log from which the view was read.
        view: the view as it was read, before it succeeds another one.
        positions: where the view stands.
    """

    def behind(partition: int, end: Position) -> Position:
        complete = log.complete_after(partition)
        return max(end if complete is None else min(complete, end), view.forgotten.get(partition, ""))

    return tuple(behind(partition, end) for partition, end in enumerate(positions))
