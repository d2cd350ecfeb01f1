"""A fake discovery, which makes no requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator

from topicpolicies_server.guard.discovery import Changes, Discovery


class Told(Discovery):
    """Yields the changes that a test gives it."""

    def __init__(self, *found: str) -> None:
        self.asked: Counter[str] = Counter()
        self.begun = 0
        """How often ``changes`` was called."""
        self._telling: asyncio.Queue[Changes | BaseException] = asyncio.Queue()
        self.tell(*found)

    def tell(self, *found: str, gone: tuple[str, ...] = ()) -> None:
        """Yields that namespaces were found, or are gone."""
        self._telling.put_nowait(Changes(frozenset(found), frozenset(gone)))

    def fail(self, error: BaseException) -> None:
        """Has ``changes`` raise an error."""
        self._telling.put_nowait(error)

    async def changes(self) -> AsyncGenerator[Changes, None]:
        """Yields the given changes."""
        self.begun += 1
        while True:
            told = await self._telling.get()
            if isinstance(told, BaseException):
                raise told
            yield told
