"""The history of documents: the question, and what is told. Nothing here sends anything."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from .results import Scope
from .v1 import service_pb2
from .v1.policies_pb2 import TopicPolicies


class HistoryKind(enum.IntEnum):
    """What kind of event it is. The numbers are those of ``topicpolicies.v1.HistoryKind``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    UPDATE = 1
    """A masked change that a sidecar published."""
    DELETE = 2
    """A deletion that a sidecar published."""
    BROKER = 3
    """An event of a broker, of which only the producer's name is known."""
    REPAIR = 4
    """A sidecar's repair: it makes what brokers show equal to the document, and changes nothing."""
    TOMBSTONE = 5
    """The second half of a sidecar's deletion, which lets compaction forget the topic."""
    UNREADABLE = 6
    """An entry of the log that could not be read."""

    @classmethod
    def _missing_(cls, _value: object) -> HistoryKind:
        return cls.UNSPECIFIED


class HistoryOutcome(enum.IntEnum):
    """What became of an event. The numbers are those of ``topicpolicies.v1.HistoryOutcome``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    APPLIED = 1
    """It changed the document, or made it anew as it was."""
    REJECTED = 2
    """It did not count: its etag, or what it was computed from, did not hold any more."""
    SKIPPED = 3
    """It did not count: there was no document, and it asked for nothing in that case."""
    DUPLICATE = 4
    """It did not count: the same request, or the same event, was there before."""
    RESTATED = 5
    """It says again what the document is: a repair."""
    IGNORED = 6
    """It says nothing, or nothing new."""

    @classmethod
    def _missing_(cls, _value: object) -> HistoryOutcome:
        return cls.UNSPECIFIED


class ActorStanding(enum.IntEnum):
    """What is known of an actor. The numbers are those of ``topicpolicies.v1.ActorStanding``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    UNKNOWN = 1
    """Nobody said who it was."""
    UNAUTHENTICATED = 2
    """The caller gave this name, and nobody checked it."""

    @classmethod
    def _missing_(cls, _value: object) -> ActorStanding:
        return cls.UNSPECIFIED


class HistoryGapReason(enum.IntEnum):
    """Why a history may miss events. The numbers are those of ``topicpolicies.v1.HistoryGapReason``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    COMPACTED = 1
    """The log was compacted while the server did not follow it."""
    LOG_REPLACED = 2
    """The log was replaced by another one while the server did not follow it."""
    OVERRUN = 3
    """More events came than could be written."""
    TRIMMED = 4
    """The history is bounded in age and size, and what was older has been dropped."""

    @classmethod
    def _missing_(cls, _value: object) -> HistoryGapReason:
        return cls.UNSPECIFIED


@dataclass(frozen=True, slots=True)
class HistoryGap:
    """A time in which the history of a namespace may miss events."""

    start: datetime | None
    """In UTC; None: from the beginning of the log."""
    end: datetime
    """In UTC."""
    reason: HistoryGapReason

    @classmethod
    def of(cls, message: service_pb2.HistoryGap) -> HistoryGap:
        """From its message."""
        start = message.start_time.ToDatetime(UTC) if message.HasField("start_time") else None
        return cls(start, message.end_time.ToDatetime(UTC), HistoryGapReason(message.reason))


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One event of the change log, as the server read it, and what it did."""

    topic: str
    """The topic's full name; empty if the event could not be read."""
    scope: Scope | None
    """None if the event could not be read."""
    kind: HistoryKind
    outcome: HistoryOutcome
    time: datetime
    """When it happened, in UTC: what the history is ordered by."""
    actor: str
    """Who asked for it; empty if that is not known."""
    actor_standing: ActorStanding
    request_id: str
    """Empty for a broker's event and for repairs."""
    update_mask: tuple[str, ...]
    """The mask of the request; of a broker's event what it was taken to change."""
    producer_name: str
    """Of the producer that wrote the event."""
    version: str
    """The document's version after the event."""
    previous_version: str
    """The version before; empty if the log did not tell."""
    before: TopicPolicies | None
    """None: there was no document, or it is not known."""
    before_known: bool
    """Whether it is known what was before."""
    after: TopicPolicies | None
    """None: there is no document."""
    changed: tuple[str, ...]
    """Fields and entries of maps that differ between the two, also where that is a secret."""
    message: service_pb2.HistoryEntry
    """All that the server told."""

    @classmethod
    def of(cls, message: service_pb2.HistoryEntry) -> HistoryEntry:
        """From its message."""
        return cls(
            message.topic,
            Scope(message.scope) if message.scope else None,
            HistoryKind(message.kind),
            HistoryOutcome(message.outcome),
            message.time.ToDatetime(UTC),
            message.actor,
            ActorStanding(message.actor_standing),
            message.request_id,
            tuple(message.update_mask.paths),
            message.producer_name,
            message.version,
            message.previous_version,
            message.before if message.HasField("before") else None,
            message.before_known,
            message.after if message.HasField("after") else None,
            tuple(message.changed.paths),
            message,
        )


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A part of a history."""

    entries: tuple[HistoryEntry, ...]
    gaps: tuple[HistoryGap, ...]
    """Where events may be missing, in all of the time that was asked for; newest first."""
    following: bool
    """Whether the server follows the log at present; if not, the newest events may be missing."""
    next_page_token: str
    """Empty: this was the last page."""

    @classmethod
    def of(cls, message: service_pb2.ListHistoryResponse) -> HistoryPage:
        """From its message."""
        gaps = tuple(map(HistoryGap.of, message.gaps))
        return cls(tuple(map(HistoryEntry.of, message.entries)), gaps, message.following, message.next_page_token)


def history_request(
    *,
    topic: str,
    namespace: str,
    scopes: Iterable[Scope],
    start: datetime | None,
    end: datetime | None,
    actor: str | None,
    oldest_first: bool,
    page_size: int,
) -> service_pb2.ListHistoryRequest:
    """The first page of a history."""
    return service_pb2.ListHistoryRequest(
        topic=topic,
        namespace=namespace,
        scopes=[scope.number for scope in scopes],
        start_time=timestamp(start) if start is not None else None,
        end_time=timestamp(end) if end is not None else None,
        actor=actor,
        order=service_pb2.HISTORY_ORDER_OLDEST_FIRST if oldest_first else service_pb2.HISTORY_ORDER_NEWEST_FIRST,
        page_size=page_size,
    )


def as_of_request(topic: str, scope: Scope, moment: datetime | str) -> service_pb2.GetPolicyRequest:
    """A document at a time, or of a version."""
    request = service_pb2.GetPolicyRequest(topic=topic, scope=scope.number)
    if isinstance(moment, str):
        request.as_of_version = moment
    else:
        request.as_of.CopyFrom(timestamp(moment))
    return request


def timestamp(moment: datetime) -> Timestamp:
    """A time as messages take it. One without a time zone is local."""
    made = Timestamp()
    made.FromDatetime(moment.astimezone(UTC))
    return made
