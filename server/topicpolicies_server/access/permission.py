"""The permissions that a caller may have in a namespace."""

from __future__ import annotations

import enum
from typing import TypeAlias


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
    OVERRIDE = "override"
    """Changing policies beyond the constraints of the server's declared policies."""
    SECRETS = "secrets"
    """Seeing the credentials of object storages in offload policies, in whatever else the caller may see."""

    __hash__ = object.__hash__  # each member is one object; the hash of an enum is a Python function, and each call needs one


Granted: TypeAlias = frozenset[Permission]
"""The permissions of a caller in a namespace, all of them."""
NOTHING: Granted = frozenset()
EVERYTHING: Granted = frozenset(Permission)
