"""An authority that has to be asked, and answers when a test says so."""

from __future__ import annotations

import asyncio

from topicpolicies_server.access import Caller, Permission
from topicpolicies_server.core.errors import PolicyError


class Slow:
    """Knows at once what holds in ``fast/...``; of the rest, once it was told to know. It counts what it is asked."""

    def __init__(self) -> None:
        self.knows = asyncio.Event()
        self.asked = 0
        self.looked = 0
        self.allowed = True
        self.problem: PolicyError | None = None
        self.on_basis = None

    def at_once(self, caller: Caller, namespace: str, permission: Permission) -> bool | None:
        """As far as it is known."""
        self.looked += 1
        assert caller.principal == "admin"
        if permission is Permission.SECRETS:
            return False
        return self.allowed if namespace.startswith("fast/") else None

    async def may(self, caller: Caller, namespace: str, permission: Permission) -> bool:
        """Once it was told to know."""
        assert caller.principal == "admin" and permission is not Permission.SECRETS and not namespace.startswith("fast/")
        self.asked += 1
        await self.knows.wait()
        if self.problem is not None:
            raise self.problem
        return self.allowed

    def kept(self) -> dict[str, tuple[int, int]]:
        """It remembers no answers."""
        return {}

    async def close(self) -> None:
        """Nothing."""
