"""The events of a change log, as the core sees them: decoded, and with their place."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from ..names import PolicyKey
from .documents import Settings

Position: TypeAlias = str
"""Where an event stands in its partition: opaque, but string order is log order. It is the event's version too."""

ABSENT: Position = "0"
"""The version of a document of which the log knows no event. It sorts before every position."""


class Action(enum.IntEnum):
    """What an event does (``org.apache.pulsar.common.events.ActionType``). The numbers are those of ``topicpolicies.v1.ActionType``."""

    INSERT = 1
    DELETE = 2
    UPDATE = 3
    NONE = 4


class StampKind(enum.Enum):
    """What an event of a sidecar is."""

    UPDATE = "update"
    """A masked change: an operation."""
    DELETE = "delete"
    """A deletion: an operation, carried by an UPDATE with everything unset, because ``PersistentTopic.onUpdate(null)`` does nothing."""
    TOMBSTONE = "tombstone"
    """Follows a DELETE so that compaction forgets the key; like a repair it changes no head."""
    REPAIR = "repair"
    """Makes the raw document equal to the head; never a new version."""


class ListChange(enum.Enum):
    """What an operation does to a list. The names are those of ``topicpolicies.v1.ListOperation``."""

    UNION = "union"
    SUBTRACT = "subtract"


class Remembered(NamedTuple):
    """A request that was applied to a key, so that its repeat gets the first answer."""

    request_id: str
    digest: str
    """Of the request's body: a repeat with another body is refused."""
    version: Position
    """Of the event that applied it; empty if the log no longer tells."""
    previous: Position
    """The version that it was applied to; empty if the log no longer tells."""


class Seen(NamedTuple):
    """How much of a key's history a writer had seen, without a gap, when it computed an event (``core/fold/joining``)."""

    since: Position
    """The first event that it had seen; empty: it had seen the key's history from its beginning."""
    upto: Position
    """The last one; empty: none."""


class Stamp(NamedTuple):
    """What a sidecar says of its event in the message's properties. Brokers ignore them."""

    event_id: str
    """A UUID. An event that is published twice (a lost acknowledgement) keeps it."""
    kind: StampKind
    request_id: str = ""
    """Of the request that caused it; empty for repairs."""
    digest: str = ""
    """Of that request's body."""
    actor: str = ""
    """Who asked for it: for whom the principal called, or, if there is none, the name that the caller gave; empty if nobody said."""
    reason: str = ""
    """Why; empty if nobody said."""
    mask: tuple[str, ...] = ()
    """The request's paths; ``("*",)`` replaces the document."""
    base: str = ""
    """The id (or, for a broker's event, the position) of the event that it was computed from; empty: from an absent document."""
    etag: Position | None = None
    """The version that the head must have for the operation to count; ``ABSENT`` demands that there is no document. None: any."""
    skip_if_absent: bool = False
    """The operation counts only if there is a document."""
    reads: Mapping[str, str] = MappingProxyType({})
    """Digests of the settings that the computation relied on, by setting (``documents.digest``): if the head's differ, it is void."""
    operands: Mapping[str, tuple[ListChange, bytes]] = MappingProxyType({})
    """List operations: by setting, what is done, and the given elements as a setting's bytes."""
    remembered: Sequence[Remembered] = ()
    """The last requests of the key before this one, newest last, because compaction erases their events."""
    head_version: Position = ""
    """REPAIR and TOMBSTONE: the version of the head that they restate."""
    seen: Seen | None = None
    """How much of the key's history its writer had seen; None: nothing, or it does not say."""
    principal: str = ""
    """Whose credentials the sidecar had verified that wrote it; empty: nobody's."""
    claimed: str = ""
    """The name that the caller gave, where it is another one than the actor's; empty without a principal."""
    trace_parent: str = ""
    """In which trace it was asked for, as W3C's ``traceparent``; empty: in none."""
    trace_state: str = ""
    """What tracing systems say of that besides (``tracestate``)."""


class Event(NamedTuple):
    """One event of a change log."""

    key: PolicyKey
    action: Action
    document: Settings | None
    """The writer's whole document; None is a tombstone (a message without a value)."""
    stamp: Stamp | None = None
    """What the sidecar that wrote it says of it; None: a broker wrote it."""
    known: frozenset[str] | None = None
    """The families (``documents.family``) that the writer's schema knows; None: all that ours knows."""
    replicated: bool = False
    """Whether it came from another cluster."""


class Placed(NamedTuple):
    """An event and its place in the log."""

    partition: int
    position: Position
    event: Event | None
    """None: the entry could not be read, or is none of ours; it only takes its place."""
    published_at: int
    """Milliseconds since 1970, by the log's clock."""
    producer: str = ""
    problem: str = ""
    """Why the entry could not be read; empty if it could."""
