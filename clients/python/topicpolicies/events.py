"""The events that a watch yields, one class for each kind."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, TypeAlias

from .documents import Document, document_or_none
from .enums import OpenEnum
from .errors import TopicPoliciesError
from .history import HistoryEntry, HistoryGap
from .lazy_fields import LazyFields, setter
from .origins import Origin
from .tokens import WatchToken
from .v1 import service_pb2


class WatchMode(enum.IntEnum):
    """Which changes a watch yields. The numbers are those of ``topicpolicies.v1.WatchMode``."""

    LATEST = 1
    """The newest state of each topic and scope: a change that a newer one supersedes may be left out."""
    EVERY = 2
    """Every change, in the order of the log."""
    ENTRIES = 3
    """Every event of the log, also those that changed nothing or could not be read; made for copying the history."""

    @property
    def number(self) -> service_pb2.WatchMode.ValueType:
        """The mode as the enum of the generated code."""
        return service_pb2.WatchMode.ValueType(self.value)


class NamespaceState(OpenEnum):
    """The state of a watched namespace. The numbers are those of ``topicpolicies.v1.NamespaceState``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    LOADING = 1
    """The service is reading the namespace's change log: documents may be old."""
    READY = 2
    """The service follows the change log: documents are the newest."""
    FAILED = 3
    """The service can't read the change log; it tries again."""
    DISABLED = 4
    """Topic policies are disabled for all watched topics of the namespace; the service checks again from time to time."""


@dataclass(frozen=True, slots=True)
class Changed(LazyFields):
    """A document, from the snapshot or because it changed. A document without policies was deleted or, in a snapshot, does not exist."""

    namespace: str
    """``tenant/namespace``."""
    document: Document
    """The document after the event that made it."""
    previous_version: str
    """The version before the event; empty: not known, as mostly in a snapshot."""
    previous: Document | None
    """The document before the event. None: not requested (``include_previous``), or not known."""
    partition: int
    """The partition of the change log that has the event."""
    position: str
    """The event's position in the partition; empty: the log has no event of this document."""
    origin: Origin | None
    """Who made the change, and why; None: not known."""
    snapshot: bool
    """Whether the document belongs to the snapshot before ``Synced``; otherwise it is a change."""

    _READERS: ClassVar = {
        "document": lambda message: Document.of(message.document),
        "previous_version": lambda message: message.previous_version,
        "previous": lambda message: document_or_none(message.previous),
        "partition": lambda message: message.partition,
        "position": lambda message: message.position,
        "origin": lambda message: Origin.of(message.origin) if message.HasField("origin") else None,
    }

    @classmethod
    def of(cls, namespace: str, message: service_pb2.PolicyChange, snapshot: bool) -> Changed:
        """Makes an event from its message, which must not change any more, and whose document must be known (``documents.is_known``)."""
        changed = object.__new__(cls)
        _set_message(changed, message)
        _set_namespace(changed, namespace)
        _set_snapshot(changed, snapshot)
        return changed


_set_message = setter(LazyFields, "_message")
_set_namespace = setter(Changed, "namespace")
_set_snapshot = setter(Changed, "snapshot")


@dataclass(frozen=True, slots=True)
class Entry:
    """An event of the log, as the history has it (only with ``WatchMode.ENTRIES``)."""

    namespace: str
    """``tenant/namespace``."""
    entry: HistoryEntry


@dataclass(frozen=True, slots=True)
class Gap:
    """Events may be missing from the history here, in the period that ``gap`` names (only with ``WatchMode.ENTRIES``)."""

    namespace: str
    """``tenant/namespace``."""
    gap: HistoryGap


@dataclass(frozen=True, slots=True)
class Synced:
    """The snapshot of a namespace is complete, or a resumed watch has caught up with the namespace."""

    namespace: str
    """``tenant/namespace``."""
    token: WatchToken
    """The place in the namespace's change log."""
    confirmed_time: datetime
    """As of when everything was sent, by the server's clock, in UTC."""


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Everything up to this place was sent. Comes from time to time, and only while the server follows the namespace."""

    namespace: str
    """``tenant/namespace``."""
    token: WatchToken
    """The place in the namespace's change log."""
    confirmed_time: datetime
    """As of when everything was sent, by the server's clock, in UTC."""


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a namespace has changed: the namespace is not READY, or is READY again."""

    namespace: str
    """``tenant/namespace``."""
    state: NamespaceState
    reason: str
    """A machine-readable reason, as in an error, such as ``TOPIC_POLICIES_DISABLED``; empty for READY."""
    message: str
    """A sentence for people; may be empty."""


@dataclass(frozen=True, slots=True)
class Reset:
    """A namespace begins anew: documents that do not come again before ``Synced`` no longer exist.

    The service sends it; or the watch itself makes it, if its stream broke during the snapshot, or if its token lacks the namespace.
    """

    namespace: str
    """``tenant/namespace``."""
    reason: str
    """A machine-readable reason, as in an error, such as ``LOG_REPLACED``; empty: the watch itself made the event."""
    message: str
    """A sentence for people."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The stream broke; the watch opens another one by itself, and continues from where it was."""

    error: TopicPoliciesError
    attempt: int
    """How many streams broke in a row, without a ``Synced`` between them; from 1."""
    retry_in_seconds: float
    """The pause before the next stream."""


WatchEvent: TypeAlias = Changed | Entry | Gap | Synced | Bookmark | Status | Reset | Interrupted
