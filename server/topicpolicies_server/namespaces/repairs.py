"""Repairs: events that make the raw document of a key equal to its head, so that brokers show it (``core/fold/fold``).

All sidecars see at the same moment that one is due. Each waits a little, at random, so that mostly one of them publishes it and the others
find nothing left to do; copies do no harm. All repairs of a server share a rate, and an operator may pause them. If events of its key are
in flight, their outcome decides whether one is still due.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from dataclasses import dataclass

from ..core.chains.sequencer import Sequencer
from ..core.errors import Kind
from ..core.fold.fold import KeyState, restatement
from ..core.fold.operation import restates
from ..core.names import PolicyKey
from ..core.policies.events import Event, Placed
from ..logs.change_log import LogError, NamespaceLog
from .activity import Repair
from .common import Common, Serving

_LOG = logging.getLogger(__name__)
LEAST_SECONDS = 0.020
MOST_SECONDS = 0.060
"""A repair waits a random time between these two after its key's last event."""
BOUND_SECONDS = 0.250
"""The longest wait of a repair, however busy its key is, unless events of ours are in flight."""
BURST_SECONDS = 1.0
"""The burst of repairs after a quiet time, in seconds' worth of their rate."""
_BUSY_SECONDS = 1.0
"""The wait for events of ours that are in flight, whose outcome usually ends it earlier; and between two attempts of one repair."""


