"""What a caller may do in a namespace, as whoever decides that says."""

from __future__ import annotations

import enum
from collections.abc import Hashable
from typing import Any, Protocol, runtime_checkable

from .caller import Caller


class Permission(enum.Enum):
    """What may be allowed in a namespace. The values are the words of files, sentences and lines."""

    READ = "read"
    """GetPolicy, ListPolicies, GetEffectivePolicy."""
    WATCH = "watch"
    """WatchPolicies."""
    CHANGE = "change"
    """UpdatePolicy, UpdatePolicies, DeletePolicy."""
    HISTORY = "history"
    """ListHistory, documents as of then, and watches of every change or of the history, beside ``WATCH``."""
    SECRETS = "secrets"
    """Seeing the credentials of object storages in offload policies, in whatever else may be seen."""

    __hash__ = object.__hash__  # each is one object; that of enums is a function in Python, and asked for by every call


class Authority(Protocol):
    """Decides. What it has learnt is cached, and bounded; what can't be known is refused."""

    @property
    def on_basis(self) -> OnBasis | None:
        """By what it decides, if answers may be remembered as long as that stands."""

    def at_once(self, caller: Caller, namespace: str, permission: Permission) -> bool | None:
        """Whether a caller may, as far as that is known now; None: it has to be asked for (``may``)."""

    async def may(self, caller: Caller, namespace: str, permission: Permission) -> bool:
        """Whether a caller may.

        Raises:
            PolicyError: UNAVAILABLE, it can't be known now.
        """


class Roles(Protocol):
    """Decides on one role, whoever calls with it."""

    def at_once(self, role: str, namespace: str, permission: Permission) -> bool | None:
        """Whether a role may, as far as that is known now; None: it has to be asked for (``may``). Nobody's role is ""."""

    async def may(self, role: str, namespace: str, permission: Permission) -> bool:
        """Whether a role may.

        Raises:
            PolicyError: UNAVAILABLE, it can't be known now.
        """

    async def close(self) -> None:
        """Ends what is being asked."""


class Basis:
    """What decides at present, for whoever remembers what follows from it. What decides after a change is another one.

    So what is remembered is forgotten with what it follows from, whoever remembers it.
    """

    __slots__ = ("follows",)

    def __init__(self) -> None:
        """Nothing was asked of it yet."""
        self.follows: dict[Hashable, Any] = {}
        """What is remembered; ``MOST_FOLLOWS`` at most."""


MOST_FOLLOWS = 10_000


@runtime_checkable
class OnBasis(Protocol):
    """Decides by something that stands until it is changed as a whole, and by nothing else: no answer that grows old, and no time."""

    basis: Basis
    """What decides now."""


@runtime_checkable
class Counting(Protocol):
    """Decides by answers that it keeps."""

    def kept(self) -> dict[str, tuple[int, int]]:
        """By what it is about: how many answers are kept, and how many at most; any thread may ask."""


class ByRoles:
    """Asks for the roles of a caller (``Authority``). A proxy's call needs the permission of both.

    Source: ``AuthorizationService.allowTopicPolicyOperationAsync`` with an original role.
    """

    def __init__(self, roles: Roles) -> None:
        """``roles``: decides; it is closed with this."""
        self._roles = roles
        self.on_basis: OnBasis | None = roles if isinstance(roles, OnBasis) else None
        """By what it decides, if answers may be remembered as long as that stands."""

    def at_once(self, caller: Caller, namespace: str, permission: Permission) -> bool | None:
        """As ``Authority.at_once``."""
        proxy, role = caller.principal, caller.speaks_for
        if not role:
            return self._roles.at_once(proxy, namespace, permission)
        said = self._roles.at_once(role, namespace, permission)
        if proxy == role or said is False:
            return said
        both = self._roles.at_once(proxy, namespace, permission)
        return None if said is None and both else both

    async def may(self, caller: Caller, namespace: str, permission: Permission) -> bool:
        """As ``Authority.may``."""
        for role in dict.fromkeys((caller.role, caller.principal)):
            if not await self._roles.may(role, namespace, permission):
                return False
        return True

    def kept(self) -> dict[str, tuple[int, int]]:
        """As ``Counting.kept``; nothing, where nothing is asked."""
        return self._roles.kept() if isinstance(self._roles, Counting) else {}

    async def close(self) -> None:
        """Ends what is being asked."""
        await self._roles.close()
