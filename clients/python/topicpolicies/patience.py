"""How long is waited: what callers may say, what gRPC can be told, and who looks at the time while a thread waits for a stream."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from .errors import Violation, invalid

LONGEST = 10 * 365 * 86_400.0
"""Seconds; gRPC and the operating system can't be told of much more, and whoever says more means for ever."""


def seconds_of(timeout: float | None, default: float, field: str = "timeout") -> float:
    """The seconds that a caller gives, or else these.

    Raises:
        InvalidArgument: they are no number.
    """
    if timeout is None:
        return default
    if not _is_number(timeout):
        raise invalid("WRONG_VALUE", Violation(field, "WRONG_VALUE", f"{field} must be a number of seconds, not {timeout!r}."))
    return timeout


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not math.isnan(value)


def limit_of(seconds: float) -> float | None:
    """What gRPC, threads and event loops are told of so many seconds; None: no limit."""
    return None if seconds > LONGEST else seconds


class Watchdog:
    """Calls a function if a wait takes too long. Its thread begins with the first wait that has a limit, and sleeps while that is far."""

    def __init__(self, late: Callable[[], object]) -> None:
        """``late``: what is called, at most once; it must not wait."""
        self._late = late
        self._changed = threading.Condition()
        self._until = math.inf
        """When the present wait becomes too long; infinite while nobody waits."""
        self._wakes = -math.inf
        """When the thread looks next; earlier than anything else as long as there is none."""
        self._closed = False
        self.barked = False
        """Whether a wait took too long."""

    def begin(self, seconds: float) -> None:
        """A wait begins that may take so long."""
        limit = limit_of(seconds)
        if limit is None:
            return
        with self._changed:
            self._until = time.monotonic() + limit
            if self._wakes == -math.inf:
                self._wakes = self._until
                threading.Thread(target=self._watch, name="topicpolicies-patience", daemon=True).start()
            elif self._until < self._wakes:
                self._changed.notify()

    def end(self) -> None:
        """The wait is over."""
        with self._changed:
            self._until = math.inf

    def close(self) -> None:
        """Lets the thread go."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._closed:
                left = self._until - time.monotonic()
                if left <= 0:
                    self.barked = True
                    self._late()
                    return
                self._wakes = self._until
                self._changed.wait(limit_of(left))
