"""What a caller may do in a namespace, as whoever decides that says."""

from __future__ import annotations

import enum
from typing import Protocol

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
    """ListHistory, documents as of then, and watching every change from the history."""
    SECRETS = "secrets"
    """Seeing the credentials of object storages in offload policies."""


class Authority(Protocol):
    """Decides. What it has learnt is cached, and bounded; what can't be known is refused."""

    def at_once(self, caller: Caller, namespace: str, permission: Permission) -> bool | None:
        """Whether a caller may, as far as that is known now; None: it has to be asked for (``may``)."""

    async def may(self, caller: Caller, namespace: str, permission: Permission) -> bool:
        """Whether a caller may.

        Raises:
            PolicyError: UNAVAILABLE, it can't be known now.
        """
