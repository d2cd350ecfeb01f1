"""Repairs: events that make the raw document of a key equal to its head, so that brokers show it (``core/fold/fold``).

All sidecars see at the same moment that one is due. Each waits a little, at random, so that mostly one of them publishes it and the others
find nothing left to do; copies do no harm. Then a repair has its turn in the server's queue (``repair_queue``).

If events of its key are in flight their outcome decides whether one is still due. If the log takes nothing, all repairs of the namespace
are held, one is tried after a while, and the others follow if that succeeds.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import random
from dataclasses import dataclass

from ..core.errors import Kind
from ..core.fold.fold import KeyState
from ..core.fold.operation import restates
from ..core.names import PolicyKey
from ..core.policies.events import Event, Placed
from ..core.reading.view import View
from ..logs.change_log import LogError, NamespaceLog
from .activity import Repair
from .common import Common
from .updates import Updates

_LOG = logging.getLogger(__name__)
LEAST_SECONDS = 0.020
MOST_SECONDS = 0.060
"""A repair waits a random time between these two after its key's last event."""
BOUND_SECONDS = 0.250
"""The longest wait of a repair, however busy its key is, unless events of ours are in flight; and the longest time between two attempts
while the log takes nothing."""
_BUSY_SECONDS = 1.0
"""The wait for events of ours that are in flight. Their outcome usually ends it earlier."""


class _Outcome(enum.Enum):
    PUBLISHED = enum.auto()
    NOTHING = enum.auto()
    """There was nothing to publish, or nothing may be published."""
    BUSY = enum.auto()
    """Events of the key are in flight: their outcome has it considered again."""
    LATER = enum.auto()
    """The log takes nothing now, of any key."""


@dataclass(eq=False, slots=True)
class _Due:
    since: float
    cause: Placed | None
    at: float = 0.0
    number: int = 0
    """Of its entry in the queue; 0: it is held, because nothing can be published."""


