"""What a caller may do in a namespace: the permissions, and who grants them.

The facts that decide are cached. If all that a question needs are known, the answer is a set of permissions, else an awaitable that finds
out. While the facts can't be known, calls are refused (UNAVAILABLE, ``AUTHORIZATION_UNKNOWN``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, TypeAlias

from ..config import AuthorizationConfig
from ..core.errors import Kind, PolicyError
from ..core.reasons import Reason
from ..files import Reloader
from .caller import EVERYTHING, Caller, Granted, Permission
from .roles_file import RolesFile

if TYPE_CHECKING:
    from ..logs.pulsar.admin import Admin


Granting: TypeAlias = Callable[[str, str], Granted | Awaitable[Granted]]
"""Returns the permissions of a role ("": there is no principal) in a namespace, or an awaitable that finds out: by a file (``roles_file``),
or as brokers do (``broker_roles``). Raises ``PolicyError``: UNAVAILABLE, they can't be known now."""


class Grants:
    """Permits calls. A call through a proxy has the permissions that both roles have.

    Source: ``AuthorizationService.allowTopicPolicyOperationAsync`` with an original role.
    """

    def __init__(self, roles: Granting | None, *, show_secrets: bool = False) -> None:
        """Without ``roles`` every caller may do everything but override constraints, and see secrets if they are shown."""
        self.roles = roles
        """None: no permission is ever denied."""
        self._of_all = EVERYTHING - {Permission.OVERRIDE} - (frozenset() if show_secrets else {Permission.SECRETS})

    def of(self, caller: Caller, namespace: str, needed: tuple[Permission, ...]) -> Granted | Awaitable[Granted]:
        """Returns all permissions of a caller that has those which are needed in a namespace, or an awaitable that finds out.

        Raises:
            PolicyError: PERMISSION_DENIED, it lacks one of them; UNAVAILABLE, that can't be known now.
        """
        if self.roles is None:
            return self._of_all
        granted = self.roles(caller.role, namespace)
        if isinstance(granted, frozenset) and not caller.speaks_for:
            return _checked(granted, caller, namespace, needed)
        return self._later(self.roles, granted, caller, namespace, needed)

    async def _later(
        self, roles: Granting, granted: Granted | Awaitable[Granted], caller: Caller, namespace: str, needed: tuple[Permission, ...]
    ) -> Granted:
        granted = await known(granted)
        if caller.speaks_for:
            granted &= await known(roles(caller.principal, namespace))
        return _checked(granted, caller, namespace, needed)


async def known(granted: Granted | Awaitable[Granted]) -> Granted:
    """Returns what is granted, as soon as it is known."""
    return granted if isinstance(granted, frozenset) else await granted


def _checked(granted: Granted, caller: Caller, namespace: str, needed: tuple[Permission, ...]) -> Granted:
    for permission in needed:
        if permission not in granted:
            raise _denied(caller, namespace, permission)
    return granted


def _denied(caller: Caller, namespace: str, permission: Permission) -> PolicyError:
    who = f'"{caller.role}"' if caller.role else "An unauthenticated caller"
    through = f', for whom "{caller.principal}" calls,' if caller.speaks_for else ""
    metadata = {"permission": permission.value, "namespace": namespace}
    sentence = f'{who}{through} may not do this in {namespace}: it needs the permission "{permission.value}" there.'
    return PolicyError(Kind.PERMISSION_DENIED, Reason.PERMISSION_DENIED, sentence, metadata=metadata)


def open_roles(config: AuthorizationConfig, admin: Admin | None, reloader: Reloader, opened: AsyncExitStack) -> Granting | None:
    """Opens what grants permissions: a file, which ``reloader`` reads again, or the brokers (``admin``); None: nothing does.

    ``opened`` closes it.

    Raises:
        RuntimeError: the file can't be used.
    """
    if config.file is not None:
        return RolesFile(config.file, reloader).granted
    if not config.brokers:
        return None
    assert admin is not None, "the configuration is valid"
    from .broker_roles import BrokerRoles  # noqa: PLC0415 - what a server does not use is not imported

    now = asyncio.get_running_loop().time
    roles = BrokerRoles(admin, now, superusers=frozenset(config.superuser_roles), fresh_seconds=config.cache_seconds)
    opened.push_async_callback(roles.close)
    return roles.granted
