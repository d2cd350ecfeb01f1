"""Channels: simulated connections between a process and the storage, which deliver items in order and, if wanted, with a delay."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

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
