"""Opens the authority that a server's configuration names."""

from __future__ import annotations

import asyncio

from ..config import AuthorizationConfig, LogConfig, PulsarLogConfig
from ..core.errors import Kind
from ..core.reasons import Reason
from ..logs.change_log import LogError
from ..reloading import Reloader
from .authority import ByRoles
from .roles_file import RolesFile


async def open_authority(config: AuthorizationConfig, log: LogConfig, reloader: Reloader) -> ByRoles | None:
    """Opens what decides about permissions; None: nothing does, and every caller may do everything.

    Args:
        config: what decides.
        log: where the change logs are: their brokers may decide.
        reloader: reads the file again when it changes.

    Raises:
        LogError: the file, or one that the connection needs, can't be used.
    """
    if config.file is not None:
        roles = RolesFile(config.file, reloader)
        await roles.start()
        return ByRoles(roles)
    if not config.brokers:
        return None
    assert isinstance(log, PulsarLogConfig), "the configuration is valid"
    from ..logs.pulsar.admin import admin_api  # noqa: PLC0415 - what a server does not use is not imported
    from .broker_roles import BrokerRoles  # noqa: PLC0415

    try:
        admin = admin_api(log)
    except OSError as error:
        raise LogError(
            Reason.CLUSTER_UNAVAILABLE, f"A TLS file for Pulsar can't be used: {error}.", kind=Kind.FAILED_PRECONDITION
        ) from error
    return ByRoles(
        BrokerRoles(
            admin,
            asyncio.get_running_loop().time,
            superusers=frozenset(config.superuser_roles),
            namespace_roles=config.namespace_roles_may_read,
            fresh_seconds=config.cache_seconds,
        )
    )
