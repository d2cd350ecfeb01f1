"""The guard as a service of its own: it has no API, it only heals, and logs what it heals."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial

from ..config import GuardConfig, insecure
from ..core.fold.fold import FoldContext
from ..health import LogProbe, Pulse, report
from ..logs.pulsar.admin import admin_api
from ..logs.pulsar.log import pulsar_log
from ..metrics import Endpoint, ServerCollector
from ..namespaces.registry import Registry
from ..reloading import Reloader
from .discovery import discovery
from .guard import Guard, tell_of_healing

_LOG = logging.getLogger(__name__)


class GuardService:
    """A guard with all that it needs (``process.Service``)."""

    def __init__(self, config: GuardConfig) -> None:
        """``config``: the guard's whole configuration."""
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
            admin = admin_api(config.log)
            parts.push_async_callback(admin.close)
            log = pulsar_log(config.log, config.limits)
            parts.push_async_callback(log.close)
            registry = Registry(log, config.limits, FoldContext(), read_only=config.report_only, pause_repairs=config.pause_repairs)
            parts.push_async_callback(registry.close)
            probe = LogProbe(log, config.limits.log_patience_seconds)
            registry.heed(probe.readiness)
            parts.push_async_callback(probe.stop)
            await probe.start()
            registry.activity.on_repair = tell_of_healing
            guard = Guard(registry, discovery(admin, config.patterns, config.limits))
            parts.push_async_callback(guard.stop)
            if config.metrics_listen is not None:
                pulse = Pulse()
                parts.callback(pulse.stop)
                health = partial(report, probe.readiness, pulse)
                parts.push_async_callback(Endpoint(config.metrics_listen, ServerCollector(registry, guard), health).close)
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
