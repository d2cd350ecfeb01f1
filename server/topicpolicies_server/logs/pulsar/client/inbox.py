"""What the library's threads say, for the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """Items from any thread for the event loop, which is woken once however many come meanwhile.

    Attributes:
        items: what has come and was not taken out yet, oldest first.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        """``wake`` is called on the loop when there may be items."""
        self.items: deque[T] = deque()
        self._loop = loop
        self._wake = wake
        self._woken = False

    def put(self, item: T) -> None:
        """Adds an item. Never raises and never waits; after the loop was closed nobody is woken."""
        self.items.append(item)
        if not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # the loop is closed, and nobody is left to tell
                self._loop.call_soon_threadsafe(self._come)

    def _come(self) -> None:
        self._woken = False  # before the items are looked at: what comes from here on is either seen, or wakes the loop again
        self._wake()
