"""The guard keeps the namespaces loaded that the discovery finds, so that they are repaired, and logs each repair.

It runs in a server, or as a service of its own, which has no API.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from ..config import GuardConfig, insecure
from ..core.errors import PolicyError
from ..core.fold.fold import FoldContext
from ..files import Reloader
from ..namespaces.activity import Repair, difference, event_in_words
from ..namespaces.namespace import Namespace
from ..namespaces.registry import Registry
from ..ops.http import Endpoint
from ..ops.metrics import ServerCollector
from ..readiness import Readiness
from ..tasks import RestartedTask
from .discovery import Discovery

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
        self._registry = registry
        self._discovery = discovery
        self._held: dict[str, Namespace] = {}
        runs = {"finding out which namespaces to guard": discovery.run, "guarding the namespaces that were found": self._follow}
        self._tasks = [RestartedTask(name, run, first_seconds=_AGAIN_SECONDS, longest_seconds=_AGAIN_SECONDS) for name, run in runs.items()]

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
        self._let_go(set(self._held))

    async def _follow(self) -> None:
        """Guards what the discovery has found, whenever that changes; what could not be loaded is tried again from time to time."""
        found, tries = self._discovery, 0
        while True:
            found.changed.clear()
            self._let_go(self._held.keys() - found.found)
            await self._keep(found.found - self._held.keys(), tell=tries % _TELL_EVERY == 0)
            try:
                async with asyncio.timeout(_AGAIN_SECONDS):
                    await found.changed.wait()
                tries = 0
            except TimeoutError:
                tries += 1

    async def _keep(self, names: AbstractSet[str], *, tell: bool) -> None:
        """Loads namespaces that are to be guarded, as far as there is room. Others have their turns between: there may be thousands."""
        refusals: list[tuple[str, PolicyError]] = []
        for number, name in enumerate(sorted(names), start=1):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            try:
                namespace = self._registry.get(name)
            except PolicyError as error:
                refusals.append((name, error))
                continue
            namespace.hold(self)
            self._held[name] = namespace
            _LOG.info("%s is guarded", name)
        if refusals and tell:
            first, why = refusals[0]
            _LOG.warning("%s and %d others can't be guarded yet: %s", first, len(refusals) - 1, why.message)

    def _let_go(self, names: AbstractSet[str]) -> None:
        for name in names:
            self._held.pop(name).release(self)
            _LOG.info("%s is not guarded any more", name)


class GuardService:
    """A guard with all that it needs (``process.Service``)."""

    def __init__(self, config: GuardConfig) -> None:
        self.config = config
        self.reloader = Reloader()
        """The files that are read anew while the guard runs."""
        self.registry: Registry
        """The namespaces; set once the guard is started."""
        self._turn = asyncio.Lock()
        """Held by whatever starts or stops the guard, so that a stop waits until a start, or another stop, has ended."""
        self._parts = contextlib.AsyncExitStack()
        """Closes the parts: the last one first, and each of them even if closing another one fails."""

    async def start(self) -> None:
        """Begins to guard.

        Raises:
            LogError: the log can't be used.
            OSError: the metrics' address can't be listened on, or a file can't be read.
        """
        config = self.config
        async with self._turn, contextlib.AsyncExitStack() as parts:
            from ..logs.pulsar.admin import admin_api  # noqa: PLC0415 - only a guard needs these libraries
            from ..logs.pulsar.log import pulsar_log  # noqa: PLC0415

            admin = admin_api(config.log)
            parts.push_async_callback(admin.close)
            log = pulsar_log(config.log, config.limits)
            parts.push_async_callback(log.close)
            readiness = Readiness(config.limits.log_patience_seconds, log)
            registry = Registry(
                log,
                config.limits,
                FoldContext(),
                read_only=config.report_only,
                pause_repairs=config.pause_repairs,
                readiness=readiness,
            )
            parts.push_async_callback(registry.close)
            parts.push_async_callback(readiness.stop)
            await readiness.start()
            registry.common.activity.on_repair = tell_of_healing
            guard = Guard(registry, Discovery(admin, config.guard))
            parts.push_async_callback(guard.stop)
            if config.metrics_listen is not None:
                parts.push_async_callback(Endpoint(config.metrics_listen, ServerCollector(registry, guard), readiness.report).close)
            guard.start()
            for sentence in insecure(config):
                _LOG.warning("insecure: %s", sentence)
            parts.push_async_callback(self.reloader.close)
            self.reloader.start()
            self.registry, self._parts = registry, parts.pop_all()

    async def stop(self) -> None:
        """Releases all namespaces, and closes the log."""
        async with self._turn:
            await self._parts.aclose()


def tell_of_healing(repair: Repair, published: bool) -> None:
    """Logs a repair that was published, or would have been if anything might be written.

    One line has the document before and after, and the event that caused the repair. A repair may change no setting: if an event that
    changed nothing stands behind the head's own event in the log, brokers show the right document, but a reader that knows nothing but this
    newest event would take the document for another version. Then the version and its requests are what is repaired.
    """
    verb = "healed" if published else "would heal"
    name = f"{repair.key.topic} ({repair.key.scope.name})"
    cause = "it was so when the log was opened" if repair.cause is None else f"because of {event_in_words(repair.cause)}"
    what = difference(repair.raw, repair.after)
    if repair.raw == repair.after:
        what = f"no setting, but the log's newest event does not name version {repair.version} with all its requests"
    _LOG.info("%s %s: %s; %s", verb, name, what, cause)
