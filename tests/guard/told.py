"""A fake discovery, which makes no requests."""

from __future__ import annotations

import asyncio
from collections import Counter

from topicpolicies_server.guard.discovery import Discovery


class Told(Discovery):
    """Finds what a test says."""

    def __init__(self, *found: str) -> None:
        self.asked: Counter[str] = Counter()
        self.found: frozenset[str] = frozenset()
        self.changed = asyncio.Event()
        self.begun = 0
        """How often ``run`` was called."""
        self._failures: asyncio.Queue[BaseException] = asyncio.Queue()
        self.tell(*found)

    def tell(self, *found: str, gone: tuple[str, ...] = ()) -> None:
        """Notes that namespaces were found, or are gone."""
        self._note((self.found | set(found)) - set(gone))

    def fail(self, error: BaseException) -> None:
        """Has ``run`` raise an error."""
        self._failures.put_nowait(error)

    async def run(self) -> None:
        """Raises the given errors."""
        self.begun += 1
        raise await self._failures.get()
