"""Patterns of namespaces: ``tenant/namespace``, in which ``*`` stands for any characters but the slash."""

from __future__ import annotations

import re
from typing import Self

WILDCARD = "*"


class Pattern:
    """One pattern, which names a namespace or matches several."""

    def __init__(self, text: str) -> None:
        """``text`` is valid: ``config`` has checked it."""
        self.text = text
        self.tenant, _, self.namespace = text.partition("/")
        self._tenant, self._namespace = _compiled(self.tenant), _compiled(self.namespace)

    @property
    def exact(self) -> bool:
        """Whether the pattern names one namespace."""
        return WILDCARD not in self.text

    @property
    def exact_tenant(self) -> bool:
        """Whether the pattern names one tenant."""
        return WILDCARD not in self.tenant

    def matches_tenant(self, tenant: str) -> bool:
        """Returns whether namespaces of a tenant may match."""
        return self._tenant.fullmatch(tenant) is not None

    def matches(self, namespace: str) -> bool:
        """Returns whether ``tenant/namespace`` matches."""
        tenant, _, local = namespace.partition("/")
        return self.matches_tenant(tenant) and self._namespace.fullmatch(local) is not None

    @classmethod
    def of(cls, texts: tuple[str, ...]) -> tuple[Self, ...]:
        """Makes the patterns of several texts."""
        return tuple(map(cls, texts))


def _compiled(part: str) -> re.Pattern[str]:
    return re.compile("[^/]*".join(map(re.escape, part.split(WILDCARD))))
