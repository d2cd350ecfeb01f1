"""The change log that a configuration names, opened. Each backend is imported only where it is used."""

from __future__ import annotations

from collections.abc import Callable

from ..config import Limits, LogConfig, PulsarLogConfig
from ..logs.change_log import ChangeLog


async def open_log(config: LogConfig, limits: Limits, advertised: Callable[[], str]) -> ChangeLog:
    """The change log that a configuration names.

    Args:
        config: which, and how.
        limits: how much may be in flight.
        advertised: where clients reach this server, asked for when it has begun to listen.

    Raises:
        LogError: it can't be opened.
    """
    if isinstance(config, PulsarLogConfig):
        from ..logs.pulsar.opening import pulsar_log  # noqa: PLC0415

        return pulsar_log(config, limits, advertised)
    if config.path is None:
        from ..logs.memory import MemoryLog  # noqa: PLC0415

        return MemoryLog(in_flight_limit=limits.max_in_flight_per_namespace)
    from ..logs.sqlite import Compaction, SqliteLog  # noqa: PLC0415

    log = SqliteLog(
        config.path,
        compaction=Compaction(
            retention_ms=int(limits.retention_seconds * 1000),
            retained=limits.max_retained_events,
            retained_bytes=limits.max_retained_bytes,
        ),
        in_flight_limit=limits.max_in_flight_per_namespace,
        in_flight_bytes=limits.max_in_flight_bytes,
    )
    await log.start()
    return log
