"""The one place where it is asked what callers may do: by namespace, before anything else is asked of it.

So whoever may not do something is told the same of what exists and of what does not. A server without an authority asks nothing.
"""

from __future__ import annotations

from ..access import Authority, Caller, Permission
from ..access.authority import MOST_FOLLOWS
from ..cluster.admission import Admits
from ..core.chains.sequencer import Request
from ..core.errors import Kind, PolicyError
from ..core.policies import documents, secrets
from ..core.reasons import Reason
from .answers import Wire


class Permitting:
    """Asks an authority."""

    def __init__(self, authority: Authority) -> None:
        """``authority``: decides."""
        self.authority = authority
        """Decides."""
        self._on = authority.on_basis

    def at_once(self, caller: Caller, namespace: str, *permissions: Permission) -> bool:
        """Whether it is known now that a caller has all of these permissions; False: it has to be asked for (``need``).

        Raises:
            PolicyError: PERMISSION_DENIED, he lacks one.
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
            PolicyError: PERMISSION_DENIED, he lacks one; UNAVAILABLE, it can't be known now.
        """
        if self.at_once(caller, namespace, *permissions):
            return
        for permission in permissions:
            if not await self.authority.may(caller, namespace, permission):
                raise denied(caller, namespace, permission)

    def wire_at_once(self, caller: Caller, namespace: str) -> Wire | None:
        """How a caller is shown the documents of a namespace; None: it has to be asked for (``wire``)."""
        said = self.authority.at_once(caller, namespace, Permission.SECRETS)
        return None if said is None else _WIRES[said]

    async def wire(self, caller: Caller, namespace: str) -> Wire:
        """How a caller is shown the documents of a namespace.

        Raises:
            PolicyError: UNAVAILABLE, it can't be known now.
        """
        known = self.wire_at_once(caller, namespace)
        return known if known is not None else _WIRES[await self.authority.may(caller, namespace, Permission.SECRETS)]

    def shown_at_once(self, caller: Caller, namespace: str, permission: Permission) -> Wire | None:
        """How a caller who has a permission in a namespace is shown its documents, if that is known now; None: as ``shown`` finds out.

        Raises:
            PolicyError: PERMISSION_DENIED, he lacks it.
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
        """How a caller who has all of these permissions in a namespace is shown its documents.

        Raises:
            PolicyError: as ``need``.
        """
        await self.need(caller, namespace, *permissions)
        return await self.wire(caller, namespace)


class Permitted:
    """Admits the changes of one call (``Admits``): first by what its caller may do, then by what else admits them."""

    def __init__(self, permitting: Permitting, caller: Caller, admission: Admits | None) -> None:
        """``admission``: what else has to admit them; None: nothing."""
        self._permitting = permitting
        self._caller = caller
        self._admission = admission
        self.wires: dict[Request, Wire] = {}
        """How the answers to those that were admitted show documents, where secrets are seen; whoever answers takes it out."""

    def at_once(self, namespace: str, request: Request) -> bool:
        """Admits a request if all that it needs is known; else False.

        Raises:
            PolicyError: it can't be admitted.
        """
        wire = self._permitting.shown_at_once(self._caller, namespace, Permission.CHANGE)
        if wire is None or not (self._admission is None or self._admission.at_once(namespace, request)):
            return False
        if wire is not secrets.wire:
            self.wires[request] = wire
        return True

    def whole(self, namespace: str) -> Wire | None:
        """Admits all changes of a namespace that are submitted before anything else runs.

        Returns:
            How answers to them show documents; None: each has to be admitted.

        Raises:
            PolicyError: none of them can be admitted.
        """
        return self._permitting.shown_at_once(self._caller, namespace, Permission.CHANGE) if self._admission is None else None

    async def admit(self, namespace: str, request: Request) -> None:
        """Admits a request.

        Raises:
            PolicyError: its caller may not do this (PERMISSION_DENIED), or that can't be known (UNAVAILABLE), or what ``admission`` says.
        """
        await self._permitting.need(self._caller, namespace, Permission.CHANGE)
        wire = await self._permitting.wire(self._caller, namespace)
        if self._admission is not None:
            await self._admission.admit(namespace, request)
        if wire is not secrets.wire:
            self.wires[request] = wire


def denied(caller: Caller, namespace: str, permission: Permission) -> PolicyError:
    """What is told of a permission that a caller lacks."""
    who = f'"{caller.role}"' if caller.role else "A caller who has not shown who he is"
    through = f', for whom "{caller.principal}" calls,' if caller.speaks_for else ""
    metadata = {"permission": permission.value, "namespace": namespace}
    sentence = f'{who}{through} may not do this in {namespace}: it takes the permission "{permission.value}" there.'
    return PolicyError(Kind.PERMISSION_DENIED, Reason.PERMISSION_DENIED, sentence, metadata=metadata)


_WIRES = {True: documents.wire, False: secrets.wire}
