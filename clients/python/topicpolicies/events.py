"""What a watch tells, one class per kind of news.

A consumer that mirrors documents needs four of them: on ``Changed`` and ``Deleted`` it moves along; on ``Restarted`` it begins to note
which documents of the namespace are told again; on ``Synced`` it drops those that were not. ``PolicyCache`` is that consumer.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from .errors import TopicPoliciesError
from .results import Scope
from .tokens import WatchToken
from .v1 import service_pb2
from .v1.events_pb2 import PulsarEvent
from .v1.policies_pb2 import TopicPolicies


@dataclass(frozen=True, slots=True)
class Origin:
    """Who changed a document, as far as the log tells."""

    actor: str
    """Who asked for it; empty if nobody said."""
    request_id: str
    """Empty for a broker's event."""
    update_mask: tuple[str, ...] | None
    """The mask of the request; None for a broker's event."""
    producer_name: str
    """The name of the producer that wrote the event."""
    publish_time: datetime | None
    """By the log's clock, in UTC; None if it is not known."""
    event: PulsarEvent | None
    """The event itself; None if it is not known."""

    @classmethod
    def of(cls, message: service_pb2.ChangeOrigin) -> Origin:
        """From its message."""
        return cls(
            message.actor,
            message.request_id,
            tuple(message.update_mask.paths) if message.HasField("update_mask") else None,
            message.producer_name,
            message.publish_time.ToDatetime(UTC) if message.HasField("publish_time") else None,
            message.event if message.HasField("event") else None,
        )


@dataclass(frozen=True, slots=True)
class Changed:
    """There is a document: of the snapshot, or because it changed."""

    namespace: str
    """``tenant/namespace``."""
    topic: str
    """The topic's full name."""
    scope: Scope
    policies: TopicPolicies
    version: str
    previous_version: str
    """Empty in what was loaded from the log."""
    partition: int
    """The partition of the change log."""
    position: str
    """The event's position in it."""
    origin: Origin
    snapshot: bool
    """Whether it belongs to the snapshot before ``Synced``; otherwise it is a change."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """There is no document: it was deleted, or, in a snapshot, a topic that was asked for has none."""

    namespace: str
    """``tenant/namespace``."""
    topic: str
    """The topic's full name."""
    scope: Scope
    version: str
    previous_version: str
    """Empty in what was loaded from the log."""
    partition: int
    """The partition of the change log."""
    position: str
    """The event's position in it."""
    origin: Origin
    snapshot: bool
    """Whether it belongs to the snapshot before ``Synced``; otherwise it is a change."""


@dataclass(frozen=True, slots=True)
class Synced:
    """The snapshot of a namespace is complete, or a resumed watch has caught up with it."""

    namespace: str
    """``tenant/namespace``."""
    token: WatchToken
    """The place in this namespace's log."""


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Nothing before this place is owed any more; sent from time to time."""

    namespace: str
    """``tenant/namespace``."""
    token: WatchToken
    """The place in this namespace's log."""


@dataclass(frozen=True, slots=True)
class Restarted:
    """A namespace begins again with a snapshot: what is not told again before ``Synced`` is gone.

    It comes before every snapshot but the first of a watch that was begun without a token.
    """

    namespace: str
    """``tenant/namespace``."""
    reason: str
    """A sentence for people."""


@dataclass(frozen=True, slots=True)
class NamespaceLoading:
    """The service is still reading the change log of a namespace."""

    namespace: str
    """``tenant/namespace``."""
    message: str
    """A sentence for people."""


@dataclass(frozen=True, slots=True)
class NamespaceUnavailable:
    """The service can't read the change log of a namespace for now; it tries again, and so nothing is lost."""

    namespace: str
    """``tenant/namespace``."""
    message: str
    """A sentence for people."""
    reason: str = ""
    """Machine-readable, as in an error: ``TOPIC_POLICIES_DISABLED``, for example."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The stream broke; the watch tries again by itself, from where it was."""

    error: TopicPoliciesError
    attempt: int
    """How many times in a row, counted from 1."""
    retry_in_seconds: float


WatchEvent: TypeAlias = Changed | Deleted | Synced | Bookmark | Restarted | NamespaceLoading | NamespaceUnavailable | Interrupted
