"""What is recorded: events with their effects, and the times in which events may be missing.

A ``Noted`` is made on the event loop's thread for each event that is folded, so it only refers to objects that exist anyway. ``Rows`` makes
a row of it, on the writer's thread. A row contains no secret of an object storage: old credentials would outlive their rotation there.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from topicpolicies.masks import format_path

from ..core.changes.plan import paths_of
from ..core.fold.operation import Folded, Status
from ..core.names import Scope
from ..core.policies import secrets
from ..core.policies.documents import EXTRA_PREFIX, Setting, Settings, differing, family
from ..core.policies.events import LATEST_MS, Event, Placed, Position, StampKind
from ..core.reading.heads import Head


class Kind(enum.IntEnum):
    """The kind of an event. The numbers are those of ``topicpolicies.v1.HistoryKind``."""

    UPDATE = 1
    DELETE = 2
    BROKER = 3
    REPAIR = 4
    TOMBSTONE = 5
    UNREADABLE = 6


class Standing(enum.IntEnum):
    """What is known of an actor. The numbers are those of ``topicpolicies.v1.ActorStanding``."""

    UNKNOWN = 1
    UNAUTHENTICATED = 2
    AUTHENTICATED = 3


class GapReason(enum.IntEnum):
    """Why events may be missing. The numbers are those of ``topicpolicies.v1.HistoryGapReason``."""

    COMPACTED = 1
    LOG_REPLACED = 2
    OVERRUN = 3
    TRIMMED = 4


OUTCOMES = {
    Status.APPLIED: 1,
    Status.REJECTED_ETAG: 2,
    Status.REJECTED_READS: 2,
    Status.SKIPPED_ABSENT: 3,
    Status.DUPLICATE: 4,
    Status.RESTATED: 5,
    Status.IGNORED: 6,
}
"""What became of an event, by the numbers of ``topicpolicies.v1.HistoryOutcome``."""
_REMEMBERED, _FEW, _SHORT = 4_096, 8, 512
"""The size of each cache of JSON texts, and of how many paths and how many characters a cached text is made at most."""
STALE, UNEXPLAINED, AMBIGUOUS, REPLICATED, BEFORE_KNOWN, UNTIMED, AS_AFTER = 1, 2, 4, 8, 16, 32, 64
"""The flags of a row. UNTIMED: the event's exact time is not known; it lies between the entry before it and the row's time. AS_AFTER: the
event has the same document as the head after it."""

_KINDS = {
    StampKind.UPDATE: int(Kind.UPDATE),
    StampKind.DELETE: int(Kind.DELETE),
    StampKind.REPAIR: int(Kind.REPAIR),
    StampKind.TOMBSTONE: int(Kind.TOMBSTONE),
}
_BROKER = int(Kind.BROKER)
_UNKNOWN, _UNAUTHENTICATED, _AUTHENTICATED = map(int, Standing)
"""Plain integers: the ``sqlite3`` module binds an ``int`` directly, and makes three lookups for a value of any other type."""

Taken: TypeAlias = tuple[Placed, Head | None, Folded | None, Head | None]
"""An event that was folded: the event, the head before it, its effect (None: the entry could not be read), and the head after it. None for
a head: the log knew no event of the key."""
Row: TypeAlias = tuple[int | str | bytes | None, ...]
"""The values of ``file.COLUMNS``, in their order."""


class Stream:
    """One partition of one log of a namespace: the scope in which positions can be compared, and how far it is recorded."""

    __slots__ = ("at", "id", "log", "namespace", "partition", "position")

    def __init__(self, namespace: str, log: str, partition: int, position: Position = "", at: int = 0) -> None:
        self.namespace = namespace
        self.log = log
        """The log's identity."""
        self.partition = partition
        self.position = position
        """The position of the last recorded event; "": nothing is recorded."""
        self.at = at
        """The time of the last entry, in milliseconds since 1970."""
        self.id = 0
        """The stream's id in the file; 0: the writer has not looked it up yet."""


