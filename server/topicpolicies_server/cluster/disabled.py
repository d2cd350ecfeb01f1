"""``__topic_policies_disabled``: a property of a namespace, or of a partitioned topic's metadata, that disables topic policies.

A topic's property takes precedence over its namespace's. ``true`` disables, ``false`` enables; other values are ignored, and logged once.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping

PROPERTY = "__topic_policies_disabled"
_LOG = logging.getLogger(__name__)
_VALUES = {"true": True, "false": False}
_MOST_WARNINGS = 10_000


class DisabledProperty:
    """Reads the property, and remembers which values were logged."""

    def __init__(self) -> None:
        self._warned: dict[str, str] = {}

    def read(self, of: str, properties: Mapping[str, str]) -> bool | None:
        """Returns what the property of a topic or a namespace says; None: nothing.

        Args:
            of: the topic or namespace.
            properties: all its properties.
        """
        text = properties.get(PROPERTY)
        if text is None:
            return None
        value = _VALUES.get(text)
        if value is None and self._warned.get(of) != text:
            if len(self._warned) >= _MOST_WARNINGS:
                self._warned.clear()
            self._warned[of] = text
            _LOG.warning('%s has the property %s="%s", which is neither "true" nor "false": it is ignored', of, PROPERTY, text[:200])
        return value


class Disabled(frozenset[str]):
    """What is disabled of a selection that is watched in a namespace: those of its topics, or the namespace itself if it names none."""

    def all_of(self, topics: frozenset[str] | None) -> bool:
        """Whether everything that is watched is disabled; None: the selection is the namespace."""
        return bool(self) if topics is None else len(self) == len(topics)

    @property
    def digest(self) -> str:
        """A digest of the names, for tokens; "": nothing is disabled."""
        return hashlib.blake2b("\n".join(sorted(self)).encode(), digest_size=8).hexdigest() if self else ""
