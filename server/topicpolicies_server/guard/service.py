"""A guard as a service of its own, which has no API; and the lines about what a guard heals."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from ..config import GuardConfig, insecure
from ..core.fold.fold import FoldContext
from ..files import Reloader
from ..namespaces.activity import Repair, difference, event_in_words
from ..namespaces.registry import Registry
from ..ops.http import Endpoint
from ..ops.metrics import ServerCollector
from ..readiness import Readiness
from .guard import Guard

_LOG = logging.getLogger(__name__)


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
            guard = Guard(registry, admin, config.guard)
            parts.push_async_callback(guard.stop)
            if config.metrics_listen is not None:
                metrics = ServerCollector(registry, guarded=lambda: guard.guarded)
                parts.push_async_callback(Endpoint(config.metrics_listen, metrics, readiness.report).close)
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
