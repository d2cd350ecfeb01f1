"""The guard itself: it keeps namespaces loaded, those that it is told of."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Protocol

from ..core.errors import PolicyError
from ..namespaces.namespace import Namespace
from ..namespaces.registry import Registry
from ..tasks import Kept

if TYPE_CHECKING:
    from .findings import Changes  # which needs the libraries for brokers

_LOG = logging.getLogger(__name__)
_AGAIN_SECONDS = 10.0
"""When to try again what did not succeed."""
_TELL_EVERY = 6
"""Every so many tries it is told that one did not succeed."""


class Discovering(Protocol):
    """Who knows which namespaces are to be guarded (``discovery.Discovery``)."""

    @property
    def asked(self) -> Mapping[str, int]:
        """Questions to brokers, by what they were about."""

    def changes(self) -> AsyncGenerator[Changes, None]:
        """What changed, for ever. It can be begun again, and goes on from there."""


class Guard:
    """Keeps namespaces of a registry loaded. What is loaded is repaired."""

    def __init__(self, registry: Registry, discovery: Discovering) -> None:
        """Does nothing before ``start``.

        Args:
            registry: whose namespaces are kept.
            discovery: knows which are to be kept.
        """
        self._registry = registry
        self._discovery = discovery
        self._held: dict[str, Namespace] = {}
        self._waiting: set[str] = set()
        """Those that are to be kept, and are not yet: the registry is full, or closing."""
        runs = {"finding out which namespaces to guard": self._follow, "guarding what is found": self._insist}
        self._tasks = [
            Kept(name, run, first_seconds=_AGAIN_SECONDS, longest_seconds=_AGAIN_SECONDS, failed=self._failed) for name, run in runs.items()
        ]

    @property
    def guarded(self) -> int:
        """Namespaces that are kept loaded."""
        return len(self._held)

    @property
    def asked(self) -> Mapping[str, int]:
        """Questions to brokers about which namespaces there are, by what they were about."""
        return self._discovery.asked

    def start(self) -> None:
        """Begins to guard."""
        for task in self._tasks:
            task.start()

    async def stop(self) -> None:
        """Lets all namespaces go."""
        for task in self._tasks:
            await task.stop()
        self._waiting.clear()
        self._let_go(set(self._held))

    async def _follow(self) -> None:
        """For ever; if it fails, what is guarded stays, and it is begun again (``tasks.Kept``)."""
        while True:
            async with contextlib.aclosing(self._discovery.changes()) as told:
                async for changes in told:
                    self._let_go(changes.gone)
                    self._waiting |= changes.found
                    self._keep(tell=bool(changes.found))
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _insist(self) -> None:
        tries = 0
        while True:
            await asyncio.sleep(_AGAIN_SECONDS)
            tries = tries + 1 if self._waiting else 0
            self._keep(tell=tries % _TELL_EVERY == 0)

    def _failed(self, _: BaseException) -> None:
        """A task has failed, which its owner has told."""
        _LOG.warning("Of the guarded namespaces the %d stay, and it is tried again", len(self._held))

    def _keep(self, *, tell: bool) -> None:
        """Loads what waits for it, as far as there is room."""
        refusals: list[tuple[str, PolicyError]] = []
        for name in sorted(self._waiting):
            try:
                namespace = self._registry.get(name)
            except PolicyError as error:
                refusals.append((name, error))
                continue
            self._waiting.discard(name)
            namespace.hold(self)
            self._held[name] = namespace
            _LOG.info("%s is guarded", name)
        if refusals and tell:
            first, why = refusals[0]
            _LOG.warning("%s and %d others can't be guarded yet: %s", first, len(refusals) - 1, why.message)

    def _let_go(self, names: frozenset[str] | set[str]) -> None:
        for name in names:
            self._waiting.discard(name)
            namespace = self._held.pop(name, None)
            if namespace is not None:
                namespace.release(self)
                _LOG.info("%s is not guarded any more", name)
