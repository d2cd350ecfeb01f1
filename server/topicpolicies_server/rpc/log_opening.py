"""Opens the change log that the configuration names. A backend is imported only if it is used."""

from __future__ import annotations

from collections.abc import Callable

from ..config import Limits, LogConfig, PulsarLogConfig
from ..logs.change_log import ChangeLog


async def open_log(config: LogConfig, limits: Limits, advertised: Callable[[], str] | None) -> ChangeLog:
    """Opens the change log that a configuration names.

    Args:
        config: which log, and its options.
        limits: bound what is in flight, and what the embedded log retains.
        advertised: returns the address at which clients reach this server; called only once the server listens. None: the server never
            writes, so it need not be reached as a log's writer.

    Raises:
        LogError: the log can't be opened.
    """
    if isinstance(config, PulsarLogConfig):
        from ..logs.pulsar.log import pulsar_log  # noqa: PLC0415

        return pulsar_log(config, limits, advertised)
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
