"""When repairs are published.

A repair makes the raw document equal to the head (``core/fold/fold``). All sidecars see at the same moment that one is due; each waits a
little, at random, so that mostly one of them publishes it and the others find nothing left to do. Copies do no harm. After its wait a
repair still has to pass the server's ``gate``.

A key's repair:

========  ===========================  ========  ============================================================================
state     event                        next      what is done
========  ===========================  ========  ============================================================================
(none)    considered: it is due        WAITING   its wait begins; HELD if repairs are held
WAITING   considered: it is due        WAITING   its wait begins anew, within ``BOUND_SECONDS``
WAITING   its wait is over             IN LINE   it enters the gate
IN LINE   the gate lets it pass        (none)    it is published, or there is nothing to publish
IN LINE   publishing raises            (none)    the exception is logged
IN LINE   events of its own in flight  RESTING   their outcome has it considered; a longer wait begins, in case it does not
IN LINE   the log takes nothing        HELD      so are all; after a while one is tried; the others follow if that succeeds
RESTING   considered: it is due        WAITING   its wait begins
RESTING   its longer wait is over      IN LINE   it enters the gate
any       considered: it is not due    (none)    ``cancelled`` is called
any       ``pause``                    HELD      it leaves the gate
HELD      ``resume``                   WAITING   its wait begins
HELD      it is the one that is tried  IN LINE   it enters the gate
========  ===========================  ========  ============================================================================

All waits of a namespace share one timer, set for the earliest of them; while repairs are paused there is none.
"""

from __future__ import annotations

import asyncio
import enum
import heapq
import itertools
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from ..core.fold.fold import KeyState, repair_due
from ..core.names import PolicyKey
from ..core.policies.events import Placed
from .gate import Gate

_LOG = logging.getLogger(__name__)
LEAST_SECONDS = 0.020
MOST_SECONDS = 0.060
"""A repair waits a random time between these two after its key's last event."""
BOUND_SECONDS = 0.250
"""The longest wait of a repair, however busy its key is, unless events of ours are in flight; and the longest time for which all repairs
are held because the log took nothing, before one is tried."""
_RESTING_SECONDS = 1.0


class RepairOutcome(enum.Enum):
    """What became of a repair that the gate let pass."""

    TAKEN = "taken"
    """It was published."""
    PASSED = "passed"
    """There was nothing to publish, or nothing may be published."""
    BUSY = "busy"
    """Events of its key are in flight: their outcome has it considered again."""
    LATER = "later"
    """The log takes nothing now, of any key."""


class _State(enum.Enum):
    WAITING = enum.auto()
    IN_LINE = enum.auto()
    RESTING = enum.auto()
    HELD = enum.auto()


@dataclass(eq=False, slots=True)
class _Due:
    since: float
    cause: Placed | None
    state: _State = _State.HELD
    wait: int = 0
    """The number of the current wait, to tell it from earlier ones that are still in the heap."""


