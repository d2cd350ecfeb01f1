"""Simulated connections between a process and the storage, and what can go wrong on them, for each append and each delivery."""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from topicpolicies_server.core.policies.events import Event, Placed


class Outcome(enum.Enum):
    """What becomes of an append."""

    STORED = "stored"
    """The event is in the log and acknowledged."""
    REFUSED = "refused"
    """The append fails, and the event certainly is not in the log."""
    UNACKNOWLEDGED = "unacknowledged"
    """The event is in the log, but the append fails with an unknown outcome."""
    VANISHED = "vanished"
    """The event is not in the log, and the append fails with an unknown outcome."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of an append, and when."""

    outcome: Outcome = Outcome.STORED
    delay: float = 0.0
    """Seconds until the event reaches the log; later appends to the partition wait behind it."""
    answer_delay: float = 0.0
    """Seconds from then until the acknowledgement or the failure arrives; later ones of the partition wait behind it."""
    copies: int = 1
    """How often the event is stored, as when a client library repeats a publish; the acknowledgement names the first place."""


class Faults:
    """Decides what goes wrong. This class causes no faults; tests override its methods."""

    def fate(self, namespace: str, event: Event) -> Fate:
        """Returns what becomes of an append to ``namespace``."""
        del namespace, event
        return _STORED

    def read_delay(self, namespace: str, placed: Placed) -> float:
        """Returns the seconds until an entry of ``namespace`` is read; later ones of the partition wait behind it."""
        del namespace, placed
        return 0.0

    def handed_over(self, namespace: str, placed: Placed) -> bool:
        """Returns whether an entry of ``namespace``, in ledgers, is handed over when it is due; if not, it never is by itself."""
        del namespace, placed
        return True

    def question_delay(self, namespace: str) -> float | None:
        """Returns the seconds that a request about ``namespace`` takes to the storage, and its answer back; None: the request is lost."""
        del namespace
        return 0.0

    def session_seconds(self, namespace: str) -> float:
        """Returns the seconds until the storage notices that the only writer of ``namespace`` died, and lets another process write."""
        del namespace
        return 0.0


_STORED = Fate()
NO_FAULTS = Faults()


T = TypeVar("T")

BATCH = 512
"""The most items that are delivered in one callback."""


class Channel(Generic[T]):
    """Delivers items in order, in batches, from callbacks of the event loop, and no item before its delay is over."""

    def __init__(self, loop: asyncio.AbstractEventLoop, deliver: Callable[[list[T]], None]) -> None:
        self._loop = loop
        self._deliver = deliver
        self._items: deque[tuple[float, T]] = deque()
        self._handle: asyncio.Handle | None = None
        self._held = False

    def push(self, item: T, delay: float = 0.0) -> None:
        """Adds an item, to be delivered ``delay`` seconds from now or when the items before it are, whichever is later."""
        self._items.append((self._loop.time() + delay if delay > 0 else 0.0, item))
        self._schedule()

    def hold(self) -> None:
        """Delivers nothing until ``release``."""
        self._held = True
        self._cancel()

    def release(self) -> None:
        """Ends ``hold``."""
        self._held = False
        self._schedule()

    @property
    def waiting(self) -> list[T]:
        """The items that were not delivered yet."""
        return [item for _, item in self._items]

    def drop(self) -> list[T]:
        """Removes and returns the items that were not delivered yet."""
        self._cancel()
        items = self.waiting
        self._items.clear()
        return items

    def _cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _schedule(self) -> None:
        if self._handle is None and self._items and not self._held:
            due = self._items[0][0]
            self._handle = self._loop.call_at(due, self._run) if due > self._loop.time() else self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._handle = None
        now = self._loop.time()
        batch: list[T] = []
        while self._items and len(batch) < BATCH and self._items[0][0] <= now:
            batch.append(self._items.popleft()[1])
        self._schedule()
        if batch:
            self._deliver(batch)
