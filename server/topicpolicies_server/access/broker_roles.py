"""Permissions beside Pulsar: as its brokers decide, from what their admin API says about roles (docs/security.md has the table).

Superusers may do everything; they are named by the option ``superuser_roles``, and by the brokers' ``superUserRoles`` if they let this
server see their configuration. Admin roles of a tenant (``GET tenants/TENANT``) may do all there but see secrets. The sources are asked in
this order, until one has the role. If one of them can't be known, the call is refused (``AUTHORIZATION_UNKNOWN``).

Source: ``PulsarAuthorizationProvider.allowTopicPolicyOperationAsync``, which for reading and changing alike calls
``validateTenantAdminAccess``: a superuser, or an admin role of the topic's tenant.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from ..cluster.cache import Cache
from ..core.errors import Kind, PolicyError
from ..core.reasons import Reason
from ..logs.change_log import LogError
from ..logs.pulsar.admin import Admin, names_of, understood
from ..logs.pulsar.facts import configuration
from .caller import EVERYTHING, NOTHING, Granted, Permission

_BROKERS = ""
_MOST = 10_000
_SECONDS = 5.0
_NOBODY: frozenset[str] = frozenset()
_OF_ADMINS = EVERYTHING - {Permission.SECRETS, Permission.OVERRIDE}


class BrokerRoles:
    """Grants as brokers do. It is bound to the event loop on which it is first used."""

    def __init__(
        self,
        admin: Admin,
        now: Callable[[], float],
        *,
        superusers: frozenset[str] = _NOBODY,
        fresh_seconds: float = 30.0,
    ) -> None:
        """Sends no request yet.

        ``superusers``: roles that may do everything, whatever brokers say; ``fresh_seconds``: how long answers are fresh (``Cache``).
        """
        self._admin = admin
        self._superusers = superusers - {""}
        self._roles = Cache(self._ask, fresh_seconds=fresh_seconds, most=_MOST, now=now)
        """The admin roles by tenant, and the superusers by ``_BROKERS``."""

    def granted(self, role: str, namespace: str) -> Granted | Awaitable[Granted]:
        """Returns the permissions of a role in a namespace, or an awaitable that finds out (``grants.Granting``)."""
        if not role:
            return NOTHING
        if role in self._superusers:
            return EVERYTHING
        for key, granted in _sources(namespace):
            roles = self._roles.peek(key)
            if roles is None:
                return self._asked(role, namespace)
            if role in roles:
                return granted
        return NOTHING

    async def _asked(self, role: str, namespace: str) -> Granted:
        try:
            for key, granted in _sources(namespace):
                if role in await self._roles.get(key):
                    return granted
        except LogError as error:
            told = f"It is not known what roles may do in {namespace}: {error.message}"
            raise PolicyError(Kind.UNAVAILABLE, Reason.AUTHORIZATION_UNKNOWN, told) from error
        return NOTHING

    async def close(self) -> None:
        """Ends the requests under way."""
        await self._roles.close()

    async def _ask(self, key: str) -> frozenset[str]:
        return await (self._ask_superusers() if key == _BROKERS else self._ask_tenant(key))

    @understood
    async def _ask_superusers(self) -> frozenset[str]:
        """Requests the brokers' superusers; none if they do not let this server see their configuration."""
        settings = await configuration(partial(self._admin.get, seconds=_SECONDS)) or {}
        said = settings.get("superUserRoles") or ""
        return frozenset(filter(None, (role.strip() for role in said.strip().removeprefix("[").removesuffix("]").split(","))))

    @understood
    async def _ask_tenant(self, tenant: str) -> frozenset[str]:
        """Requests a tenant's admin roles; none if the tenant does not exist."""
        answer = await self._admin.get("tenants", tenant, seconds=_SECONDS)
        return frozenset(names_of((answer or {}).get("adminRoles")))


def _sources(namespace: str) -> list[tuple[str, Granted]]:
    """Returns whose roles have permissions in a namespace, and which; those with the most come first."""
    return [(_BROKERS, EVERYTHING), (namespace.partition("/")[0], _OF_ADMINS)]
