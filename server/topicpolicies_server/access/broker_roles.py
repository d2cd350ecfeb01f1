"""Who may do what beside Pulsar: as its brokers decide, by what their admin API tells of roles.

===============================  ==================================================================  ==============================
role                             source                                                              may
===============================  ==================================================================  ==============================
a superuser                      the option ``superuser_roles``; the brokers' ``superUserRoles``,    everything
                                 if they let this server see their configuration
an admin role of the tenant      ``GET tenants/TENANT``                                              all but see secrets
a role that may produce,         ``GET namespaces/NAMESPACE/permissions``, if                        read and watch
consume or the like there        ``namespace_roles_may_read``
another                                                                                              nothing
===============================  ==================================================================  ==============================

Source: ``PulsarAuthorizationProvider.allowTopicPolicyOperationAsync``, which for reading and changing alike asks for
``validateTenantAdminAccess``: a superuser, or an admin role of the topic's tenant. So without ``namespace_roles_may_read`` nobody may
here what the brokers' admin API would refuse him.

A role may as soon as one of these is known to let it; it may not only when all of them are known. What can't be known is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..cluster.cache import Cache
from ..core.errors import Kind, PolicyError
from ..core.reasons import Reason
from ..logs.change_log import LogError
from ..logs.pulsar.admin import Admin
from ..logs.pulsar.admin.answer import names_of, understood
from .authority import Permission

_HERE = ""
"""The only key of the question for superusers."""
_MOST = 10_000
"""Tenants, and namespaces, of which answers are kept."""
_AT_ONCE = 8
"""Questions at a time: the admin API has other callers, and so has this server's client of it."""
_SECONDS = 5.0
"""How long a question is repeated while brokers do not answer."""
_NOBODY: frozenset[str] = frozenset()
_OF_NAMESPACES = frozenset({Permission.READ, Permission.WATCH})


class BrokerRoles:
    """Decides as brokers do (``authority.Roles``). It belongs to the event loop that it is first used on."""

    def __init__(
        self,
        admin: Admin,
        now: Callable[[], float],
        *,
        superusers: frozenset[str] = _NOBODY,
        namespace_roles: bool = False,
        fresh_seconds: float = 30.0,
    ) -> None:
        """Asks nothing yet.

        Args:
            admin: the brokers' admin API. It is closed with this.
            now: monotonic seconds.
            superusers: roles that may do everything, whatever brokers say.
            namespace_roles: whether the roles of a namespace may read it.
            fresh_seconds: how long answers hold. In the second half of that time a use has them asked for anew, beside.
        """
        self._admin = admin
        self._superusers = superusers - {""}
        self._namespace_roles = namespace_roles
        places = asyncio.Semaphore(_AT_ONCE)
        self._brokers = Cache(self._ask_superusers, fresh_seconds=fresh_seconds, most=1, now=now, places=places)
        self._tenants = Cache(self._ask_tenant, fresh_seconds=fresh_seconds, most=_MOST, now=now, places=places)
        self._namespaces = Cache(self._ask_namespace, fresh_seconds=fresh_seconds, most=_MOST, now=now, places=places)

    def at_once(self, role: str, namespace: str, permission: Permission) -> bool | None:
        """Whether a role may, as far as that is known now."""
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
        """Whether a role may.

        Raises:
            PolicyError: UNAVAILABLE (``AUTHORIZATION_UNKNOWN``), the brokers do not tell.
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
        """By what it is about: how many answers are kept, and how many at most; any thread may ask."""
        caches = {"superusers": self._brokers, "roles_of_tenants": self._tenants, "roles_of_namespaces": self._namespaces}
        return {name: (len(cache), cache.most) for name, cache in caches.items()}

    async def close(self) -> None:
        """Ends what is being asked, and closes the connections."""
        await asyncio.gather(*(cache.close() for cache in (self._brokers, self._tenants, self._namespaces)))
        await self._admin.close()

    def _asked(self, namespace: str, permission: Permission) -> list[tuple[Cache[str, frozenset[str]], str]]:
        """What a permission may come from, the likeliest first."""
        asked = [(self._brokers, _HERE)]
        if permission is not Permission.SECRETS:
            asked.insert(0, (self._tenants, namespace.partition("/")[0]))
            if self._namespace_roles and permission in _OF_NAMESPACES:
                asked.append((self._namespaces, namespace))
        return asked

    @understood
    async def _ask_superusers(self, _: str) -> frozenset[str]:
        """The brokers' superusers; none if they do not let this server see their configuration."""
        try:
            settings = await self._admin.get("brokers", "configuration", "runtime", seconds=_SECONDS)
        except LogError as error:
            if error.reason == Reason.PULSAR_ADMIN_REFUSED:
                return _NOBODY
            raise
        said = (settings or {}).get("superUserRoles") or ""
        return frozenset(filter(None, (role.strip() for role in said.strip().removeprefix("[").removesuffix("]").split(","))))

    @understood
    async def _ask_tenant(self, tenant: str) -> frozenset[str]:
        """A tenant's admin roles; none if there is no such tenant."""
        answer = await self._admin.get("tenants", tenant, seconds=_SECONDS)
        return frozenset(names_of((answer or {}).get("adminRoles")))

    @understood
    async def _ask_namespace(self, namespace: str) -> frozenset[str]:
        """The roles that may do something in a namespace; none if there is no such namespace."""
        answer = await self._admin.get("namespaces", *namespace.split("/"), "permissions", seconds=_SECONDS)
        return frozenset(role for role, actions in (answer or {}).items() if names_of(actions))
