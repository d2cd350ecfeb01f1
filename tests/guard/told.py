"""A guard that makes no requests."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from topicpolicies_server.guard import Guard
from topicpolicies_server.namespaces.registry import Registry


class Told(Guard):
    """Finds what a test says."""

    def __init__(self, registry: Registry, *found: str) -> None:
        super().__init__(registry, cast("Any", None), ())
        self.begun = 0
        """How often ``find`` was called."""
        self._failures: asyncio.Queue[BaseException] = asyncio.Queue()
        self.tell(*found)

    def tell(self, *found: str, gone: tuple[str, ...] = ()) -> None:
        """Notes that namespaces were found, or are gone."""
        self._note((self.found | set(found)) - set(gone))

    def fail(self, error: BaseException) -> None:
        """Has ``find`` raise an error."""
        self._failures.put_nowait(error)

    async def find(self) -> None:
        """Raises the given errors."""
        self.begun += 1
        raise await self._failures.get()
