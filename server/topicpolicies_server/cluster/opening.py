"""Opens the admission of a server, with the source of facts that its configuration names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..config import LogConfig, PulsarLogConfig
from ..core.errors import Kind, PolicyError
from ..core.reasons import Reason
from ..logs.change_log import LogError
from .admission import FROM_BROKERS, FROM_FILE, Admission


async def open_admission(
    config: LogConfig, *, missing_topics: bool = False, refuses: Callable[[], PolicyError | None] = lambda: None
) -> Admission | None:
    """Returns what admits requests: with Pulsar's log it asks the brokers, with the embedded log it reads a file, if one is configured.

    Args:
        config: where the change logs are.
        missing_topics: whether updates of topics that do not exist are accepted.
        refuses: returns the error with which requests to brokers are refused now; None: they can be sent.

    Raises:
        LogError: the file, or one that the connection needs, can't be used.
    """
    now = asyncio.get_running_loop().time
    if isinstance(config, PulsarLogConfig):
        from ..logs.pulsar.admin import admin_api  # noqa: PLC0415 - what a server does not use is not imported
        from .admin import AdminSource  # noqa: PLC0415

        try:
            admin = admin_api(config)
        except OSError as error:
            raise LogError(
                Reason.CLUSTER_UNAVAILABLE, f"A TLS file for Pulsar can't be used: {error}.", kind=Kind.FAILED_PRECONDITION
            ) from error
        brokers = AdminSource(admin, config.service_url, missing_topics=missing_topics, refuses=refuses)
        return Admission(brokers, now, FROM_BROKERS, missing_topics=missing_topics)
    if config.cluster_file is None:
        return None
    from .file import FileSource  # noqa: PLC0415

    source = FileSource(config.cluster_file)
    await source.cluster()  # reports a file that can't be read now, before the first request
    return Admission(source, now, FROM_FILE, missing_topics=missing_topics)
