"""An authority that has to be asked for permissions, and answers when a test lets it."""

from __future__ import annotations

import asyncio

from topicpolicies_server.access import Caller, Permission
from topicpolicies_server.core.errors import PolicyError


class Slow:
    """Knows the permissions in ``fast/...`` at once, and the others once ``knows`` is set. It counts how often it is asked."""

    def __init__(self) -> None:
        self.knows = asyncio.Event()
        self.asked = 0
        self.looked = 0
        self.allowed = True
        self.problem: PolicyError | None = None
        self.on_basis = None

    def at_once(self, caller: Caller, namespace: str, permission: Permission) -> bool | None:
        """Returns whether the caller has the permission; None: the authority has to be asked."""
        self.looked += 1
        assert caller.principal == "admin"
        if permission is Permission.SECRETS:
            return False
        return self.allowed if namespace.startswith("fast/") else None

    async def may(self, caller: Caller, namespace: str, permission: Permission) -> bool:
        """Returns whether the caller has the permission, once ``knows`` is set."""
        assert caller.principal == "admin" and permission is not Permission.SECRETS and not namespace.startswith("fast/")
        self.asked += 1
        await self.knows.wait()
        if self.problem is not None:
            raise self.problem
        return self.allowed

    def kept(self) -> dict[str, tuple[int, int]]:
        """Returns nothing: this authority keeps no answers."""
        return {}

    async def close(self) -> None:
        """Does nothing."""
