"""The cheap part of an event: whose it is, and where its document stands.

What precedes and follows the document of an UPDATE is the same for all topics of a namespace in one scope, but for the local name. So a
message's key is cut behind its namespace, and what is known of that is compared with the message, byte by byte, without decoding anything.
What does not compare so is read whole, by whoever asks.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from ...core.errors import PolicyError
from ...core.names import MAX_NAME_LENGTH, PolicyKey, Scope, parse_topic
from ...core.policies.events import Action
from ..routing import GLOBAL_PREFIX
from .envelope import Envelope, Heading
from .schema import varint

CACHED_KEYS = 16_384
CACHED_NAMESPACES = 1_024
_PLAIN = re.compile(r"[^/\x00-\x1f\x7f\ud800-\udfff]+")
_PARTITION = "-partition-"


class Unreadable(ValueError):
    """A message that is no event, or one that nobody can apply. Its text is the reason, for logs and metrics."""


class _Namespace(NamedTuple):
    """What the keys of one namespace and scope have in common."""

    scope: Scope
    cut: int
    """Characters of a message's key that are not part of the topic's name."""
    heading: Heading


class Header(NamedTuple):
    """What a message's key tells."""

    key: PolicyKey
    before: bytes
    """What precedes the document of an UPDATE that looks as ours do."""
    after: bytes
    """What follows it."""

    def document(self, payload: bytes) -> bytes | None:
        """The bytes of the document in an UPDATE that looks as ours do; None: it may be anything else."""
        before, after = self.before, self.after
        if payload.startswith(before) and payload.endswith(after) and len(payload) >= len(before) + len(after):
            return payload[len(before) : len(payload) - len(after)]
        return None


class Headers:
    """Headers in one schema."""

    def __init__(self, envelope: Envelope) -> None:
        self._envelope = envelope
        self._namespace = lru_cache(CACHED_NAMESPACES)(self._look_into)
        self.of = lru_cache(CACHED_KEYS)(self._header)
        """The header of a message's key. Raises ``Unreadable`` if that is no topic."""

    def topic(self, key: str) -> str | None:
        """The topic that a message's key names; None if it is none."""
        at = key.rfind("/") + 1
        namespace = self._namespace(key[:at])
        if namespace is not None and self._is_plain(key, key[at:]):
            return key[namespace.cut :] if namespace.cut else key
        try:
            return self.of(key).key.topic
        except Unreadable:
            return None

    @staticmethod
    def _is_plain(key: str, local: str) -> bool:
        """Whether a key is its topic's full name, as it stands, if it begins with a namespace."""
        return len(key) <= MAX_NAME_LENGTH and _PARTITION not in local and _PLAIN.fullmatch(local) is not None

    def _header(self, key: str) -> Header:
        at = key.rfind("/") + 1
        local = key[at:]
        namespace = self._namespace(key[:at])
        if namespace is None or not self._is_plain(key, local):
            is_global = key.startswith(GLOBAL_PREFIX)
            try:
                name = parse_topic(key[len(GLOBAL_PREFIX) :] if is_global else key)
            except PolicyError as error:
                raise Unreadable(f"its key is no topic: {error}") from error
            topic, scope = str(name), Scope.GLOBAL if is_global else Scope.LOCAL
            heading = self._envelope.heading(name, Action.UPDATE, local=not is_global)
            local = name.local
        else:
            scope, cut, heading = namespace
            topic = key[cut:] if cut else key
        encoded = local.encode()
        written = _length(len(encoded)) + encoded
        return Header(PolicyKey(topic, scope), written.join(heading.before), written.join(heading.after))

    def _look_into(self, prefix: str) -> _Namespace | None:
        """What keys that begin so have in common; None if they are not all full names of topics."""
        is_global = prefix.startswith(GLOBAL_PREFIX)
        cut = len(GLOBAL_PREFIX) if is_global else 0
        try:
            name = parse_topic(prefix[cut:] + "x")
        except PolicyError:
            return None
        if str(name) != prefix[cut:] + "x":
            return None  # the name of a domain is left out
        heading = self._envelope.heading(name, Action.UPDATE, local=not is_global)
        return _Namespace(Scope.GLOBAL if is_global else Scope.LOCAL, cut, heading)


_length = lru_cache(MAX_NAME_LENGTH)(varint)
