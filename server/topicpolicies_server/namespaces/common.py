"""What all namespaces of a server have in common: settings, services, a rate limit, and how much they keep in memory together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from ..checkpoints import Checkpoints
from ..config import Limits
from ..core.errors import Kind
from ..core.fold.fold import FoldContext
from ..core.reading.view import CellsInUse
from ..core.reasons import LogState, Reason
from ..history import History
from ..logs.change_log import ChangeLog, LogError, beyond
from ..readiness import Readiness
from .activity import Activity

_LOG = logging.getLogger(__name__)
BURST_SECONDS = 1.0
"""The burst after a quiet time, in seconds' worth of the rate."""
KEY_BYTES = 800
"""Memory that a key takes besides its document: its name, its entries in the orders of its view, and what the fold keeps of it."""
DOCUMENT_BYTES = 3
"""Memory that each byte of a serialized document takes: a document has the names of its settings too, and brokers may show another one.

Measured with documents of 8 to 1,400 bytes the estimate is 0.9 to 1.2 times what keys take at rest; 0.6 times where a repair is due, so
that two documents are kept.
"""
_TRY_AGAIN = 0.001
"""Another attempt to make room is worth it when more than this part of the limit has been added."""
_ROOM_AGAIN = 0.01
"""There is room again when at least this part of the limit is free."""


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


class Capacity:
    """Counts what all namespaces keep in memory, and bounds it.

    Policy keys are counted, and the bytes that they take are estimated. Where there is no room, idle namespaces are closed, the idlest
    first. If that is not enough, no namespace is loaded for the first time, and no update makes a key; loaded namespaces go on being
    served, and take what others write. So more may be kept than allowed, which is logged once, and once more when there is room again.

    An attempt to make room looks at many namespaces, and near the limit keys come and go: if nothing was idle at the last attempt, the next
    one comes when a thousandth more is kept. A namespace that has grown is not closed for itself: it might not be loaded again.
    """

    def __init__(self, most_keys: int, most_bytes: int, evict: Callable[[str], bool] = lambda _: False) -> None:
        """``evict``: closes an idle namespace at once, but not the one that is named. Returns False when there is none."""
        self._most_keys = most_keys
        self._most_bytes = most_bytes
        self._evict = evict
        self.in_use = CellsInUse()
        """The policy keys that are in use, as objects; all others rest as bytes."""
        self.keys = 0
        """Policy keys that are kept."""
        self.bytes = 0
        """Bytes of memory that everything takes that is kept, by estimate."""
        self.fullness = 0.0
        """What is kept, as a part of the limit that it is nearer to; above 1: more than allowed."""
        self._tried: float | None = None
        """The fullness after the last attempt to make room, which has failed; None: there is room, as logged last."""

    def add(self, keys: int, size: int) -> None:
        """Counts so many more keys, with so many bytes of documents; fewer, where a number is negative."""
        self.keys += keys
        self.bytes += keys * KEY_BYTES + size * DOCUMENT_BYTES
        self.fullness = max(self.keys / self._most_keys, self.bytes / self._most_bytes)
        if self._tried is not None and self.fullness <= 1 - _ROOM_AGAIN:
            self._tried = None
            _LOG.warning("there is room for policy keys and documents again: %s", self._in_words())

    def relieve(self, name: str) -> None:
        """Closes idle namespaces if more is kept than allowed, because loaded ones have grown. If that is not enough, it is logged once.

        ``name``: the namespace that has grown last.
        """
        if self.fullness <= 1 or (self._tried is not None and self.fullness <= self._tried + _TRY_AGAIN):
            return
        while self._evict(name):
            if self.fullness <= 1:
                return
        was_over, self._tried = self._tried is not None, self.fullness
        if not was_over:
            _LOG.warning(
                "more is in memory than the limits allow, and nothing of it is idle: %s. %s has grown last. Loaded namespaces are still"
                " served, with what others write; other namespaces, and updates that would make a policy key, are refused until"
                " there is room",
                self._in_words(),
                name,
            )

    def has_room(self) -> bool:
        """Returns whether another key may be kept. Idle namespaces are closed for it."""
        while self.fullness >= 1:
            if not self._evict(""):
                return False
        return True

    def is_exceeded(self) -> bool:
        """Returns whether more is kept than allowed, although idle namespaces were closed."""
        return self.fullness > 1 and not self.has_room()

    def refusal(self, what: str) -> LogError:
        """Makes the RESOURCE_EXHAUSTED error: there is no room for ``what``."""
        if self.keys >= self._most_keys:
            full, option, most = (
                f"{self.keys:,} policy keys of at most {self._most_keys:,} are in memory",
                "max_loaded_keys",
                self._most_keys,
            )
        else:
            full = f"keys and documents take {self.bytes:,} bytes of memory of at most {self._most_bytes:,}"
            option, most = "max_loaded_document_bytes", self._most_bytes
        sentence = f"There is no room for {what}: {full}. Use another server, or raise {option} of this one."
        return beyond(option, most, sentence)

    def _in_words(self) -> str:
        keys = f"{self.keys:,} policy keys of at most {self._most_keys:,} (max_loaded_keys)"
        return f"{keys}, {self.bytes:,} bytes of memory of at most {self._most_bytes:,} (max_loaded_document_bytes)"


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
