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
        self.tell(*found)

    def tell(self, *found: str, gone: tuple[str, ...] = ()) -> None:
        """Notes that namespaces were found, or are gone."""
        self._note((self.found | set(found)) - set(gone))

    async def find(self) -> None:
        """Finds nothing by itself."""
        await asyncio.Event().wait()