class Noted(NamedTuple):
    """An event and its effect, to be recorded."""

    stream: Stream
    placed: Placed
    at: int
    """The event's time in the history, in milliseconds since 1970."""
    folded: Folded | None
    """The effect; None: the entry could not be read."""
    before: Settings | None
    """The head before the event."""
    after: Settings | None
    """The head after it."""
    version: Position
    """The version of the head after the event."""
    cluster: str
    """The name of the cluster for which the log's LOCAL events are."""


class Gap(NamedTuple):
    """A time in which events may be missing."""

    namespace: str
    since: int | None
    """In milliseconds since 1970; None: from the beginning of the log."""
    until: int
    reason: GapReason
    holes: tuple[tuple[Stream, Position], ...] = ()
    """The streams in which events may be missing, each with the position up to which they may; "": before the first event."""


class Followed(NamedTuple):
    """Notes until when a namespace's log was followed."""

    namespace: str
    until: int
    """In milliseconds since 1970."""


class SetBack(NamedTuple):
    """Notes that the clock went back: what was recorded of a stream with a time later than ``now`` happened before ``now``."""

    stream: Stream
    now: int
    """In milliseconds since 1970."""


@dataclass(slots=True)
class Marks:
    """How far the history of a namespace goes, including what still waits to be written."""

    followed_until: int | None
    """When the namespace's log was last followed, in milliseconds since 1970; None: never."""
    streams: dict[tuple[str, int], Stream]
    """The streams, by the log's identity and the partition."""
    overrun: int | None = None
    """The time of the last event before the history was full, in milliseconds since 1970; None: the history takes events."""
    overrun_until: int = 0
    """The time of the latest event that the history could not take since then, in milliseconds since 1970."""
    refused: dict[int, tuple[Stream, Position]] = field(default_factory=dict)
    """By partition: the last event that the history could not take, as its stream and position."""

    @property
    def empty(self) -> bool:
        """Whether the history knows nothing of the namespace."""
        return self.followed_until is None and not self.streams and self.overrun is None


def weight(noted: Noted) -> int:
    """Estimates how much memory a noted event holds until it is written, in bytes."""
    after = noted.after
    return 512 if after is None else 512 + 128 * len(after) + sum(map(len, after.values()))


class Rows:
    """Makes rows of noted events. Consecutive events of a key cost least: the document after one is the document before the next."""

    __slots__ = ("_document", "_wire")

    def __init__(self) -> None:
        self._document: Settings | None = None
        """The last document that was serialized, to ``_wire``."""
        self._wire = b""

    def of(self, noted: Noted, namespace_id: int) -> Row:
        """Makes the row of a noted event."""
        placed = noted.placed
        event = placed.event
        if event is None or noted.folded is None:
            return (
                noted.stream.id, placed.position, namespace_id, "", 0, noted.at, _storable(placed.published_at), Kind.UNREADABLE,
                OUTCOMES[Status.IGNORED], "", Standing.UNKNOWN, "", "", "[]", placed.producer, "", "", 0, None, None, "[]", placed.problem,
                "", "", "", 0, "[]", None,
            )  # fmt: skip
        return self._of_event(noted, event, noted.folded, namespace_id)

    def _of_event(self, noted: Noted, event: Event, folded: Folded, namespace_id: int) -> Row:
        placed, stamp = noted.placed, event.stamp
        topic, scope = event.key
        kind = _BROKER if stamp is None else _KINDS[stamp.kind]
        actor = stamp.actor if stamp is not None else ""
        before, after = noted.before, noted.after
        changed = () if before is after else _few(differing(before, after))
        moved = bool(changed) or (before is None) is not (after is None)
        previous = folded.previous if folded.changed else noted.version
        flags = BEFORE_KNOWN if previous else 0
        written = event.document
        if written is not None and (written is after or written == after):
            flags, written = flags | AS_AFTER, None
        if folded.stale or folded.unexplained or folded.ambiguous or event.replicated:
            flags |= STALE * folded.stale | UNEXPLAINED * folded.unexplained | AMBIGUOUS * folded.ambiguous | REPLICATED * event.replicated
        return (
            noted.stream.id,
            placed.position,
            namespace_id,
            topic,
            int(scope),
            noted.at,
            _storable(placed.published_at),
            kind,
            OUTCOMES[folded.status],
            actor,
            (_AUTHENTICATED if stamp.principal else _UNAUTHENTICATED) if actor and stamp is not None else _UNKNOWN,
            stamp.reason if stamp is not None else "",
            stamp.request_id if stamp is not None else "",
            _paths_text(folded.settings) if stamp is None else _mask_text(stamp.mask),
            placed.producer,
            noted.version,
            previous,
            flags,
            self._written(before) if before is not None and moved else None,
            self._written(after) if after is not None else None,
            _paths_text(tuple(changed)) if moved else "",
            "",
            stamp.principal if stamp is not None else "",
            stamp.claimed if stamp is not None else "",
            stamp.trace_parent if stamp is not None else "",
            int(event.action),
            _mask_text(_clusters(event, noted.cluster)),
            None if written is None else secrets.wire(written),
        )

    def _written(self, document: Settings) -> bytes:
        if document is not self._document:
            self._wire = secrets.wire(document)
            self._document = document
        return self._wire


