"""What a caller may do in a namespace: the permissions, and the interfaces of what decides about them."""

from __future__ import annotations

import enum
from collections.abc import Hashable
from typing import Any, Protocol, runtime_checkable

from .caller import Caller


class Permission(enum.Enum):
    """A permission in a namespace. The values are the words that files, error messages and log lines use."""

    READ = "read"
    """GetPolicy, ListPolicies, GetEffectivePolicy."""
    WATCH = "watch"
    """WatchPolicies."""
    CHANGE = "change"
    """UpdatePolicy, DeletePolicy, BatchUpdatePolicies."""
    HISTORY = "history"
    """``PolicyHistoryService``, and, beside ``WATCH``, watches of every change."""
    SECRETS = "secrets"
    """Seeing the credentials of object storages in offload policies, in whatever else the caller may see."""

    __hash__ = object.__hash__  # each member is one object; the hash of an enum is a Python function, and each call needs one


class Authority(Protocol):
    """Decides what callers may do. The facts that it decides by are cached, and bounded; if they can't be known, calls are refused."""

    @property
    def on_basis(self) -> OnBasis | None:
        """The object whose ``basis`` alone decides, so that answers may be remembered as long as that stands; None: there is none."""

    def at_once(self, caller: Caller, namespace: str, permission: Permission) -> bool | None:
        """Whether a caller has a permission, if this is known without waiting; None: ``may`` has to find out."""

    async def may(self, caller: Caller, namespace: str, permission: Permission) -> bool:
        """Whether a caller has a permission.

        Raises:
            PolicyError: UNAVAILABLE: it can't be known now.
        """


class Roles(Protocol):
    """Decides about one role, regardless of the caller that has it."""

    def at_once(self, role: str, namespace: str, permission: Permission) -> bool | None:
        """Whether a role has a permission, if this is known without waiting; None: ``may`` has to find out. "": there is no principal."""

    async def may(self, role: str, namespace: str, permission: Permission) -> bool:
        """Whether a role has a permission.

        Raises:
            PolicyError: UNAVAILABLE: it can't be known now.
        """

    async def close(self) -> None:
        """Ends the requests under way."""


class Basis:
    """Stands for the facts that decide at present; after each change of the facts there is another ``Basis``.

    Answers that follow from the facts are stored in it, by whichever code caches them, and so are dropped together with it.
    """

    __slots__ = ("follows",)

    def __init__(self) -> None:
        """Creates a basis from which nothing follows yet."""
        self.follows: dict[Hashable, Any] = {}
        """The answers that follow from it, at most ``MOST_FOLLOWS``."""


MOST_FOLLOWS = 10_000


@runtime_checkable
class OnBasis(Protocol):
    """Decides by facts that change only as a whole; no cached answer that expires, and no clock, is involved."""

    basis: Basis
    """The facts that decide now."""


@runtime_checkable
class Counting(Protocol):
    """Decides by answers that it caches."""

    def kept(self) -> dict[str, tuple[int, int]]:
        """Returns how many answers are cached, and how many at most, by the name of the cache. Any thread may call this."""


class ByRoles:
    """Decides by the roles of a caller (``Authority``). A call through a proxy needs the permission of both roles.

    Source: ``AuthorizationService.allowTopicPolicyOperationAsync`` with an original role.
    """

    def __init__(self, roles: Roles) -> None:
        """``roles``: decides about each role; it is closed with this object."""
        self._roles = roles
        self.on_basis: OnBasis | None = roles if isinstance(roles, OnBasis) else None
        """As ``Authority.on_basis``."""

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
        """As ``Counting.kept``; empty if nothing is cached."""
        return self._roles.kept() if isinstance(self._roles, Counting) else {}

    async def close(self) -> None:
        """Closes ``roles``."""
        await self._roles.close()
