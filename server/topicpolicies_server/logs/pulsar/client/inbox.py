"""Hands results from the library's threads to the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """A queue from any thread to the event loop, which is woken once however many items come until it runs.

    Attributes:
        items: what has come and was not taken yet, oldest first.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        """``wake`` is called on the loop when there may be items."""
        self.items: deque[T] = deque()
        self._loop = loop
        self._wake = wake
        self._woken = False

    def put(self, item: T) -> None:
        """Adds an item. Never raises and never waits; once the loop is closed, it is not woken any more."""
        self.items.append(item)
        if not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # the loop is closed, so nothing is left to wake
                self._loop.call_soon_threadsafe(self._come)

    def _come(self) -> None:
        self._woken = False  # reset before the items are read: a later item is either seen now, or wakes the loop again
        self._wake()
