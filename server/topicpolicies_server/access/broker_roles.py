"""Permissions beside Pulsar: as its brokers decide, from what their admin API says about roles.

===============================  ==================================================================  ==============================
role                             source                                                              may
===============================  ==================================================================  ==============================
a superuser                      the option ``superuser_roles``; the brokers' ``superUserRoles``,    do everything
                                 if they let this server see their configuration
an admin role of the tenant      ``GET tenants/TENANT``                                              do all but see secrets
a role that may produce,         ``GET namespaces/NAMESPACE/permissions``, if                        read and watch
consume or the like there        ``namespace_roles_may_read``
another role                                                                                         do nothing
===============================  ==================================================================  ==============================

Source: ``PulsarAuthorizationProvider.allowTopicPolicyOperationAsync``, which for reading and changing alike calls
``validateTenantAdminAccess``: a superuser, or an admin role of the topic's tenant. So without ``namespace_roles_may_read`` no role may do
here what the brokers' admin API would refuse.

A role has a permission as soon as one of these sources is known to grant it, and lacks it only if all of them are known. While neither is
certain, the call is refused (``AUTHORIZATION_UNKNOWN``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..cluster.cache import Cache
from ..core.errors import Kind, PolicyError
from ..core.reasons import LogState, Reason
from ..logs.change_log import LogError
from ..logs.pulsar.admin import Admin
from ..logs.pulsar.admin.api import names_of, understood
from .authority import Permission

_HERE = ""
"""The only cache key of the superusers."""
_MOST = 10_000
"""How many tenants, and how many namespaces, have cached answers at most."""
_AT_ONCE = 8
"""How many requests are sent at a time: the admin API has other clients, and this server's admin client has other users."""
_SECONDS = 5.0
"""How long a request is repeated while brokers do not answer."""
_NOBODY: frozenset[str] = frozenset()
_OF_NAMESPACES = frozenset({Permission.READ, Permission.WATCH})


class BrokerRoles:
    """Decides as brokers do (``authority.Roles``). It is bound to the event loop on which it is first used."""

    def __init__(
        self,
        admin: Admin,
        now: Callable[[], float],
        *,
        superusers: frozenset[str] = _NOBODY,
        namespace_roles: bool = False,
        fresh_seconds: float = 30.0,
    ) -> None:
        """Creates the object; sends no request yet.

        Args:
            admin: the brokers' admin API. It is closed with this object.
            now: returns monotonic seconds.
            superusers: roles that may do everything, whatever brokers say.
            namespace_roles: whether roles with a permission in a namespace may read and watch it.
            fresh_seconds: how long answers are fresh. Their use in the second half of that time starts a refresh.
        """
        self._admin = admin
        self._superusers = superusers - {""}
        self._namespace_roles = namespace_roles
        places = asyncio.Semaphore(_AT_ONCE)
        self._brokers = Cache(self._ask_superusers, fresh_seconds=fresh_seconds, most=1, now=now, places=places)
        self._tenants = Cache(self._ask_tenant, fresh_seconds=fresh_seconds, most=_MOST, now=now, places=places)
        self._namespaces = Cache(self._ask_namespace, fresh_seconds=fresh_seconds, most=_MOST, now=now, places=places)

    def at_once(self, role: str, namespace: str, permission: Permission) -> bool | None:
        """Whether a role has a permission, if this is known without waiting; None: ``may`` has to find out."""
        if not role:
            return False
        if role in self._superusers:
            return True
        unknown = False
        for cache, key in self._asked(namespace, permission):
            roles = cache.peek(key)
            if roles is None:
                unknown = True
            elif role in roles:
                return True
        return None if unknown else False

    async def may(self, role: str, namespace: str, permission: Permission) -> bool:
        """Whether a role has a permission.

        Raises:
            PolicyError: UNAVAILABLE (``AUTHORIZATION_UNKNOWN``): the brokers do not answer.
        """
        known = self.at_once(role, namespace, permission)
        if known is not None:
            return known
        problem: PolicyError | None = None
        for cache, key in self._asked(namespace, permission):
            try:
                if role in await cache.get(key):
                    return True
            except LogError as error:
                problem = error
        if problem is not None:
            told = f"It is not known what roles may do in {namespace}: {problem.message}"
            raise PolicyError(Kind.UNAVAILABLE, Reason.AUTHORIZATION_UNKNOWN, told) from problem
        return False

    def kept(self) -> dict[str, tuple[int, int]]:
        """Returns how many answers are cached, and how many at most, by the name of the cache. Any thread may call this."""
        caches = {"superusers": self._brokers, "roles_of_tenants": self._tenants, "roles_of_namespaces": self._namespaces}
        return {name: (len(cache), cache.most) for name, cache in caches.items()}

    async def close(self) -> None:
        """Ends the requests under way, and closes the connections."""
        await asyncio.gather(*(cache.close() for cache in (self._brokers, self._tenants, self._namespaces)))
        await self._admin.close()

    def _asked(self, namespace: str, permission: Permission) -> list[tuple[Cache[str, frozenset[str]], str]]:
        """Returns the caches and keys that may grant a permission, the likeliest first."""
        asked = [(self._brokers, _HERE)]
        if permission is not Permission.SECRETS:
            asked.insert(0, (self._tenants, namespace.partition("/")[0]))
            if self._namespace_roles and permission in _OF_NAMESPACES:
                asked.append((self._namespaces, namespace))
        return asked

    @understood
    async def _ask_superusers(self, _: str) -> frozenset[str]:
        """Requests the brokers' superusers; none if they do not let this server see their configuration."""
        try:
            settings = await self._admin.get("brokers", "configuration", "runtime", seconds=_SECONDS)
        except LogError as error:
            if error.state is LogState.ADMIN_REFUSED:
                return _NOBODY
            raise
        said = (settings or {}).get("superUserRoles") or ""
        return frozenset(filter(None, (role.strip() for role in said.strip().removeprefix("[").removesuffix("]").split(","))))

    @understood
    async def _ask_tenant(self, tenant: str) -> frozenset[str]:
        """Requests a tenant's admin roles; none if the tenant does not exist."""
        answer = await self._admin.get("tenants", tenant, seconds=_SECONDS)
        return frozenset(names_of((answer or {}).get("adminRoles")))

    @understood
    async def _ask_namespace(self, namespace: str) -> frozenset[str]:
        """Requests the roles that have a permission in a namespace; none if the namespace does not exist."""
        answer = await self._admin.get("namespaces", *namespace.split("/"), "permissions", seconds=_SECONDS)
        return frozenset(role for role, actions in (answer or {}).items() if names_of(actions))
