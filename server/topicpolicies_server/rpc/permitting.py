"""The only place that checks permissions: by namespace, and before anything else is done with the namespace.

So a caller without a permission receives the same error whether the namespace exists or not. A server without an authority checks nothing.
"""

from __future__ import annotations

from ..access import Authority, Caller, Permission
from ..access.authority import MOST_FOLLOWS
from ..core.errors import Kind, PolicyError
from ..core.policies import documents, secrets
from ..core.reasons import Reason
from .answers import Wire


class Permitting:
    """Checks the permissions of callers with an authority, and decides who is shown secrets.

    The methods with ``at_once`` in their names use only what is known already; the others ask the authority if need be.
    """

    def __init__(self, authority: Authority) -> None:
        """``authority``: decides who may do what."""
        self.authority = authority
        """What decides who may do what."""
        self._on = authority.on_basis

    def at_once(self, caller: Caller, namespace: str, *permissions: Permission) -> bool:
        """Returns whether a caller is known to have all of these permissions; False: the authority has to be asked (``need``).

        Raises:
            PolicyError: PERMISSION_DENIED, the caller lacks one.
        """
        known = True
        for permission in permissions:
            said = self.authority.at_once(caller, namespace, permission)
            if said is False:
                raise denied(caller, namespace, permission)
            known = known and said is not None
        return known

    async def need(self, caller: Caller, namespace: str, *permissions: Permission) -> None:
        """Returns if a caller has all of these permissions in a namespace.

        Raises:
            PolicyError: PERMISSION_DENIED, the caller lacks one; UNAVAILABLE, that can't be known now.
        """
        if self.at_once(caller, namespace, *permissions):
            return
        for permission in permissions:
            if not await self.authority.may(caller, namespace, permission):
                raise denied(caller, namespace, permission)

    def wire_at_once(self, caller: Caller, namespace: str) -> Wire | None:
        """Returns what serializes a namespace's documents for a caller, with or without secrets; None: see ``wire``."""
        said = self.authority.at_once(caller, namespace, Permission.SECRETS)
        return None if said is None else _WIRES[said]

    async def wire(self, caller: Caller, namespace: str) -> Wire:
        """Returns what serializes a namespace's documents for a caller, with or without secrets.

        Raises:
            PolicyError: UNAVAILABLE, it can't be known now whether the caller may see secrets.
        """
        known = self.wire_at_once(caller, namespace)
        return known if known is not None else _WIRES[await self.authority.may(caller, namespace, Permission.SECRETS)]

    def shown_at_once(self, caller: Caller, namespace: str, permission: Permission) -> Wire | None:
        """Checks a permission, and returns what serializes the namespace's documents for the caller; None: see ``shown``.

        The result is remembered as long as the authority decides by the same basis (``OnBasis``).

        Raises:
            PolicyError: PERMISSION_DENIED, the caller lacks the permission.
        """
        if self._on is None:
            return self._shown_at_once(caller, namespace, permission)
        follows = self._on.basis.follows
        asked = (caller.principal, caller.speaks_for, namespace, permission)
        wire: Wire | None = follows.get(asked)
        if wire is None and (wire := self._shown_at_once(caller, namespace, permission)) is not None:
            if len(follows) >= MOST_FOLLOWS:
                follows.clear()
            follows[asked] = wire
        return wire

    def _shown_at_once(self, caller: Caller, namespace: str, permission: Permission) -> Wire | None:
        at_once = self.authority.at_once
        said = at_once(caller, namespace, permission)
        if not said:
            if said is None:
                return None
            raise denied(caller, namespace, permission)
        secrets_too = at_once(caller, namespace, Permission.SECRETS)
        return None if secrets_too is None else _WIRES[secrets_too]

    async def shown(self, caller: Caller, namespace: str, *permissions: Permission) -> Wire:
        """Checks permissions, and returns what serializes the namespace's documents for the caller.

        Raises:
            PolicyError: as ``need``.
        """
        await self.need(caller, namespace, *permissions)
        return await self.wire(caller, namespace)


def denied(caller: Caller, namespace: str, permission: Permission) -> PolicyError:
    """Returns the PERMISSION_DENIED of a permission that a caller lacks."""
    who = f'"{caller.role}"' if caller.role else "An unauthenticated caller"
    through = f', for whom "{caller.principal}" calls,' if caller.speaks_for else ""
    metadata = {"permission": permission.value, "namespace": namespace}
    sentence = f'{who}{through} may not do this in {namespace}: it needs the permission "{permission.value}" there.'
    return PolicyError(Kind.PERMISSION_DENIED, Reason.PERMISSION_DENIED, sentence, metadata=metadata)


_WIRES = {True: documents.wire, False: secrets.wire}
