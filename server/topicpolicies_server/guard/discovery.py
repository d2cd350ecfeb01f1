"""Which namespaces match: what the patterns name, and what the brokers' admin API lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..config import PulsarLogConfig
from ..logs.pulsar.opening import admin_api
from .patterns import Pattern


class Answers(Protocol):
    """The admin API, as far as it is asked (``logs.pulsar.admin.Admin``)."""

    async def get(self, *path: str) -> object:
        """What it answers to ``GET /admin/v2/<path>``: the JSON, or None for "not found"."""


async def find(admin: Answers, patterns: Sequence[Pattern]) -> set[str]:
    """The namespaces that match any of the patterns, as ``tenant/namespace``.

    A pattern without wildcards names its namespace, whether or not there is one; whoever opens its log is told. Tenants are listed only
    if a pattern has a wildcard for them, which takes the permission of a superuser.

    Raises:
        LogError: the brokers don't answer.
    """
    found = {pattern.text for pattern in patterns if pattern.exact}
    searched = [pattern for pattern in patterns if not pattern.exact]
    tenants = {pattern.tenant for pattern in searched if pattern.exact_tenant}
    if any(not pattern.exact_tenant for pattern in searched):
        listed = _names(await admin.get("tenants"))
        tenants |= {tenant for tenant in listed if any(pattern.matches_tenant(tenant) for pattern in searched)}
    for tenant in sorted(tenants):
        listed = _names(await admin.get("namespaces", tenant))
        found |= {namespace for namespace in listed if any(pattern.matches(namespace) for pattern in searched)}
    return found


class Discovery:
    """Finds the namespaces of a cluster that match."""

    def __init__(self, config: PulsarLogConfig, patterns: tuple[str, ...]) -> None:
        """Asks nothing yet.

        Args:
            config: how the brokers are asked.
            patterns: which namespaces are wanted.

        Raises:
            OSError: a TLS file can't be used.
        """
        self._admin = admin_api(config)
        self._patterns = Pattern.of(patterns)

    async def find(self) -> set[str]:
        """The namespaces that match now.

        Raises:
            LogError: the brokers don't answer.
        """
        return await find(self._admin, self._patterns)

    async def close(self) -> None:
        """Closes the connections."""
        await self._admin.close()


def _names(answer: object) -> list[str]:
    return [name for name in answer if isinstance(name, str)] if isinstance(answer, list) else []
