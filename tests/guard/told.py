"""A discovery that asks nobody."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator

from topicpolicies_server.guard.findings import Changes


class Told:
    """Tells what a test has it tell."""

    def __init__(self, *found: str) -> None:
        self.asked: Counter[str] = Counter()
        self.begun = 0
        """How often somebody began to ask for changes."""
        self._telling: asyncio.Queue[Changes | BaseException] = asyncio.Queue()
        self.tell(*found)

    def tell(self, *found: str, gone: tuple[str, ...] = ()) -> None:
        """Namespaces are found, or gone."""
        self._telling.put_nowait(Changes(frozenset(found), frozenset(gone)))

    def fail(self, error: BaseException) -> None:
        """It ends with an error."""
        self._telling.put_nowait(error)

    async def changes(self) -> AsyncGenerator[Changes, None]:
        """What it was told to tell."""
        self.begun += 1
        while True:
            told = await self._telling.get()
            if isinstance(told, BaseException):
                raise told
            yield told
