"""The guard itself: it keeps namespaces loaded, and looks from time to time which there are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ..core.errors import Kind, PolicyError
from ..namespaces.namespace import Namespace
from ..namespaces.registry import Registry

_LOG = logging.getLogger(__name__)


class Guard:
    """Keeps namespaces of a registry loaded. What is loaded is repaired."""

    def __init__(self, registry: Registry, find: Callable[[], Awaitable[set[str]]], refresh_seconds: float) -> None:
        """Does nothing before ``start``.

        Args:
            registry: whose namespaces are kept.
            find: finds out which those are to be; raises ``PolicyError`` when that can't be told.
            refresh_seconds: how often to ask.
        """
        self._registry = registry
        self._find = find
        self._refresh_seconds = refresh_seconds
        self._held: dict[str, Namespace] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def guarded(self) -> int:
        """Namespaces that are kept loaded."""
        return len(self._held)

    def start(self) -> None:
        """Begins to guard."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="guard")

    async def stop(self) -> None:
        """Lets all namespaces go."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._keep(set())

    async def _run(self) -> None:
        while True:
            try:
                self._keep(await self._find())
            except PolicyError as error:
                _LOG.warning("it can't be told which namespaces to guard, so the %d stay: %s", len(self._held), error.message)
            await asyncio.sleep(self._refresh_seconds)

    def _keep(self, wanted: set[str]) -> None:
        for name in [name for name in self._held if name not in wanted]:
            self._held.pop(name).release(self)
            _LOG.info("%s is not guarded any more", name)
        for name in sorted(wanted - set(self._held)):
            try:
                namespace = self._registry.get(name)
            except PolicyError as error:
                _LOG.warning("%s can't be guarded: %s", name, error.message)
                if error.kind is Kind.RESOURCE_EXHAUSTED:
                    return
                continue
            namespace.hold(self)
            self._held[name] = namespace
            _LOG.info("%s is guarded", name)
