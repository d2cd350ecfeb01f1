"""The guard as a service of its own: nobody can call it, it only heals, and tells of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..config import GuardConfig
from ..core.fold.fold import FoldContext
from ..logs.pulsar.opening import admin_api, pulsar_log
from ..metrics import Endpoint, ServerCollector
from ..namespaces.registry import Registry
from ..signals import until_told_to_stop
from .discovery import discovery
from .guard import Guard
from .healing import tell_of_healing


async def run(config: GuardConfig, started: Callable[[Registry], None] = lambda _: None) -> None:
    """Guards until SIGTERM or SIGINT.

    Args:
        config: everything that the guard is told.
        started: called when it guards.

    Raises:
        LogError: the log can't be used.
        OSError: the metrics' address can't be listened on.
    """
    log = pulsar_log(config.log, config.limits)
    registry = Registry(log, config.limits, FoldContext(), read_only=config.report_only, pause_repairs=config.pause_repairs)
    registry.activity.on_repair = tell_of_healing
    admin = admin_api(config.log)
    guard = Guard(registry, discovery(admin, config.patterns, config.limits))
    endpoint = None
    try:
        if config.metrics_listen is not None:
            endpoint = Endpoint(config.metrics_listen, ServerCollector(registry, guard))
        guard.start()
        await until_told_to_stop(registry.gate, lambda: started(registry))
    finally:
        if endpoint is not None:
            await endpoint.close()
        await guard.stop()
        await registry.close()
        await log.close()
        await admin.close()


def serve(config: GuardConfig, started: Callable[[Registry], None] = lambda _: None) -> None:
    """Guards in this thread until it is told to stop (see ``run``)."""
    asyncio.run(run(config, started))