class Repairs:
    """The repairs of one namespace that are due."""

    def __init__(self, name: str, common: Common, updates: Updates, chance: random.Random) -> None:
        """Begins without repairs.

        Args:
            name: ``tenant/namespace``.
            common: what all namespaces have in common.
            updates: the requests, whose events go before repairs.
            chance: spreads the waits.
        """
        self._name = name
        self._common = common
        self._updates = updates
        self._chance = chance
        self._loop = asyncio.get_running_loop()
        self._due: dict[PolicyKey, _Due] = {}
        self._log: NamespaceLog | None = None
        """The log that serves, or served last; None: none has."""
        self._view: View | None = None
        """The view that answers, or answered last; None: none has."""
        self._paused = False
        self._refused = 0
        """How often in a row the log has taken nothing, when asked or later. Meanwhile all are held, and one is tried after a while."""
        self._attempt = 0
        """The number of the queue's entry for that attempt."""

    @property
    def due(self) -> int:
        """How many keys of the view that answers need a repair."""
        return len(self._due)

    def due_also(self, view: View) -> int:
        """Returns how many more keys need a repair in a view that has been read and does not answer yet."""
        return sum(key not in self._due for key, _ in view.due())

    def consider(self, key: PolicyKey, state: KeyState | None, cause: Placed | None = None) -> None:
        """Checks a key after an event of it: its repair becomes due, waits longer, or is not needed any more.

        Args:
            key: the policy key.
            state: the key's state; None: nothing is known of it.
            cause: the event, if it is known. The first one since the raw document was right is the cause of the repair.
        """
        if state is None or not self._updates.leads:
            return
        if self._refused and cause is not None and _is_restatement(cause.event):
            self._refused = 0
            self._release()
        known = self._due.get(key) if self._due else None
        if not state.due:
            if known is not None:
                del self._due[key]
                self._common.activity.repairs["cancelled"] += 1
            return
        now = self._loop.time()
        if known is None:
            known = self._due[key] = _Due(now, cause)
        elif known.at <= now:
            return  # it is held, or its wait is over
        if not self._held:
            self._wait(key, known, min(self._delay(), max(0.0, known.since + BOUND_SECONDS - now)))

    def serve(self, log: NamespaceLog, view: View) -> None:
        """Goes on with a view that answers from now on."""
        self._log, self._view, self._paused = log, view, False
        self._release()
        self.led()

    def led(self) -> None:
        """Notes that the writer of the log may have changed: only the process that may append has repairs."""
        if not self._updates.leads:
            self.close()
            return
        for key, state in self._view.due() if self._view is not None else ():
            self.consider(key, state)

    def append_failed(self, event: Event, state: KeyState | None, error: LogError) -> None:
        """Deals with an event of ours that was not acknowledged, which may have been a repair."""
        if _is_restatement(event) and not _passes(error):
            self._log_refusal(event.key, error)
            return
        if _is_restatement(event):
            self._try_later()
        self.consider(event.key, state)

    def pause(self) -> None:
        """Holds what is due until a log serves again."""
        self._paused = True
        self._refused = 0
        self._hold()

    def close(self) -> None:
        """Forgets what is due."""
        self._due.clear()
        self._refused = self._attempt = 0

    def end(self) -> None:
        """Forgets what is due, and the view: the namespace is closed."""
        self.close()
        self._log = self._view = None

    def counts(self, key: PolicyKey | None, number: int) -> bool:
        """Returns whether an entry of the queue still counts."""
        if key is None:
            return number == self._attempt
        due = self._due.get(key)
        return due is not None and due.number == number

    def publish(self, key: PolicyKey | None, number: int) -> bool:
        """Publishes the repair of a key (None: of any), if the queue's entry still counts. Returns whether something was published."""
        if not self.counts(key, number):
            return False
        if key is not None:
            return self._publish(key) is _Outcome.PUBLISHED
        self._attempt = 0
        outcome = _Outcome.NOTHING
        for each in list(self._due):
            outcome = self._publish(each)
            if outcome in (_Outcome.PUBLISHED, _Outcome.LATER):
                break
        if outcome in (_Outcome.NOTHING, _Outcome.BUSY):
            self._refused = 0
            self._release()
        return outcome is _Outcome.PUBLISHED  # the others follow once it is in the log (``consider``)

    def _publish(self, key: PolicyKey) -> _Outcome:
        due = self._due[key]
        try:
            outcome = self._append(key, due.cause)
        except Exception:  # noqa: BLE001 (other keys, and other namespaces, wait behind it)
            _LOG.exception("the repair of %s (%s) failed; it is not tried again before its next event", key.topic, key.scope.name)
            outcome = _Outcome.NOTHING
        if self._due.get(key) is not due:
            pass  # to publish it has ended all repairs
        elif outcome is _Outcome.BUSY:
            self._wait(key, due, _BUSY_SECONDS)
        elif outcome is _Outcome.LATER:
            self._try_later()
        else:
            del self._due[key]
        return outcome

    def _append(self, key: PolicyKey, cause: Placed | None) -> _Outcome:
        log, view = self._log, self._view
        if self._paused or log is None or view is None:
            return _Outcome.LATER
        if self._updates.busy(key):
            return _Outcome.BUSY
        known = view.state(key)
        event = view.restatement(key, self._updates.new_id())
        if event is None or known is None:
            return _Outcome.NOTHING
        published = not self._common.read_only
        if published:
            try:
                log.append(event)
            except LogError as error:
                if _passes(error):
                    return _Outcome.LATER
                self._log_refusal(key, error)
                return _Outcome.NOTHING
        self._common.activity.repair(Repair(self._name, key, known.version, known.live, known.document, cause), published=published)
        return _Outcome.PUBLISHED if published else _Outcome.NOTHING

    # --- waiting --------------------------------------------------------------------------------------------------

    @property
    def _held(self) -> bool:
        return self._paused or self._refused > 0

    def _delay(self) -> float:
        return self._chance.uniform(LEAST_SECONDS, MOST_SECONDS)

    def _wait(self, key: PolicyKey, due: _Due, seconds: float) -> None:
        due.at = self._loop.time() + seconds
        due.number = self._common.repairs.add(seconds, self, key)

    def _hold(self) -> None:
        for due in self._due.values():
            due.at = due.number = 0
        self._attempt = 0

    def _try_later(self) -> None:
        """Holds all repairs, as the log takes nothing, and tries one after a while."""
        if not self._attempt:
            pause = min(self._delay() * 2**self._refused, BOUND_SECONDS)
            self._refused = min(self._refused + 1, 8)
            self._hold()
            self._attempt = self._common.repairs.add(pause, self, None)

    def _release(self) -> None:
        if not self._held:
            for key, due in self._due.items():
                if not due.number:
                    self._wait(key, due, self._delay())

    def _log_refusal(self, key: PolicyKey, error: LogError) -> None:
        """Logs a repair that the log can't take, now or later: it is not tried again before the key's next event."""
        self._common.activity.repairs["refused"] += 1
        _LOG.warning("%s: %s (%s) can't be repaired: %s", self._name, key.topic, key.scope.name, error.message)


def _is_restatement(event: Event | None) -> bool:
    return event is not None and event.stamp is not None and restates(event.stamp)


def _passes(error: LogError) -> bool:
    """Returns whether the log may take later what it did not take now."""
    return error.kind in (Kind.UNAVAILABLE, Kind.RESOURCE_EXHAUSTED, Kind.DEADLINE_EXCEEDED)
