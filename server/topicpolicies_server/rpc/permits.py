"""What the caller of a call may do in a namespace, and how documents are serialized for it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple

from ..access import Caller, Granted, Permission
from ..access.grants import Grants
from ..core.errors import Kind, PolicyError
from ..core.policies import documents, secrets
from ..core.reasons import Reason
from .answers import Wire
from .calls import Call


class Permit(NamedTuple):
    """What a caller that has the permissions for a call may see and do in a namespace."""

    wire: Wire
    """Serializes documents for the caller, with or without secrets."""
    overrides: bool = False
    """Whether its changes need not keep the constraints of declared policies."""


class Permits:
    """Permits calls."""

    def __init__(self, grants: Grants | None, *, show_secrets: bool = False) -> None:
        """Permits as ``grants`` say.

        Args:
            grants: says what callers may do; None: every caller may do everything but override constraints.
            show_secrets: whether answers have secrets; with ``grants``, a permission decides that.
        """
        self.grants = grants
        self.wire: Wire = documents.wire if show_secrets else secrets.wire
        """Serializes documents, unless a permission decides how."""
        self._open = Permit(self.wire)

    def permit(self, caller: Caller, namespace: str, permissions: tuple[Permission, ...]) -> Permit | Awaitable[Permit]:
        """Returns the permit of a caller that has permissions in a namespace, or an awaitable that finds out.

        Raises:
            PolicyError: PERMISSION_DENIED, it lacks one; UNAVAILABLE, that can't be known now.
        """
        if self.grants is None:
            return self._open
        granted = self.grants(caller, namespace)
        if isinstance(granted, frozenset):
            return _permit(granted, caller, namespace, permissions)
        return _later(granted, caller, namespace, permissions)

    async def of(self, call: Call, namespace: str, *permissions: Permission) -> Permit:
        """Returns the permit of a call; raises as ``permit``."""
        call.namespace = namespace
        permit = self.permit(call.caller, namespace, permissions)
        if not isinstance(permit, Permit):
            permit = await permit
        call.permitted = True
        return permit


async def _later(granted: Awaitable[Granted], caller: Caller, namespace: str, permissions: tuple[Permission, ...]) -> Permit:
    return _permit(await granted, caller, namespace, permissions)


def _permit(granted: Granted, caller: Caller, namespace: str, permissions: tuple[Permission, ...]) -> Permit:
    for permission in permissions:
        if permission not in granted:
            raise _denied(caller, namespace, permission)
    return Permit(documents.wire if Permission.SECRETS in granted else secrets.wire, Permission.OVERRIDE in granted)


def _denied(caller: Caller, namespace: str, permission: Permission) -> PolicyError:
    who = f'"{caller.role}"' if caller.role else "An unauthenticated caller"
    through = f', for whom "{caller.principal}" calls,' if caller.speaks_for else ""
    metadata = {"permission": permission.value, "namespace": namespace}
    sentence = f'{who}{through} may not do this in {namespace}: it needs the permission "{permission.value}" there.'
    return PolicyError(Kind.PERMISSION_DENIED, Reason.PERMISSION_DENIED, sentence, metadata=metadata)