def _clusters(event: Event, cluster: str) -> tuple[str, ...]:
    """Returns the clusters that an event names; a message without a value names none."""
    if event.clusters is not None:
        return event.clusters
    return (cluster,) if event.key.scope is Scope.LOCAL and event.document is not None else ()


def _storable(milliseconds: int) -> int:
    """Returns a writer's own timestamp, which may be any number, clamped to the range that the file can hold."""
    return milliseconds if 0 <= milliseconds <= LATEST_MS else min(max(milliseconds, 0), LATEST_MS)


_MOST_CHANGED = 1_000
_MOST_CHANGED_TEXT = 65_536
"""How many changed settings an entry lists at most, and with how many characters together; beyond these it lists their fields."""


def _few(settings: Sequence[Setting]) -> Sequence[Setting]:
    """Returns the settings as they are or, where they exceed the limits, the fields that they belong to."""
    if len(settings) <= _MOST_CHANGED and sum(map(len, settings)) <= _MOST_CHANGED_TEXT:
        return settings
    return list(dict.fromkeys(map(family, settings)))


def paths(settings: Iterable[Setting]) -> list[str]:
    """Returns settings as the paths of a mask. A setting that only a newer broker knows keeps the name that the broker gave it."""
    found: list[str] = []
    for setting in settings:
        if setting.startswith(EXTRA_PREFIX):
            found.append(format_path((setting.removeprefix(EXTRA_PREFIX),)))
        else:
            found += map(format_path, paths_of(setting))
    return sorted(found)


def _mask_text(mask: tuple[str, ...]) -> str:
    """Returns paths as JSON. Most events have the same few paths, so short texts are cached."""
    return (_remembered_mask if _is_short(mask) else _json)(mask)


def _paths_text(settings: tuple[Setting, ...]) -> str:
    """Returns the paths of settings as JSON, cached as in ``_mask_text``."""
    return _remembered_paths(settings) if _is_short(settings) else _json(paths(settings))


def _is_short(texts: tuple[str, ...]) -> bool:
    return len(texts) <= _FEW and sum(map(len, texts)) <= _SHORT


def _json(texts: Iterable[str]) -> str:
    return json.dumps(list(texts), ensure_ascii=False, separators=(",", ":"))


@lru_cache(_REMEMBERED)
def _remembered_mask(mask: tuple[str, ...]) -> str:
    return _json(mask)


@lru_cache(_REMEMBERED)
def _remembered_paths(settings: tuple[Setting, ...]) -> str:
    return _json(paths(settings))
