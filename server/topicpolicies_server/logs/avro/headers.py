"""The cheap part of decoding an event: which policy key it is for, and where its document stands.

The bytes before and after the document of an UPDATE are the same for all topics of a namespace in one scope, except for the local name. So
a message's key is split behind its namespace, and the bytes that are expected for that namespace are compared with the payload, without
decoding anything. If they differ, the caller has to decode the whole event.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from ...core.errors import PolicyError
from ...core.names import DOMAINS, MAX_NAME_LENGTH, PolicyKey, Scope, parse_topic
from ...core.policies.events import Action
from ..routing import GLOBAL_PREFIX
from .envelope import Envelope, NamespaceFrame
from .schema import varint

CACHED_KEYS = 16_384
CACHED_NAMESPACES = 1_024
_PLAIN = re.compile(r"[^/\x00-\x1f\x7f\ud800-\udfff]+")
_PARTITION = "-partition-"


class Unreadable(ValueError):
    """A message is not an event, or one that no broker can apply. The text is the reason, for logs and metrics."""


class _Namespace(NamedTuple):
    """What the message keys of one namespace and scope have in common."""

    scope: Scope
    cut: int
    """The length of the prefix of a message's key that is not part of the topic's name."""
    frame: NamespaceFrame


class Header(NamedTuple):
    """What follows from a message's key alone."""

    key: PolicyKey
    before: bytes
    """The bytes before the document of an UPDATE, as this codec writes them."""
    after: bytes
    """The bytes after the document of an UPDATE, as this codec writes them."""

    def document(self, payload: bytes) -> bytes | None:
        """The bytes of the document if the payload is an UPDATE as this codec writes it; None: the payload may be anything else."""
        before, after = self.before, self.after
        if payload.startswith(before) and payload.endswith(after) and len(payload) >= len(before) + len(after):
            return payload[len(before) : len(payload) - len(after)]
        return None


class Headers:
    """Makes and caches the headers of message keys, for one schema."""

    def __init__(self, envelope: Envelope) -> None:
        self._envelope = envelope
        self._namespace = lru_cache(CACHED_NAMESPACES)(self._look_into)
        self.of = lru_cache(CACHED_KEYS)(self._header)
        """Returns the header of a message's key. Raises ``Unreadable`` if the key names no topic."""

    @staticmethod
    def _is_plain(key: str, local: str) -> bool:
        """Whether a key that begins with a namespace is a topic's full name as it stands, so that it need not be parsed."""
        return len(key) <= MAX_NAME_LENGTH and _PARTITION not in local and _PLAIN.fullmatch(local) is not None

    def _header(self, key: str) -> Header:
        at = key.rfind("/") + 1
        local = key[at:]
        namespace = self._namespace(key[:at])
        if namespace is None or not self._is_plain(key, local):
            is_global = key.startswith(GLOBAL_PREFIX)
            full = key[len(GLOBAL_PREFIX) :] if is_global else key
            try:
                name = parse_topic(full)
            except PolicyError as error:
                domain, separator, _ = full.partition("://")
                if separator and domain not in DOMAINS:  # without the name: there may be many, and equal problems are logged once
                    raise Unreadable(f'its topic is of the domain "{domain}", which is not supported') from error
                raise Unreadable(f"its key is not a topic: {error}") from error
            topic, scope = str(name), Scope.GLOBAL if is_global else Scope.LOCAL
            frame = self._envelope.namespace_frame(name, Action.UPDATE, local=not is_global)
            local = name.local
        else:
            scope, cut, frame = namespace
            topic = key[cut:] if cut else key
        encoded = local.encode()
        written = _length(len(encoded)) + encoded
        return Header(PolicyKey(topic, scope), written.join(frame.before), written.join(frame.after))

    def _look_into(self, prefix: str) -> _Namespace | None:
        """What all keys with this prefix have in common; None if the prefix is not a namespace in full, so that keys have to be parsed."""
        is_global = prefix.startswith(GLOBAL_PREFIX)
        cut = len(GLOBAL_PREFIX) if is_global else 0
        try:
            name = parse_topic(prefix[cut:] + "x")
        except PolicyError:
            return None
        if str(name) != prefix[cut:] + "x":
            return None  # the prefix is an abbreviation, without a domain for example
        frame = self._envelope.namespace_frame(name, Action.UPDATE, local=not is_global)
        return _Namespace(Scope.GLOBAL if is_global else Scope.LOCAL, cut, frame)


_length = lru_cache(MAX_NAME_LENGTH)(varint)
