"""The history of documents: the question, and what is told. Nothing here sends anything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from .arguments import members, moment, text
from .building import building
from .documents import Document, Scope, maybe
from .enums import OpenEnum
from .origins import Origin
from .v1 import service_pb2


class HistoryKind(OpenEnum):
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


class HistoryOutcome(OpenEnum):
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


class HistoryGapReason(OpenEnum):
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

    document: Document | None
    """The document after the event. None: the event could not be read, and it is not known whose it was."""
    previous: Document | None
    """The document before the event. None: it is not known."""
    kind: HistoryKind
    outcome: HistoryOutcome
    time: datetime
    """When it happened, in UTC: what the history is ordered by."""
    partition: int
    """The partition of the change log."""
    position: str
    """The event's position in it."""
    origin: Origin
    changed: tuple[str, ...]
    """Fields and entries of maps that differ between the two documents, also where that is a secret."""
    stale: bool
    """Whether the event was computed from something else than the document that it met."""
    unexplained: bool
    """A broker's event that no recent document explains: applying its difference from the newest may have undone something."""
    ambiguous: bool
    """A broker's event that two recent documents explain differently: the newer was believed."""
    replicated: bool
    """Whether it came from another cluster."""
    problem: str
    """Why it could not be read; empty: it could."""

    @classmethod
    def of(cls, message: service_pb2.HistoryEntry) -> HistoryEntry | None:
        """From its message; None if it is of a scope that this client does not know, a newer service's."""
        document = maybe(message.document)
        if document is None and message.document.scope:
            return None
        return cls(
            document,
            maybe(message.previous),
            HistoryKind(message.kind),
            HistoryOutcome(message.outcome),
            message.time.ToDatetime(UTC),
            message.partition,
            message.position,
            Origin.of(message.origin),
            tuple(message.changed.paths),
            message.stale,
            message.unexplained,
            message.ambiguous,
            message.replicated,
            message.problem,
        )


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A part of a history."""

    entries: tuple[HistoryEntry, ...]
    gaps: tuple[HistoryGap, ...]
    """Where events may be missing, in all of the time that was asked for: the newest 100, newest first."""
    following: bool
    """Whether the server follows the log at present; if not, the newest events may be missing."""
    next_page_token: str
    """Empty: this was the last page."""
    unconfirmed_since: datetime | None = None
    """Since when the server can't reach the change log, so that the newest events may be missing; in UTC. None: it can."""

    @classmethod
    def of(cls, message: service_pb2.ListHistoryResponse, unconfirmed_since: datetime | None = None) -> HistoryPage:
        """From its message."""
        entries = tuple(entry for entry in map(HistoryEntry.of, message.entries) if entry is not None)
        return cls(entries, tuple(map(HistoryGap.of, message.gaps)), message.following, message.next_page_token, unconfirmed_since)


def history_request(
    *,
    topic: str = "",
    namespace: str = "",
    scopes: Iterable[Scope] = (),
    start: datetime | None = None,
    end: datetime | None = None,
    actor: str | None = None,
    oldest_first: bool = False,
    page_size: int = 0,
) -> service_pb2.ListHistoryRequest:
    """The first page of a history. ``HistoryOptions`` says what the arguments are."""
    with building():
        return service_pb2.ListHistoryRequest(
            topic=text(topic, "topic"),
            namespace=text(namespace, "namespace"),
            scopes=[scope.number for scope in members(scopes, Scope, "scopes")],
            start_time=timestamp(moment(start, "start")) if start is not None else None,
            end_time=timestamp(moment(end, "end")) if end is not None else None,
            actor=actor,
            order=service_pb2.HISTORY_ORDER_OLDEST_FIRST if oldest_first else service_pb2.HISTORY_ORDER_NEWEST_FIRST,
            page_size=page_size,
        )


def timestamp(time: datetime) -> Timestamp:
    """A time as messages take it. One without a time zone is local."""
    made = Timestamp()
    made.FromDatetime(time.astimezone(UTC))
    return made