class RepairSchedule:
    """The repairs of one namespace that are due."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        chance: random.Random,
        gate: Gate,
        publish: Callable[[PolicyKey, Placed | None], RepairOutcome],
        cancelled: Callable[[], None] = lambda: None,
    ) -> None:
        """Begins without repairs.

        Args:
            loop: the event loop, whose clock counts.
            chance: spreads the waits.
            gate: bounds the rate of repairs; every repair passes it.
            publish: publishes what is due for a key, because of an event (None: it was due when the log was opened).
            cancelled: called when a repair is not needed any more.
        """
        self._loop = loop
        self._chance = chance
        self._gate = gate
        self._publish = publish
        self._cancelled = cancelled
        self._due: dict[PolicyKey, _Due] = {}
        self._waits: list[tuple[float, int, PolicyKey]] = []
        """A heap of waits by when they end; it still has waits that were given up."""
        self._numbers = itertools.count(1)
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        """When the timer runs, by the loop's clock. Not every loop's handles know: uvloop's for what is due at once do not."""
        self._paused = False
        self._refused = 0
        """How often in a row the log has taken nothing."""
        self._trying: asyncio.TimerHandle | None = None
        """The timer after which a repair is tried, while all are held because the log takes nothing."""

    @property
    def due(self) -> int:
        """How many keys have a repair that is due."""
        return len(self._due)

    def __contains__(self, key: object) -> bool:
        return key in self._due

    def consider(self, key: PolicyKey, state: KeyState, cause: Placed | None = None) -> None:
        """Checks a key whose event was folded: its repair becomes due, waits longer, or is not needed any more.

        Args:
            key: the policy key.
            state: the key's state after the event.
            cause: the event, if it is known. The first one since the raw document was right is the cause of the repair.
        """
        known = self._due.get(key) if self._due else None
        if not repair_due(state):
            if known is not None:
                self._forget(key)
                self._cancelled()
            return
        now = self._loop.time()
        if known is None:
            known = self._due[key] = _Due(now, cause)
        elif known.state in (_State.IN_LINE, _State.HELD):
            return  # the wait is over, or has yet to begin
        if self._held:
            known.state = _State.HELD
        else:
            self._wait(key, known, min(self._delay(), max(0.0, known.since + BOUND_SECONDS - now)))

    def pause(self) -> None:
        """Publishes nothing, and has no timer, until ``resume``."""
        self._paused = True
        self._refused = 0
        self._stop_trying()
        self._hold()

    def resume(self) -> None:
        """Goes on after ``pause``."""
        self._paused = False
        self._release()

    def close(self) -> None:
        """Forgets what is due."""
        for key in list(self._due):
            self._forget(key)
        self._waits.clear()
        self._stop_timer()
        self._stop_trying()
        self._refused = 0

    def proceed(self, key: PolicyKey) -> bool:
        """Publishes a repair that the gate lets pass (``gate.Visitor``)."""
        due = self._due[key]
        try:
            outcome = self._publish(key, due.cause)
        except Exception:  # noqa: BLE001 (other keys, and other namespaces, wait behind it)
            _LOG.exception("the repair of %s (%s) failed; it is not tried again before its next event", key.topic, key.scope.name)
            outcome = RepairOutcome.PASSED
        if self._due.get(key) is not due:
            return outcome is RepairOutcome.TAKEN  # publishing it has ended all repairs
        if outcome is RepairOutcome.BUSY:
            self._wait(key, due, _RESTING_SECONDS, _State.RESTING)
        elif outcome is RepairOutcome.LATER:
            due.state = _State.HELD
            self._try_later()
        else:
            del self._due[key]
            if self._refused and outcome is RepairOutcome.TAKEN:
                self._refused = 0
                self._release()
        return outcome is RepairOutcome.TAKEN

    # --- waiting --------------------------------------------------------------------------------------------------

    @property
    def _held(self) -> bool:
        return self._paused or self._refused > 0

    def _delay(self) -> float:
        return self._chance.uniform(LEAST_SECONDS, MOST_SECONDS)

    def _wait(self, key: PolicyKey, due: _Due, seconds: float, state: _State = _State.WAITING) -> None:
        due.state, due.wait = state, next(self._numbers)
        heapq.heappush(self._waits, (self._loop.time() + seconds, due.wait, key))
        self._set_timer()

    def _set_timer(self) -> None:
        """Sets the timer for the earliest wait."""
        while self._waits and not self._counts(self._waits[0]):
            heapq.heappop(self._waits)
        if self._waits and self._timer is not None and self._timer_at <= self._waits[0][0]:
            return
        self._stop_timer()
        if self._waits:
            self._timer_at = self._waits[0][0]
            self._timer = self._loop.call_at(self._timer_at, self._on_time)

    def _counts(self, wait: tuple[float, int, PolicyKey]) -> bool:
        due = self._due.get(wait[2])
        return due is not None and due.wait == wait[1] and due.state in (_State.WAITING, _State.RESTING)

    def _on_time(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._waits and self._waits[0][0] <= now:
            wait = heapq.heappop(self._waits)
            if self._counts(wait):
                self._enter(wait[2])
        self._set_timer()

    def _enter(self, key: PolicyKey) -> None:
        self._due[key].state = _State.IN_LINE
        self._gate.enter(self, key)

    def _forget(self, key: PolicyKey) -> None:
        if self._due.pop(key).state is _State.IN_LINE:
            self._gate.leave(self, key)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- while nothing can be published ---------------------------------------------------------------------------

    def _hold(self) -> None:
        for key, due in self._due.items():
            if due.state is _State.IN_LINE:
                self._gate.leave(self, key)
            due.state = _State.HELD
        self._waits.clear()
        self._stop_timer()

    def _release(self) -> None:
        if not self._held:
            for key, due in self._due.items():
                if due.state is _State.HELD:
                    self._wait(key, due, self._delay())

    def _try_later(self) -> None:
        """Holds all repairs, as the log takes nothing, and tries one after a while."""
        pause = min(self._delay() * 2**self._refused, BOUND_SECONDS)
        self._refused = min(self._refused + 1, 8)
        self._hold()
        self._stop_trying()
        self._trying = self._loop.call_later(pause, self._try)

    def _try(self) -> None:
        """Tries repairs until one is published or waits at the gate, or the log takes nothing again."""
        self._trying = None
        in_line = any(due.state is _State.IN_LINE for due in self._due.values())
        for key in [] if in_line else [key for key, due in self._due.items() if due.state is _State.HELD]:
            self._enter(key)
            if not self._refused or self._trying is not None:
                return  # the others follow, or are held for longer
            if (due := self._due.get(key)) is not None and due.state is _State.IN_LINE:
                break
        if self._due:
            self._trying = self._loop.call_later(BOUND_SECONDS, self._try)
        else:
            self._refused = 0

    def _stop_trying(self) -> None:
        if self._trying is not None:
            self._trying.cancel()
            self._trying = None
