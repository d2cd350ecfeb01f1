"""When repairs are published.

A repair makes the raw document equal to the head (``core/fold/fold``). All sidecars see at the same moment that one is due; each waits a
little, at random, so that mostly one of them publishes it and the others find nothing left to do. Copies do no harm. When the wait is
over, a repair still has to pass the server's ``gate``.
"""

from __future__ import annotations

import asyncio
import enum
import random
from collections.abc import Callable
from typing import NamedTuple

from ..core.fold.fold import KeyState, repair_due
from ..core.names import PolicyKey
from ..core.policies.events import Placed
from .gate import Gate

LEAST_SECONDS = 0.020
MOST_SECONDS = 0.060
"""A repair waits between these after its key's last event."""
BOUND_SECONDS = 0.250
"""However busy the key is, it waits no longer than this, unless events of our own are in flight."""


class Turn(enum.Enum):
    """What became of a repair whose time has come."""

    TAKEN = "taken"
    """It was published."""
    PASSED = "passed"
    """There is nothing to publish, or nothing may be."""
    LATER = "later"
    """It has to wait."""


class _Due(NamedTuple):
    since: float
    cause: Placed | None
    timer: asyncio.TimerHandle | None
    """None: it waits at the gate."""


class Repairs:
    """The repairs of one namespace that are due."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        chance: random.Random,
        gate: Gate,
        publish: Callable[[PolicyKey, Placed | None], Turn],
        cancelled: Callable[[], None] = lambda: None,
    ) -> None:
        """Nothing is due.

        Args:
            loop: whose clock counts.
            chance: spreads the waits.
            gate: what every repair passes.
            publish: publishes what is due for a key, because of an event (None: it was due when the log was opened).
            cancelled: told of a repair that is not needed any more.
        """
        self._loop = loop
        self._chance = chance
        self._gate = gate
        self._publish = publish
        self._cancelled = cancelled
        self._due: dict[PolicyKey, _Due] = {}

    @property
    def due(self) -> int:
        """Keys with a repair that is due."""
        return len(self._due)

    def __contains__(self, key: object) -> bool:
        return key in self._due

    def consider(self, key: PolicyKey, state: KeyState, cause: Placed | None = None) -> None:
        """An event of a key was folded: a repair becomes due, waits longer, or is not needed any more.

        Args:
            key: the policy key.
            state: its state after the event.
            cause: the event, if it is known. The first one since the raw document was right is the cause of the repair.
        """
        known = self._due.get(key) if self._due else None
        if not repair_due(state):
            if known is not None:
                self._forget(key)
                self._cancelled()
            return
        if known is not None and known.timer is None:
            return  # its wait is over; it stands in line
        now = self._loop.time()
        since = now
        if known is not None:
            since, cause = known.since, known.cause
            self._forget(key)
        delay = min(self._chance.uniform(LEAST_SECONDS, MOST_SECONDS), max(0.0, since + BOUND_SECONDS - now))
        self._wait(key, since, cause, delay)

    def close(self) -> None:
        """Publishes nothing any more."""
        for key in list(self._due):
            self._forget(key)

    def proceed(self, key: PolicyKey) -> bool:
        """The gate lets a repair pass (``gate.Visitor``)."""
        due = self._due.pop(key)
        turn = self._publish(key, due.cause)
        if turn is Turn.LATER:
            self._wait(key, due.since, due.cause, self._chance.uniform(LEAST_SECONDS, MOST_SECONDS))
        return turn is Turn.TAKEN

    def _wait(self, key: PolicyKey, since: float, cause: Placed | None, delay: float) -> None:
        self._due[key] = _Due(since, cause, self._loop.call_later(delay, self._ready, key))

    def _ready(self, key: PolicyKey) -> None:
        self._due[key] = self._due[key]._replace(timer=None)
        self._gate.enter(self, key)

    def _forget(self, key: PolicyKey) -> None:
        known = self._due.pop(key)
        if known.timer is not None:
            known.timer.cancel()
        else:
            self._gate.leave(self, key)
