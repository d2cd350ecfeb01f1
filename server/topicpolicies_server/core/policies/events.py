"""The events of a change log as the core sees them: decoded, with what sidecars add to their own events, and with their positions."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from ..names import PolicyKey
from .documents import Document

Position: TypeAlias = str
"""Where an event stands in its partition: opaque, but string order is log order. It is also the version of the document that it makes."""

ABSENT: Position = "0"
"""The version of a document of which the log knows no event. It sorts before every position."""

LATEST_MS = 253_402_300_799_999
"""The end of the year 9999, in milliseconds since 1970: the latest time that answers, the history and texts can express."""


class Action(enum.IntEnum):
    """What an event does (``org.apache.pulsar.common.events.ActionType``). The numbers are those of ``topicpolicies.v1.ActionType``."""

    INSERT = 1
    DELETE = 2
    UPDATE = 3
    NONE = 4


class StampKind(enum.Enum):
    """The kind of an event that a sidecar wrote."""

    __hash__ = object.__hash__  # Enum's own hashes the name, which is slow

    UPDATE = "update"
    """A masked change. An operation."""
    DELETE = "delete"
    """A deletion. An operation, written as an UPDATE with everything unset, because ``PersistentTopic.onUpdate(null)`` does nothing."""
    TOMBSTONE = "tombstone"
    """Follows a DELETE: restates the absence, so that compaction forgets the key. Like a REPAIR, it changes no head."""
    REPAIR = "repair"
    """Makes the raw document equal to the head. It changes no head, and makes no version."""


class ListChange(enum.Enum):
    """What an operation does to a list. The names are those of ``topicpolicies.v1.ListOperation``."""

    UNION = "union"
    SUBTRACT = "subtract"


class Remembered(NamedTuple):
    """The record of a request that was applied to a key, so that a repeat gets the first answer."""

    request_id: str
    digest: str
    """The digest of the request's body: a repeat with another body is refused."""
    version: Position
    """The version that the request made; empty if the log no longer shows it."""
    previous: Position
    """The version that the request was applied to; empty if the log no longer shows it."""


class Seen(NamedTuple):
    """The part of a key's history that a writer had seen, without a gap, when it computed an event (``core/fold/joining``)."""

    since: Position
    """The first event that the writer had seen; empty: it had seen the history from its beginning."""
    upto: Position
    """The last event that the writer had seen; empty: none."""


class Stamp(NamedTuple):
    """What a sidecar adds to its event, in the properties of the message. Brokers ignore the properties."""

    event_id: str
    """A UUID. An event that is appended again, after a lost acknowledgement, keeps it."""
    kind: StampKind
    request_id: str = ""
    """The id of the request; empty for a REPAIR or TOMBSTONE."""
    digest: str = ""
    """The digest of the request's body."""
    actor: str = ""
    """On whose behalf the principal called: itself, or the caller of a proxy. Without a principal, the name that the caller gave, or ""."""
    reason: str = ""
    """The reason that the caller gave; empty: none."""
    mask: tuple[str, ...] = ()
    """The request's paths; ``("*",)`` replaces the document."""
    base: str = ""
    """The event that it was computed from, by its version, or by its id if it was in flight. Empty: computed from an absent document."""
    etag: Position | None = None
    """The version that the head must have, else the operation does not count; ``ABSENT`` demands that there is no document. None: any."""
    skip_if_absent: bool = False
    """Whether the operation counts only if there is a document."""
    reads: Mapping[str, str] = MappingProxyType({})
    """Digests (``documents.digest``) of the settings that the computation relied on. If the head's differ, the operation does not count."""
    operands: Mapping[str, tuple[ListChange, bytes]] = MappingProxyType({})
    """List operations by setting: the change, and the given elements as the bytes of a setting."""
    remembered: Sequence[Remembered] = ()
    """The last requests of the key before this one, the newest last. They travel here because compaction erases their events."""
    head_version: Position = ""
    """REPAIR and TOMBSTONE: the version of the head that they restate."""
    history: Seen | None = None
    """The part of the key's history that the writer had seen; None: nothing, or the writer does not say."""
    principal: str = ""
    """The principal whose credentials the writing sidecar had verified; empty: none."""
    claimed: str = ""
    """The name that the caller gave, where it is not the actor's; empty without a principal."""
    owner: str = ""
    """The owner of the declaration that the request carries out; empty: it carries out none."""
    trace_parent: str = ""
    """The trace of the call, as W3C's ``traceparent``; empty: none."""
    trace_state: str = ""
    """What tracing systems add to the trace (``tracestate``)."""


class Event(NamedTuple):
    """One event of a change log."""

    key: PolicyKey
    action: Action
    document: Document | None
    """The writer's whole document; None is a tombstone (a message without a value)."""
    stamp: Stamp | None = None
    """What the sidecar that wrote the event adds to it; None: a broker wrote it."""
    known: frozenset[str] | None = None
    """The families (``documents.family``) that the writer's schema knows; None: all that this server's schema knows."""
    replicated: bool = False
    """Whether the event was replicated from another cluster."""
    clusters: tuple[str, ...] | None = None
    """The clusters that the event names (``replicateTo``); None: as usual, a LOCAL one the log's own cluster, and a GLOBAL one none."""


class Placed(NamedTuple):
    """An entry of the log: an event and its position."""

    partition: int
    position: Position
    event: Event | None
    """None: the entry can't be read, or is no event of topic policies; it only takes up its position."""
    published_at: int
    """When the entry was published, in milliseconds since 1970 by the log's clock; at most ``LATEST_MS``."""
    producer: str = ""
    problem: str = ""
    """Why the entry can't be read; empty: it can."""
