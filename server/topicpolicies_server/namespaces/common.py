"""What all namespaces of a server have in common: settings, services, and a rate limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from ..checkpoints import Checkpoints
from ..config import Limits
from ..core.errors import Kind
from ..core.fold.fold import FoldContext
from ..core.reasons import LogState, Reason
from ..history import History
from ..logs.change_log import ChangeLog, LogError
from ..readiness import Readiness
from .activity import Activity
from .capacity import Capacity

BURST_SECONDS = 1.0
"""The burst after a quiet time, in seconds' worth of the rate."""


class Rate:
    """A rate limit, with bursts, for something that all namespaces of a server do. Times are seconds of a monotonic clock."""

    def __init__(self, per_second: float) -> None:
        """``per_second``: the most actions in a second, on average."""
        self._interval = 1 / per_second
        self._tolerance = max(BURST_SECONDS - self._interval, 0.0)
        self._next = 0.0
        """When the next action would be done if they came evenly."""

    @property
    def next_at(self) -> float:
        """From when on the next action may be done."""
        return self._next - self._tolerance

    def take(self, now: float, times: int = 1) -> float:
        """Counts actions that are done now, or as soon as they may be. Returns in how many seconds that is."""
        wait = max(self.next_at - now, 0.0)
        self._next = max(self._next, now) + times * self._interval
        return wait

    def give_back(self, times: int) -> None:
        """Takes back the count of actions that were not done."""
        self._next -= times * self._interval


@dataclass(slots=True)
class Common:
    """The settings and services that every namespace of a server is given."""

    log: ChangeLog
    limits: Limits
    context: FoldContext
    slots: asyncio.Semaphore
    """Bounds how many namespaces load at once."""
    now: Callable[[], int]
    """Milliseconds since 1970, by a clock like the logs'."""
    activity: Activity
    capacity: Capacity
    confirmations: Rate
    """Bounds how often the ends of watched logs are asked for (``progress``)."""
    read_only: bool
    """Whether nothing may be written: updates are refused, and repairs only reported."""
    history: History | None
    """Where everything that is folded is recorded; None: nowhere."""
    readiness: Readiness
    checkpoints: Checkpoints | None
    """Checkpoints of views, so that loading need not begin at the log's beginning; None: there are none."""


def unavailable(namespace: str, why: Reason | LogState, sentence: str) -> LogError:
    """Makes an UNAVAILABLE error about a namespace."""
    return LogError(why, f"{namespace}: {sentence}", kind=Kind.UNAVAILABLE)
