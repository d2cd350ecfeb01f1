"""The guard keeps the namespaces loaded that the discovery finds, so that they are repaired, and logs each repair."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..core.errors import PolicyError
from ..namespaces.activity import Repair, difference, event_in_words
from ..namespaces.namespace import Namespace
from ..namespaces.registry import Registry
from ..tasks import RestartedTask

if TYPE_CHECKING:
    from .discovery import Discovery  # needs the libraries for brokers

_LOG = logging.getLogger(__name__)
_AGAIN_SECONDS = 10.0
"""How long to wait before another attempt."""
_TELL_EVERY = 6
"""One in so many failed attempts in a row is logged."""
_AT_ONCE = 10
"""How many namespaces begin to load before others have their turns: that takes some milliseconds."""


class Guard:
    """Keeps namespaces of a registry loaded, so that they are repaired."""

    def __init__(self, registry: Registry, discovery: Discovery) -> None:
        """Does nothing before ``start``.

        Args:
            registry: loads the namespaces.
            discovery: finds the namespaces that are to be guarded.
        """
        self._registry = registry
        self._discovery = discovery
        self._held: dict[str, Namespace] = {}
        self._waiting: set[str] = set()
        """Namespaces that are to be guarded and are not loaded yet, because the registry is full or closing."""
        runs = {"finding out which namespaces to guard": self._follow, "guarding the namespaces that were found": self._insist}
        self._tasks = [
            RestartedTask(name, run, first_seconds=_AGAIN_SECONDS, longest_seconds=_AGAIN_SECONDS, failed=self._failed)
            for name, run in runs.items()
        ]

    @property
    def guarded(self) -> int:
        """How many namespaces are kept loaded."""
        return len(self._held)

    @property
    def asked(self) -> Mapping[str, int]:
        """How many questions brokers were asked about which namespaces there are, by what they were about."""
        return self._discovery.asked

    def start(self) -> None:
        """Begins to guard."""
        for task in self._tasks:
            task.start()

    async def stop(self) -> None:
        """Releases all namespaces."""
        for task in self._tasks:
            await task.stop()
        self._waiting.clear()
        self._let_go(set(self._held))

    async def _follow(self) -> None:
        """Applies what the discovery yields, forever. If that fails, what is guarded stays, and it begins again (``RestartedTask``)."""
        async with contextlib.aclosing(self._discovery.changes()) as told:
            async for changes in told:
                self._let_go(changes.gone)
                self._waiting |= changes.found
                await self._keep(tell=bool(changes.found))

    async def _insist(self) -> None:
        tries = 0
        while True:
            await asyncio.sleep(_AGAIN_SECONDS)
            tries = tries + 1 if self._waiting else 0
            await self._keep(tell=tries % _TELL_EVERY == 0)

    def _failed(self, _: BaseException) -> None:
        """Logs how many namespaces stay guarded though a task has failed; the failure itself is logged by ``RestartedTask``."""
        _LOG.warning("The present %d guarded namespaces stay, and it is tried again", len(self._held))

    async def _keep(self, *, tell: bool) -> None:
        """Loads the namespaces that are to be guarded, as far as there is room. Others have their turns between: there may be thousands."""
        refusals: list[tuple[str, PolicyError]] = []
        for number, name in enumerate(sorted(self._waiting), start=1):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            if name not in self._waiting:
                continue  # the other task has loaded it meanwhile, or let it go
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


def tell_of_healing(repair: Repair, published: bool) -> None:
    """Logs a repair that was published, or would have been if anything might be written.

    One line has the document before and after, and the event that caused the repair. A repair may change no setting: if an event that
    changed nothing stands behind the head's own event in the log, brokers show the right document, but a reader that knows nothing but this
    newest event would take the document for another version. Then the version and its requests are what is repaired.
    """
    verb = "healed" if published else "would heal"
    name = f"{repair.key.topic} ({repair.key.scope.name})"
    cause = "it was so when the log was opened" if repair.cause is None else f"because of {event_in_words(repair.cause)}"
    what = difference(repair.before, repair.after)
    if repair.before == repair.after:
        what = f"no setting, but the log's newest event does not name version {repair.version} with all its requests"
    _LOG.info("%s %s: %s; %s", verb, name, what, cause)
