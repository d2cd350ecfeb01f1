"""Permissions that have to be asked for, and are known when a test lets them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from topicpolicies_server.access import Granted, Permission
from topicpolicies_server.access.caller import EVERYTHING, NOTHING
from topicpolicies_server.core.errors import PolicyError


class Slow:
    """Knows the permissions in ``fast/...`` at once, and the others once ``knows`` is set. It counts how often it is asked."""

    def __init__(self) -> None:
        self.knows = asyncio.Event()
        self.asked = 0
        self.looked = 0
        self.allowed = True
        self.problem: PolicyError | None = None

    def granted(self, role: str, namespace: str) -> Granted | Awaitable[Granted]:
        """Returns what the role is granted, or an awaitable that finds out."""
        self.looked += 1
        assert role == "admin"
        return self._granted() if namespace.startswith("fast/") else self._ask()

    async def _ask(self) -> Granted:
        self.asked += 1
        await self.knows.wait()
        if self.problem is not None:
            raise self.problem
        return self._granted()

    def _granted(self) -> Granted:
        return EVERYTHING - {Permission.SECRETS} if self.allowed else NOTHING
