"""Publishes the repairs of one namespace, one by one, so that brokers show its heads; ``repair_schedule`` decides when."""

from __future__ import annotations

import asyncio
import logging
import random

from ..core.errors import Kind
from ..core.fold.fold import KeyState
from ..core.fold.operation import restates
from ..core.names import PolicyKey
from ..core.policies.events import Event, Placed
from ..logs.change_log import LogError
from .activity import Repair
from .common import Common
from .follower import Follower
from .life import Life, Serving
from .repair_schedule import RepairOutcome, RepairSchedule
from .updates import Updates

_LOG = logging.getLogger(__name__)


class RepairPublisher:
    """The repairs of one namespace, as its log allows them."""

    def __init__(self, name: str, common: Common, life: Life, updates: Updates, chance: random.Random) -> None:
        """Begins without repairs.

        Args:
            name: ``tenant/namespace``.
            common: what all namespaces have in common.
            life: says which view answers.
            updates: the requests, whose events go before repairs.
            chance: spreads the repairs.
        """
        self._name = name
        self._common = common
        self._life = life
        self._updates = updates
        self._repairs = RepairSchedule(asyncio.get_running_loop(), chance, common.gate, self._publish, self._cancelled)

    @property
    def due(self) -> int:
        """How many keys of the view that answers need a repair."""
        return self._repairs.due

    def due_also(self, follower: Follower) -> int:
        """Returns how many more keys need a repair in a view that has been read and does not answer yet."""
        return sum(key not in self._repairs for key, _ in follower.view.due())

    def consider(self, key: PolicyKey, state: KeyState | None, cause: Placed | None = None) -> None:
        """Checks whether a key needs a repair, after an event of it was folded or not acknowledged."""
        if state is not None and self._updates.leads:
            self._repairs.consider(key, state, cause)

    def serve(self, follower: Follower) -> None:
        """Goes on with a view that answers from now on."""
        self._repairs.resume()
        self.led(follower)

    def led(self, follower: Follower) -> None:
        """Notes that the writer of the log may have changed: only the process that may append has repairs."""
        if not self._updates.leads:
            self._repairs.close()
            return
        for key, state in follower.view.due():
            self._repairs.consider(key, state)

    def append_failed(self, event: Event, state: KeyState | None, error: LogError) -> None:
        """Deals with an event of ours that was not acknowledged, which may have been a repair."""
        if event.stamp is not None and restates(event.stamp) and not _passes(error):
            self._refused(event.key, error)
        else:
            self.consider(event.key, state)

    def pause(self) -> None:
        """Keeps what is due until a log serves again."""
        self._repairs.pause()

    def close(self) -> None:
        """Forgets what is due."""
        self._repairs.close()

    def _publish(self, key: PolicyKey, cause: Placed | None) -> RepairOutcome:
        """Publishes a repair that is due."""
        state = self._life.state
        follower = state.follower if isinstance(state, Serving) else None
        if follower is None or follower.log is None:
            return RepairOutcome.LATER
        if self._updates.busy(key):
            return RepairOutcome.BUSY
        known = follower.view.state(key)
        event = follower.view.restatement(key, self._updates.new_id())
        if event is None or known is None:
            return RepairOutcome.PASSED
        published = not self._common.read_only
        if published:
            try:
                follower.log.append(event)
            except LogError as error:
                if _passes(error):
                    return RepairOutcome.LATER
                self._refused(key, error)
                return RepairOutcome.PASSED
        self._common.activity.repair(Repair(self._name, key, known.version, known.live, known.document, cause), published=published)
        return RepairOutcome.TAKEN if published else RepairOutcome.PASSED

    def _cancelled(self) -> None:
        self._common.activity.repairs["cancelled"] += 1

    def _refused(self, key: PolicyKey, error: LogError) -> None:
        """Logs a repair that the log can't take, now or later: it is not tried again before the key's next event."""
        self._common.activity.repairs["refused"] += 1
        _LOG.warning("%s: %s (%s) can't be repaired: %s", self._name, key.topic, key.scope.name, error.message)


def _passes(error: LogError) -> bool:
    """Returns whether the log may take later what it did not take now."""
    return error.kind in (Kind.UNAVAILABLE, Kind.RESOURCE_EXHAUSTED, Kind.DEADLINE_EXCEEDED)
