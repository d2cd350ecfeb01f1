"""What uses a namespace: one that nothing uses may be closed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator


class Usage:
    """The watchers, holders and waiting requests of one namespace."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begins unused. ``loop``: the event loop, whose clock counts."""
        self._loop = loop
        self.watching: dict[object, Callable[[], None] | None] = {}
        """Watchers and observers, with what wakes those that follow the state of the namespace."""
        self.holders: set[object] = set()
        """Parts of the server that keep the namespace loaded."""
        self.pending = 0
        """How many requests have no answer yet."""
        self.last_used = loop.time()
        """When the namespace was used last, in seconds of the loop's clock."""

    @property
    def any(self) -> bool:
        """Whether the namespace is watched, held, or awaited by a request."""
        return bool(self.watching) or bool(self.holders) or self.pending > 0

    def is_watched(self) -> bool:
        """Returns whether the namespace is watched."""
        return bool(self.watching)

    def wake(self) -> None:
        """Wakes the observers that follow the state of the namespace: it may have changed."""
        for wake in filter(None, self.watching.values()):
            wake()

    def used(self) -> None:
        """Notes that the namespace is used now."""
        self.last_used = self._loop.time()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Counts a request that waits, for as long as the context lasts."""
        self.pending += 1
        try:
            yield
        finally:
            self.pending -= 1
