"""What a watch tells, as one class per kind of event."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, TypeAlias

from .documents import Document, maybe
from .enums import OpenEnum
from .errors import TopicPoliciesError
from .history import HistoryEntry, HistoryGap
from .on_demand import OnDemand, setter
from .origins import Origin
from .tokens import WatchToken
from .v1 import service_pb2


class WatchMode(enum.IntEnum):
    """What a watch tells. The numbers are those of ``topicpolicies.v1.WatchMode``."""

    LATEST = 1
    """Per policy key only the newest state: what a newer change supersedes may be left out."""
    EVERY = 2
    """Every change, in the log's order."""
    ENTRIES = 3
    """Every event, also those that changed nothing or could not be read: for whoever copies the history."""

    @property
    def number(self) -> service_pb2.WatchMode.ValueType:
        """As messages take it."""
        return service_pb2.WatchMode.ValueType(self.value)


class NamespaceState(OpenEnum):
    """The state of a namespace of a watch. The numbers are those of ``topicpolicies.v1.NamespaceState``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    LOADING = 1
    """Its change log is being read: what is told may be old."""
    READY = 2
    """Its change log is followed: what is told is the newest."""
    FAILED = 3
    """Its change log can't be read; the service tries again."""
    DISABLED = 4
    """Topic policies are disabled for all that is watched of it; the service looks again."""


@dataclass(frozen=True, slots=True)
class Changed(OnDemand):
    """A document: of the snapshot, or because it changed. One without policies was deleted, or, in a snapshot, is not there."""

    namespace: str
    """``tenant/namespace``."""
    document: Document
    """After the event."""
    previous_version: str
    """Empty in a snapshot, and where it is not known."""
    previous: Document | None
    """The document before. None: it was not asked for, or is not known."""
    partition: int
    """The partition of the change log."""
    position: str
    """The event's position in it; empty: the log has no event of it."""
    origin: Origin | None
    """None: not known."""
    snapshot: bool
    """Whether it belongs to the snapshot before ``Synced``; otherwise it is a change."""

    _READ: ClassVar = {
        "document": lambda message: Document.of(message.document),
        "previous_version": lambda message: message.previous_version,
        "previous": lambda message: maybe(message.previous),
        "partition": lambda message: message.partition,
        "position": lambda message: message.position,
        "origin": lambda message: Origin.of(message.origin) if message.HasField("origin") else None,
    }

    @classmethod
    def of(cls, namespace: str, message: service_pb2.PolicyChange, snapshot: bool) -> Changed:
        """From its message, which nobody may change any more, and whose document this client knows (``documents.is_known``)."""
        changed = object.__new__(cls)
        _set_message(changed, message)
        _set_namespace(changed, namespace)
        _set_snapshot(changed, snapshot)
        return changed


_set_message = setter(OnDemand, "_message")
_set_namespace = setter(Changed, "namespace")
_set_snapshot = setter(Changed, "snapshot")


@dataclass(frozen=True, slots=True)
class Entry:
    """An event of the log (``WatchMode.ENTRIES``)."""

    namespace: str
    """``tenant/namespace``."""
    entry: HistoryEntry


@dataclass(frozen=True, slots=True)
class Gap:
    """Events may be missing from the history here, before what follows (``WatchMode.ENTRIES``)."""

    namespace: str
    """``tenant/namespace``."""
    gap: HistoryGap


@dataclass(frozen=True, slots=True)
class Synced:
    """The snapshot of a namespace is complete, or a resumed watch has caught up with it."""

    namespace: str
    """``tenant/namespace``."""
    token: WatchToken
    """The place in this namespace's log."""
    confirmed_time: datetime
    """As of when all was told, by the server's clock, in UTC."""


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Nothing before this place is owed any more; sent from time to time, and only while the namespace is followed."""

    namespace: str
    """``tenant/namespace``."""
    token: WatchToken
    """The place in this namespace's log."""
    confirmed_time: datetime
    """As of when all was told, by the server's clock, in UTC."""


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a namespace has changed: it is not READY, or has become so again."""

    namespace: str
    """``tenant/namespace``."""
    state: NamespaceState
    reason: str
    """Machine-readable, as in an error: ``TOPIC_POLICIES_DISABLED``, for example. Empty for READY."""
    message: str
    """A sentence for people."""


@dataclass(frozen=True, slots=True)
class Reset:
    """A namespace begins anew: what was told of it counts no more, and what is not told again before ``Synced`` is gone.

    The service says so, or the watch itself, when it was interrupted within the snapshot.
    """

    namespace: str
    """``tenant/namespace``."""
    reason: str
    """Machine-readable, as in an error: ``LOG_REPLACED``, for example. Empty: the watch itself begins again."""
    message: str
    """A sentence for people."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The stream broke; the watch tries again by itself, from where it was."""

    error: TopicPoliciesError
    attempt: int
    """How many times in a row, counted from 1."""
    retry_in_seconds: float


WatchEvent: TypeAlias = Changed | Entry | Gap | Synced | Bookmark | Status | Reset | Interrupted
