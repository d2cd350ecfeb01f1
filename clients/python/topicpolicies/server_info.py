"""Facts about a server: its version, its change log, its features and its limits."""

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
    """Which writers change logs have beside the server. The numbers are those of ``topicpolicies.v1.WriterMode``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    SOLE = 1
    """None."""
    SHARED = 2
    """Brokers and other servers."""
    EXCLUSIVE = 3
    """A namespace has one server as its writer at a time, its leader; the other servers name the leader (``NOT_LEADER``)."""
    READ_ONLY = 4
    """This server writes nothing."""


class ServerFeature(enum.IntEnum):
    """An optional feature of a server. The numbers are those of ``topicpolicies.v1.ServerFeature``."""

    HISTORY = 1
    """It keeps a history: ``history``, ``get`` with ``as_of_time`` or ``as_of_version``, and watches from the beginning."""
    EFFECTIVE = 2
    """It knows the policies of namespaces and brokers: ``effective``."""
    RULES = 3
    """It checks updates against the rules of Pulsar's admin API."""
    SECRETS = 4
    """It sends the secrets of object storages instead of ``REDACTED``."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The limits of a server that depend on its configuration."""

    message_bytes: int
    """The most bytes of a message that the server accepts."""
    changes_per_stream: int
    """The most changes of one stream of updates that are in flight."""
    watch_selectors: int
    """The most topics and namespaces of one watch, together."""
    watches: int
    """The most watches at the same time."""
    update_timeout_seconds: float
    """The longest time in seconds until an update is answered with its result or an error."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Facts about a server."""

    version: str
    """The version of the server's program."""
    log: LogKind
    cluster: str
    """The name of its Pulsar cluster; empty: it has none, or does not know the name yet."""
    writer_mode: WriterMode
    features: frozenset[ServerFeature]
    """The features of the server that this client knows."""
    limits: ServerLimits

    @classmethod
    def of(cls, message: service_pb2.GetServerInfoResponse) -> ServerInfo:
        """Makes the facts from their message."""
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
