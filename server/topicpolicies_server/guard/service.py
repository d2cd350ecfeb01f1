"""A guard as a service of its own, which has no API."""

from __future__ import annotations

import contextlib
import logging

from ..config import GuardConfig, insecure
from ..core.fold.fold import FoldContext
from ..files import Reloader
from ..logs.pulsar.log import pulsar_log
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
        """Has no files: the log reads those for its connections anew by itself."""
        self.registry: Registry
        """The namespaces; set once the guard is started."""
        self._parts = contextlib.AsyncExitStack()
        """Closes the parts: the last one first, and each of them even if closing another one fails."""

    async def start(self) -> None:
        """Begins to guard.

        Raises:
            LogError: the log can't be used.
            OSError: the metrics' address can't be listened on, or a file can't be read.
        """
        config = self.config
        async with contextlib.AsyncExitStack() as parts:
            log = pulsar_log(config.log)
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
            guard = Guard(registry, log.admin, config.guard)
            parts.push_async_callback(guard.stop)
            if config.metrics_listen is not None:
                metrics = ServerCollector(registry, guarded=lambda: guard.guarded)
                parts.push_async_callback(Endpoint(config.metrics_listen, metrics, readiness.report).close)
            guard.start()
            for sentence in insecure(config):
                _LOG.warning("insecure: %s", sentence)
            self.registry, self._parts = registry, parts.pop_all()

    async def stop(self) -> None:
        """Releases all namespaces, and closes the log."""
        await self._parts.aclose()
