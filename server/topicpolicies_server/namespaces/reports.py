"""What a namespace's log reports, and who is told of it: watchers, requests, repairs, and those who wait for a version, in this order."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import Kind
from ..core.fold.fold import Folded
from ..core.names import PolicyKey, Scope
from ..core.policies.documents import Settings
from ..core.policies.events import Event, Placed
from ..core.reading.view import Before, Head
from ..core.reading.watch import Token
from ..logs.change_log import LogError
from .common import Common
from .follower import Follower
from .freshness import Freshness
from .life import Life, Serving
from .loading import Loader
from .restating import Restating
from .serving import next_hub
from .updates import Updates
from .waiting import Waiting


class Reports:
    """Whom the followers of one namespace report to (``follower.Owner``)."""

    def __init__(
        self,
        name: str,
        common: Common,
        life: Life,
        loader: Loader,
        updates: Updates,
        restating: Restating,
        freshness: Freshness,
        waiting: Waiting,
    ) -> None:
        """Tells these parts of the namespace ``name``."""
        self._name = name
        self._common = common
        self._life = life
        self._loader = loader
        self._updates = updates
        self._restating = restating
        self._freshness = freshness
        self._waiting = waiting

    def computed_on(self, event: Event) -> Settings | None:
        """From which document an event was computed, if this process did that."""
        return self._updates.computed_on(event)

    def acknowledged(self, events: Sequence[Placed]) -> Sequence[Placed]:
        """The log has acknowledged events of ours, which may not count yet; returns them."""
        return self._common.activity.stages.acknowledged(events)

    def taken(self, follower: Follower, placed: Placed, folded: Folded | None, change: Head | None, before: Head | None) -> None:
        """An event was folded."""
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
        self._restating.consider(event.key, follower.view.state(event.key), placed)

    def folded_late(self, follower: Follower, topic: str, unreadable: int) -> None:
        """What was kept of a topic is folded."""
        self._common.activity.unreadable += unreadable
        if follower is self._life.served:
            for scope in Scope:
                key = PolicyKey(topic, scope)
                self._restating.consider(key, follower.view.state(key))

    def _all_folded(self) -> None:
        if self._life.hub is not None:
            self._life.hub.in_order()

    def moved(self, follower: Follower) -> None:
        """The view has come further."""
        served = follower is self._life.served
        if self._life.hub is None or not (served or (follower is self._life.reading and follower.continues)):
            return
        assert follower.log is not None, "open"
        self._life.hub.moved(Token(follower.log.identity, tuple(follower.positions)))
        self._waiting.wake(follower.positions)
        if served:
            self._updates.moved(follower)
            self._freshness.moved(follower.positions)

    def loaded(self, follower: Follower) -> None:
        """The log is read."""
        if not self._loader.may_serve(follower):
            return
        assert follower.log is not None, "open"
        anew = self._life.served is not None and not follower.continues
        older = self._life.served
        older_keeper = older.keeper if older is not None else None
        hub = next_hub(self._life.hub, older, follower, self._common.limits)
        self._life.serve(follower, hub)
        self._loader.served()
        hub.wake_all()
        self._freshness.serve(follower.log, follower.positions, self._loader.opened_at)
        self._updates.serve(follower)
        self._restating.serve(follower)
        self._waiting.wake(follower.positions)
        self.grown(follower)
        if self._common.checkpoints is not None:
            self._common.checkpoints.keep(follower.keeper, older_keeper)
        self._loader.unfolder.serve(follower, self._all_folded)
        if anew:
            self._common.activity.let_go()
        self._common.activity.loaded()

    def append_failed(self, follower: Follower, event: Event, error: LogError) -> None:
        """An event of ours was not acknowledged."""
        self._common.activity.not_appended(event, error)
        if follower is self._life.served:
            self._updates.append_failed(event, error)
            self._restating.append_failed(event, self._updates.state(event.key), error)

    def led(self, follower: Follower) -> None:
        """Who may append may have changed."""
        if isinstance(self._life.state, Serving) and follower is self._life.state.follower:
            self._updates.led(follower)
            self._restating.led(follower)

    def grown(self, follower: Follower) -> None:
        """It keeps more than before, or less. What is read beside a view that serves is counted twice until it serves itself."""
        if follower is self._life.served:
            self._common.capacity.relieve(self._name)

    def refused(self, follower: Follower, error: LogError) -> None:
        """There is no room for what is loaded."""
        self._loader.refused(follower, error)

    def lost(self, follower: Follower, error: LogError) -> None:
        """The log can't be followed any more: it is opened anew."""
        if self._loader.lost(follower, error):
            self._common.activity.losses[error.reason] += 1
            self._updates.pause()
            self._freshness.stop()
            self._restating.pause()
            self._wake_watchers()

    def missed(self, error: LogError) -> None:
        """A try to load it has failed."""
        self._common.activity.loads["failed"] += 1
        self._common.activity.load_failures[error.reason] += 1
        if error.kind is Kind.NOT_FOUND:  # what was under way, or due, went with its log, and has no place in that of the next life
            self._updates.abandon(error)
            self._restating.close()
        self._updates.turn_away(error)
        self._wake_watchers()

    def _wake_watchers(self) -> None:
        if self._life.hub is not None:
            self._life.hub.wake_all()