class RepairQueue:
    """The repairs of all namespaces of a server whose wait is over, in this order, at a bounded rate."""

    def __init__(self, loop: asyncio.AbstractEventLoop, per_second: float, *, paused: bool = False) -> None:
        """``per_second``: the most repairs in a second, on average; ``paused``: whether nothing is published until ``resume``."""
        self._loop = loop
        self._interval = 1 / per_second
        self._next = 0.0
        """When the next repair would be published if they came evenly."""
        self.paused = paused
        self._queue: OrderedDict[tuple[Repairs, PolicyKey], None] = OrderedDict()
        """In order; also some that need not be published any more (``Repairs.counts``)."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """How many repairs wait only because of the rate, or because repairs are paused. Safe to call from other threads."""
        return sum(repairs.counts(key) for repairs, key in list(self._queue))

    def add(self, repairs: Repairs, key: PolicyKey) -> None:
        """Has ``repairs.publish`` called, later if the rate demands it."""
        self._queue[repairs, key] = None
        self._set_timer()

    def pause(self) -> None:
        """Publishes nothing until ``resume``."""
        self.paused = True

    def resume(self) -> None:
        """Goes on after ``pause``."""
        self.paused = False
        self._set_timer()

    def close(self) -> None:
        """Forgets all repairs."""
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        if self._timer is None and self._queue and not self.paused:
            self._timer = self._loop.call_at(self._next_at, self._publish)

    @property
    def _next_at(self) -> float:
        return self._next - max(BURST_SECONDS - self._interval, 0.0)

    def _publish(self) -> None:
        self._timer = None
        while self._queue and not self.paused and self._next_at <= (now := self._loop.time()):
            (repairs, key), _ = self._queue.popitem(last=False)
            if repairs.publish(key):
                self._next = max(self._next, now) + self._interval
        self._set_timer()


@dataclass(eq=False, slots=True)
class _Due:
    since: float
    cause: Placed | None
    timer: asyncio.TimerHandle | None = None
    """Ends its wait; None: that is over, or no log serves."""

    def stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.timer = None


class Repairs:
    """The repairs of one namespace that are due."""

    def __init__(
        self, name: str, common: Common, queue: RepairQueue, serving: Serving, sequencer: Sequencer, chance: random.Random
    ) -> None:
        self._name = name
        self._common = common
        self._queue = queue
        self._serving = serving
        self._sequencer = sequencer
        self._chance = chance
        self._loop = asyncio.get_running_loop()
        self.due: dict[PolicyKey, _Due] = {}
        """The keys of the view that answers that need a repair."""

    def consider(self, key: PolicyKey, state: KeyState | None, cause: Placed | None = None) -> None:
        """Checks a key after an event of it: its repair becomes due, waits longer, or is not needed any more.

        ``cause``: the event, if it is known. The first one since the raw document was right is the cause of the repair.
        """
        if state is None:
            return
        known = self.due.get(key) if self.due else None
        if not state.repair_due:
            if known is not None:
                self.due.pop(key).stop()
                self._common.activity.repairs["cancelled"] += 1
            return
        if not self._serving.leads:
            return
        now = self._loop.time()
        if known is None:
            known = self.due[key] = _Due(now, cause)
        elif known.timer is None:
            return  # its wait is over
        self._wait(key, known, min(self._delay(), max(0.0, known.since + BOUND_SECONDS - now)))

    def serve(self) -> None:
        """Goes on with the log that serves from now on."""
        for key, due in self.due.items():
            self._wait(key, due, self._delay())
        self.led()

    def led(self) -> None:
        """Notes that the writer of the log may have changed: only the process that may append has repairs."""
        if not self._serving.leads:
            self.forget()
        elif (view := self._sequencer.view) is not None:
            for key, state in view.due():
                self.consider(key, state)

    def append_failed(self, event: Event, state: KeyState | None, error: LogError) -> None:
        """Deals with an event of ours that was not acknowledged, which may have been a repair."""
        was_repair = event.stamp is not None and restates(event.stamp)
        if was_repair and not _passes(error):
            self._log_refusal(event.key, error)
            return
        self.consider(event.key, state)
        if was_repair and self._serving.log is not None and (due := self.due.get(event.key)) is not None:
            self._wait(event.key, due, _BUSY_SECONDS)

    def pause(self) -> None:
        """Has what is due wait until a log serves again."""
        for due in self.due.values():
            due.stop()

    def forget(self) -> None:
        """Forgets what is due."""
        self.pause()
        self.due.clear()

    def counts(self, key: PolicyKey) -> bool:
        """Returns whether a key in the queue has a repair that would be published now if the queue let it."""
        due = self.due.get(key)
        return due is not None and due.timer is None and self._serving.log is not None

    def publish(self, key: PolicyKey) -> bool:
        """Publishes the repair of a key that comes out of the queue, if its wait is over. Returns whether that was tried."""
        due, log = self.due.get(key), self._serving.log
        if due is None or due.timer is not None or log is None:  # it is not needed, or waits anew
            return False
        if self._sequencer.busy(key):  # the outcome of its events has it considered again, mostly
            self._wait(key, due, _BUSY_SECONDS)
            return False
        del self.due[key]
        try:
            return self._append(log, key, due.cause)
        except LogError as error:
            if not _passes(error):
                self._log_refusal(key, error)
            elif self._serving.leads:
                self.due[key] = due
                self._wait(key, due, _BUSY_SECONDS)
        except Exception:  # noqa: BLE001 (other keys, and other namespaces, wait behind it)
            _LOG.exception("the repair of %s (%s) failed; it is not tried again before its next event", key.topic, key.scope.name)
        return True

    def _append(self, log: NamespaceLog, key: PolicyKey, cause: Placed | None) -> bool:
        view = self._sequencer.view
        assert view is not None, "the log serves"
        known = view.state(key)
        if known is None or not known.repair_due:
            return False
        published = not self._common.read_only
        if published:
            log.append(restatement(key, known, self._sequencer.new_id()))
        self._common.activity.repair(Repair(self._name, key, known.version, known.raw, known.document, cause), published=published)
        return published

    def _delay(self) -> float:
        return self._chance.uniform(LEAST_SECONDS, MOST_SECONDS)

    def _wait(self, key: PolicyKey, due: _Due, seconds: float) -> None:
        due.stop()
        due.timer = self._loop.call_later(seconds, self._end_wait, key, due)

    def _end_wait(self, key: PolicyKey, due: _Due) -> None:
        due.timer = None
        self._queue.add(self, key)

    def _log_refusal(self, key: PolicyKey, error: LogError) -> None:
        """Logs a repair that the log can't take, now or later: it is not tried again before the key's next event."""
        self._common.activity.repairs["refused"] += 1
        _LOG.warning("%s: %s (%s) can't be repaired: %s", self._name, key.topic, key.scope.name, error.message)


def _passes(error: LogError) -> bool:
    return error.kind in (Kind.UNAVAILABLE, Kind.RESOURCE_EXHAUSTED, Kind.DEADLINE_EXCEEDED)
