"""The history of documents: its entries, gaps and pages, and the request for a page. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from .arguments import members, moment, text, whole
from .documents import Document, Scope, document_or_none
from .enums import OpenEnum
from .message_errors import errors_as_invalid_argument
from .origins import Origin
from .v1 import service_pb2


class HistoryKind(OpenEnum):
    """The kind of an event. The numbers are those of ``topicpolicies.v1.HistoryKind``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    UPDATE = 1
    """A masked change that a sidecar published."""
    DELETE = 2
    """A deletion that a sidecar published."""
    BROKER = 3
    """An event of a broker, of which only the producer's name is known."""
    REPAIR = 4
    """A sidecar's repair: it makes what brokers show equal to the document, which it does not change."""
    TOMBSTONE = 5
    """The second half of a sidecar's deletion, which lets compaction forget the topic."""
    UNREADABLE = 6
    """An entry of the log that could not be read."""


class HistoryOutcome(OpenEnum):
    """The effect of an event. The numbers are those of ``topicpolicies.v1.HistoryOutcome``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    APPLIED = 1
    """The event changed the document, or made a new version with the same content."""
    REJECTED = 2
    """The event did not count: its etag, or the document that it was computed from, did not hold any more."""
    SKIPPED = 3
    """The event did not count: there was no document, and ``skip_if_absent`` was set."""
    DUPLICATE = 4
    """The event did not count: the log had the same request, or the same event, before."""
    RESTATED = 5
    """The event restates the document: a repair."""
    IGNORED = 6
    """The event has no content, or no new content."""


class HistoryGapReason(OpenEnum):
    """The reason why a history may miss events. The numbers are those of ``topicpolicies.v1.HistoryGapReason``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    COMPACTED = 1
    """The log was compacted while the server did not follow it."""
    LOG_REPLACED = 2
    """The log was replaced by another one while the server did not follow it."""
    OVERRUN = 3
    """More events came than the server could write to the history."""
    TRIMMED = 4
    """The history is bounded in age and size, and older events were dropped."""


@dataclass(frozen=True, slots=True)
class HistoryGap:
    """A period in which the history of a namespace may miss events."""

    start: datetime | None
    """The beginning of the period, in UTC; None: the beginning of the log."""
    end: datetime
    """The end of the period, in UTC."""
    reason: HistoryGapReason

    @classmethod
    def of(cls, message: service_pb2.HistoryGap) -> HistoryGap:
        """Makes a gap from its message."""
        start = message.start_time.ToDatetime(UTC) if message.HasField("start_time") else None
        return cls(start, message.end_time.ToDatetime(UTC), HistoryGapReason(message.reason))


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One event of the change log, as the server read it, and its effect."""

    document: Document | None
    """The document after the event. None: the event could not be read, and its topic is not known."""
    previous: Document | None
    """The document before the event. None: not known."""
    kind: HistoryKind
    outcome: HistoryOutcome
    time: datetime
    """When the event happened, in UTC; the history is ordered by it."""
    partition: int
    """The partition of the change log."""
    position: str
    """The event's position in the partition."""
    origin: Origin
    changed: tuple[str, ...]
    """The fields and entries of maps, by path, that differ between ``previous`` and ``document``, also if a secret is what differs."""
    stale: bool
    """Whether the event was computed from another document than the one before it."""
    unexplained: bool
    """Whether it is a broker's event that no recent document explains. Applying its difference from the newest may have undone a change."""
    ambiguous: bool
    """Whether it is a broker's event that two recent documents explain differently. The newer one was taken."""
    replicated: bool
    """Whether the event came from another cluster."""
    problem: str
    """Why the event could not be read; empty: it could."""

    @classmethod
    def of(cls, message: service_pb2.HistoryEntry) -> HistoryEntry | None:
        """Makes an entry from its message; None: it is of a scope that this client does not know, from a newer service."""
        document = document_or_none(message.document)
        if document is None and message.document.scope:
            return None
        return cls(
            document,
            document_or_none(message.previous),
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
    """A page of a history."""

    entries: tuple[HistoryEntry, ...]
    gaps: tuple[HistoryGap, ...]
    """The periods that may miss events, in all of the requested time and not only in this page: the newest 100, the newest first."""
    following: bool
    """Whether the server follows the change log at present; if not, the newest events may be missing."""
    next_page_token: str
    """The token of the next page; empty: this is the last one."""
    unconfirmed_since: datetime | None = None
    """Since when the server can't reach the change log, so that the newest events may be missing; in UTC. None: the page is confirmed."""

    @classmethod
    def of(cls, message: service_pb2.ListHistoryResponse, unconfirmed_since: datetime | None = None) -> HistoryPage:
        """Makes a page from its message. ``unconfirmed_since``: see the attribute."""
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
    """Makes the request for the first page of a history. ``HistoryOptions`` documents the arguments.

    Raises:
        InvalidArgument: an argument has a wrong type or value.
    """
    with errors_as_invalid_argument():
        return service_pb2.ListHistoryRequest(
            topic=text(topic, "topic"),
            namespace=text(namespace, "namespace"),
            scopes=[scope.number for scope in members(scopes, Scope, "scopes")],
            start_time=timestamp(moment(start, "start")) if start is not None else None,
            end_time=timestamp(moment(end, "end")) if end is not None else None,
            actor=text(actor, "actor") if actor is not None else None,
            order=service_pb2.HISTORY_ORDER_OLDEST_FIRST if oldest_first else service_pb2.HISTORY_ORDER_NEWEST_FIRST,
            page_size=whole(page_size, "page_size"),
        )


def timestamp(time: datetime) -> Timestamp:
    """Returns a time as a protobuf message. A time without a zone is local."""
    made = Timestamp()
    made.FromDatetime(time.astimezone(UTC))
    return made
