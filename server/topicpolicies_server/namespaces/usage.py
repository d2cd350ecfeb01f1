"""Who uses a namespace: what nobody uses may be closed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator


class Usage:
    """The users of one namespace."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Nobody uses it. ``loop``: whose clock counts."""
        self._loop = loop
        self.watching: set[object] = set()
        """Watchers and observers."""
        self.holders: set[object] = set()
        """Whoever keeps it loaded."""
        self.pending = 0
        """Requests without an answer."""
        self.last_used = loop.time()
        """The loop's time of the last use, in seconds."""

    @property
    def any(self) -> bool:
        """Whether anybody watches, holds it, or waits for an answer."""
        return bool(self.watching) or bool(self.holders) or self.pending > 0

    def is_watched(self) -> bool:
        """Whether anybody watches."""
        return bool(self.watching)

    def used(self) -> None:
        """It is used now."""
        self.last_used = self._loop.time()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Somebody waits for an answer meanwhile."""
        self.pending += 1
        try:
            yield
        finally:
            self.pending -= 1
