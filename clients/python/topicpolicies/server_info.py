"""What a server is."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .enums import OpenEnum
from .v1 import service_pb2


class LogKind(OpenEnum):
    """Where change logs are kept. The numbers are those of ``topicpolicies.v1.LogKind``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    EMBEDDED = 1
    """In a file of the server."""
    PULSAR = 2
    """In Pulsar, in each namespace's ``__change_events``."""
    MEMORY = 3
    """In memory: what is written is gone when the server ends."""


class WriterMode(OpenEnum):
    """Who writes change logs beside the server. The numbers are those of ``topicpolicies.v1.WriterMode``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    SOLE = 1
    """Nobody."""
    SHARED = 2
    """Brokers and other servers."""
    EXCLUSIVE = 3
    """One server at a time; the others name it."""
    READ_ONLY = 4
    """The server writes nothing."""


class ServerFeature(enum.IntEnum):
    """What a server can do beyond the minimum. The numbers are those of ``topicpolicies.v1.ServerFeature``."""

    HISTORY = 1
    """It keeps a history."""
    EFFECTIVE = 2
    """It knows the namespaces' and brokers' policies."""
    RULES = 3
    """It judges updates by the rules of Pulsar's admin API."""
    SECRETS = 4
    """It shows the secrets of object storages."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The limits of a server that differ from one to another."""

    message_bytes: int
    """Most bytes of a message that it takes."""
    changes_per_stream: int
    """Most changes of one stream that are under way."""
    watch_selectors: int
    """Most topics and namespaces of one watch."""
    watches: int
    """Most watches at once."""
    update_timeout_seconds: float
    """Longest time until an update is answered, one way or the other."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server is."""

    version: str
    """The version of its program."""
    log: LogKind
    cluster: str
    """The name of its Pulsar cluster; empty: it has none, or has not asked for it yet."""
    writer_mode: WriterMode
    features: frozenset[ServerFeature]
    """Those that this client knows."""
    limits: ServerLimits

    @classmethod
    def of(cls, message: service_pb2.GetServerInfoResponse) -> ServerInfo:
        """From its message."""
        features = frozenset(feature for feature in ServerFeature if feature.value in message.features)
        limits = message.limits
        bounds = ServerLimits(
            limits.message_bytes,
            limits.changes_per_stream,
            limits.watch_selectors,
            limits.watches,
            limits.update_timeout.ToTimedelta().total_seconds(),
        )
        return cls(message.version, LogKind(message.log), message.cluster, WriterMode(message.writer_mode), features, bounds)
