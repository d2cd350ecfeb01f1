"""Passes what a namespace's log reports on to its parts: watchers, requests, repairs, and waits for a version, in this order."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import Kind
from ..core.fold.fold import Folded
from ..core.policies.events import Event, Placed
from ..core.reading.view import Before, Head
from ..core.reading.watch import Token
from ..logs.change_log import LogError
from .common import Common
from .follower import Follower
from .life import Life, Serving
from .loading import Loader
from .repairs import Repairs
from .serving import next_hub
from .updates import Updates


class Reports:
    """The owner to which the followers of one namespace report (``listeners.Owner``)."""

    def __init__(self, name: str, common: Common, life: Life, loader: Loader, updates: Updates, repairs: Repairs) -> None:
        """Reports to these parts of the namespace ``name``."""
        self._name = name
        self._common = common
        self._life = life
        self._loader = loader
        self._updates = updates
        self._progress = updates.progress
        self._repairs = repairs

    def acknowledged(self, events: Sequence[Placed]) -> Sequence[Placed]:
        """Takes note of events of ours that the log has acknowledged, and which may not count yet. Returns them."""
        return self._common.activity.stages.acknowledged(events)

    def taken(self, follower: Follower, placed: Placed, folded: Folded | None, change: Head | None, before: Head | None) -> None:
        """Passes on an event that was folded."""
        activity, life = self._common.activity, self._life
        hub = life.hub
        if placed.problem:
            activity.unreadable += 1
        event = placed.event
        if event is None or folded is None:
            return
        old = before.document if before is not None else None
        if follower is not life.served:
            self._updates.read_ahead(follower, event, folded, old)
            if change is not None and follower.continues and hub is not None:
                hub.publish(change)
            return
        new = (change if change is not None else before) or None
        activity.folded(self._name, placed, folded, old, new.document if new is not None else None)
        activity.stages.folded(event)
        if change is not None:
            assert hub is not None, "it serves"
            change.before = Before(old) if change.previous else None
            hub.publish(change)
        self._updates.folded(event, folded, old)
        self._repairs.consider(event.key, follower.view.state(event.key), placed)

    def moved(self, follower: Follower) -> None:
        """Passes on how far the view has come."""
        goes_on = follower is self._life.served or (follower is self._life.reading and follower.continues)
        if self._life.hub is None or not goes_on:
            return
        assert follower.log is not None, "open"
        self._life.hub.moved(Token(follower.log.identity, tuple(follower.positions)))
        self._progress.moved(follower.positions)

    def loaded(self, follower: Follower) -> None:
        """Lets the view answer, if it may, once everything that was in the log at its opening has been read."""
        if not self._loader.may_serve(follower):
            return
        assert follower.log is not None, "open"
        anew = self._life.served is not None and not follower.continues
        older = self._life.served
        hub = next_hub(self._life.hub, older, follower, self._common.limits)
        self._life.serve(follower, hub)
        self._loader.served()
        hub.wake_all()
        self._progress.serve(follower.log, follower.positions, self._loader.opened_at)
        self._updates.serve(follower)
        self._repairs.serve(follower)
        self.grown(follower)
        if self._common.checkpoints is not None:
            self._common.checkpoints.keep(self._name, follower)
        if anew:
            self._common.activity.let_go()
        self._common.activity.loaded()

    def append_failed(self, follower: Follower, event: Event, error: LogError) -> None:
        """Passes on that an event of ours was not acknowledged."""
        self._common.activity.not_appended(event, error)
        if follower is self._life.served:
            self._updates.append_failed(event, error)
            self._repairs.append_failed(event, self._updates.state(event.key), error)

    def led(self, follower: Follower) -> None:
        """Passes on that the writer of the log may have changed."""
        if isinstance(self._life.state, Serving) and follower is self._life.state.follower:
            self._updates.led(follower)
            self._repairs.led(follower)

    def grown(self, follower: Follower) -> None:
        """Makes room for what the view that answers keeps. A view that is read beside it counts in addition until it answers itself."""
        if follower is self._life.served:
            self._common.capacity.relieve(self._name)

    def refused(self, follower: Follower, error: LogError) -> None:
        """Fails the attempt to load, for which there is no room."""
        self._loader.refused(follower, error)

    def lost(self, follower: Follower, error: LogError) -> None:
        """Stops what needs the log, which can't be followed any more and is opened anew."""
        if self._loader.lost(follower, error):
            self._common.activity.losses[error.reason] += 1
            self._progress.stop()
            self._repairs.pause()
            self._wake_watchers()

    def missed(self, error: LogError) -> None:
        """Answers the waiting requests with the error of an attempt to load that has failed."""
        self._common.activity.loads["failed"] += 1
        self._common.activity.load_failures[error.reason] += 1
        if error.kind is Kind.NOT_FOUND:  # the log is gone: what was in flight, or due, has no place in the log that comes next
            self._updates.abandon(error)
            self._repairs.close()
        self._updates.turn_away(error)
        self._wake_watchers()

    def _wake_watchers(self) -> None:
        if self._life.hub is not None:
            self._life.hub.wake_all()
