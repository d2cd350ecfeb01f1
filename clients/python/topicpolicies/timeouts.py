"""Timeouts: checks those of callers, limits them for gRPC, and ends a thread's wait for a stream that takes too long."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from .errors import Violation, invalid

LONGEST = 10 * 365 * 86_400.0
"""The longest timeout in seconds. gRPC and the operating system take not much more; a longer timeout means no limit."""


def seconds_of(timeout: float | None, default: float, field: str = "timeout") -> float:
    """Returns the timeout of a caller in seconds, or ``default`` if it is None. What is below zero is zero.

    Args:
        timeout: seconds; None: not given.
        default: seconds.
        field: the argument's name, for the error.

    Raises:
        InvalidArgument: the timeout is not a number.
    """
    if timeout is None:
        return default
    if not _is_number(timeout):
        raise invalid("WRONG_VALUE", Violation(field, "WRONG_VALUE", f"{field} must be a number of seconds, not {timeout!r}."))
    return math.inf if timeout > LONGEST else max(timeout, 0.0)


def _is_number(value: object) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and not math.isnan(value))  # an int may be too large for a float


def limit_of(seconds: float) -> float | None:
    """Returns a timeout in seconds as gRPC, threads and event loops take it; None: no limit."""
    return None if seconds > LONGEST else seconds


class Watchdog:
    """Calls a function if a wait takes too long. Its thread starts with the first wait that has a limit, and sleeps between the limits."""

    def __init__(self, on_expiry: Callable[[], object]) -> None:
        """``on_expiry``: the function; it is called at most once, by another thread, and must not block."""
        self._on_expiry = on_expiry
        self._changed = threading.Condition()
        self._until = math.inf
        """When the current wait becomes too long, by ``time.monotonic``; infinite between waits."""
        self._wakes = -math.inf
        """When the thread wakes next; -infinite while there is no thread."""
        self._closed = False
        self.expired = False
        """Whether a wait took too long."""

    def begin(self, seconds: float) -> None:
        """Begins a wait that may take ``seconds``."""
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
        """Ends the wait."""
        with self._changed:
            self._until = math.inf

    def close(self) -> None:
        """Ends the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._closed:
                left = self._until - time.monotonic()
                if left <= 0:
                    self.expired = True
                    self._on_expiry()
                    return
                self._wakes = self._until
                self._changed.wait(limit_of(left))
