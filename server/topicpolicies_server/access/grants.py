"""What a caller may do in a namespace: the permissions, and who grants them.

The facts that decide are cached. If all that a question needs are known, the answer is a set of permissions, else an awaitable that finds
out. While the facts can't be known, calls are refused (UNAVAILABLE, ``AUTHORIZATION_UNKNOWN``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Protocol

from ..config import AuthorizationConfig, LogConfig, PulsarLogConfig
from ..files import Reloader
from .caller import Caller, Granted
from .roles_file import RolesFile


class Roles(Protocol):
    """Grants permissions to roles: by a file (``roles_file``), or as brokers do (``broker_roles``)."""

    def granted(self, role: str, namespace: str) -> Granted | Awaitable[Granted]:
        """Returns the permissions of a role in a namespace, or an awaitable that finds out. ``role``: "" if there is no principal.

        Raises:
            PolicyError: UNAVAILABLE, they can't be known now.
        """

    async def close(self) -> None:
        """Ends the requests under way."""


class Grants:
    """Grants permissions to callers. A call through a proxy has the permissions that both roles have.

    Source: ``AuthorizationService.allowTopicPolicyOperationAsync`` with an original role.
    """

    def __init__(self, roles: Roles) -> None:
        """``roles``: grants permissions to roles; it is closed with this object."""
        self._roles = roles
        self.close = roles.close

    def __call__(self, caller: Caller, namespace: str) -> Granted | Awaitable[Granted]:
        """Returns the permissions of a caller in a namespace, or an awaitable that finds out.

        Raises:
            PolicyError: UNAVAILABLE, they can't be known now.
        """
        found = self._roles.granted(caller.role, namespace)
        return self._both(found, caller.principal, namespace) if caller.speaks_for else found

    async def _both(self, found: Granted | Awaitable[Granted], proxy: str, namespace: str) -> Granted:
        return await known(found) & await known(self._roles.granted(proxy, namespace))


async def known(granted: Granted | Awaitable[Granted]) -> Granted:
    """Returns what is granted, as soon as it is known."""
    return granted if isinstance(granted, frozenset) else await granted


async def open_grants(config: AuthorizationConfig, log: LogConfig, reloader: Reloader) -> Grants | None:
    """Opens what grants permissions; None: nothing does, and every caller may do everything.

    Args:
        config: who grants.
        log: where the change logs are: their brokers may decide.
        reloader: reads the file again when it changes.

    Raises:
        LogError: the file, or one that the connection needs, can't be used.
    """
    if config.file is not None:
        roles = RolesFile(config.file, reloader)
        await roles.start()
        return Grants(roles)
    if not config.brokers:
        return None
    assert isinstance(log, PulsarLogConfig), "the configuration is valid"
    from ..logs.pulsar.admin import admin_api  # noqa: PLC0415 - what a server does not use is not imported
    from .broker_roles import BrokerRoles  # noqa: PLC0415

    return Grants(
        BrokerRoles(
            admin_api(log),
            asyncio.get_running_loop().time,
            superusers=frozenset(config.superuser_roles),
            fresh_seconds=config.cache_seconds,
        )
    )
