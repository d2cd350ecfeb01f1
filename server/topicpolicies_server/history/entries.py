"""What the history keeps: each event with its effect, and the times in which events may be missing.

A ``Noted`` is made on the event loop's thread for each event that is folded, so it only refers to objects that exist anyway. ``entry_of``
makes an ``Entry`` of it, on the writer's thread. An entry contains no secret of an object storage: old credentials would outlive their
rotation there.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from topicpolicies.masks import format_path
from topicpolicies.v1.history_pb2 import HISTORY_KIND_BROKER, HISTORY_KIND_UNREADABLE, HistoryKind

from ..core.changes.plan import paths_of
from ..core.fold.operation import Folded, Status
from ..core.names import Scope
from ..core.policies import secrets
from ..core.policies.documents import EXTRA_PREFIX, Document, Setting, differing, family
from ..core.policies.events import LATEST_MS, Event, Placed, Position, Stamp, StampKind
from ..core.reading.cell import Head


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
STALE, UNEXPLAINED, AMBIGUOUS, REPLICATED, BEFORE_KNOWN, AS_AFTER = 1, 2, 4, 8, 16, 32
"""The flags of an entry. AS_AFTER: the event has the same document as the head after it."""

FoldedEntry: TypeAlias = tuple[Placed, Head | None, Folded | None, Head | None]
"""An event that was folded: the event, the head before it, its effect (None: the entry could not be read), and the head after it. None for
a head: the log knew no event of the key."""


class EntryPlace(NamedTuple):
    """The place of an entry in the order of a history: its time in milliseconds since 1970, then its id."""

    at: int
    id: int


class Entry(NamedTuple):
    """An entry of the history. Its fields are the columns of the file; times are in milliseconds since 1970."""

    id: int
    """Grows in the order of recording."""
    stream: int
    """The id of the event's partition of a log."""
    position: Position
    namespace: int
    """The namespace's id."""
    at: int
    """The time by which entries are ordered."""
    published_at: int
    """The time that the event's writer gave."""
    kind: int
    """By the numbers of ``topicpolicies.v1.HistoryKind``."""
    outcome: int
    topic: str = ""
    """Empty, and then so is all that follows but ``producer`` and ``problem``, if the event could not be read."""
    scope: int = 0
    actor: str = ""
    reason: str = ""
    request_id: str = ""
    mask: str = "[]"
    """The paths of the event's mask, as JSON."""
    producer: str = ""
    version: Position = ""
    previous: Position = ""
    flags: int = 0
    kept_before: bytes | None = None
    """The document before the event, if it is known and the event changed it."""
    after: bytes | None = None
    changed_json: str = ""
    """The paths in which the documents before and after differ, as JSON; empty: the event did not change the document."""
    problem: str = ""
    principal: str = ""
    claimed: str = ""
    owner: str = ""
    trace_parent: str = ""
    action: int = 0
    clusters_json: str = "[]"
    own_document: bytes | None = None
    """The event's own document, unless there is none, or the flag AS_AFTER says that it is ``after``."""

    @property
    def place(self) -> EntryPlace:
        """The entry's place in the order of the history."""
        return EntryPlace(self.at, self.id)

    @property
    def before_known(self) -> bool:
        """Whether the document before the event is known."""
        return bool(self.flags & BEFORE_KNOWN)

    @property
    def before(self) -> bytes | None:
        """The document before the event; None: there was none, or it is not known."""
        if not self.before_known:
            return None
        return self.kept_before if self.changed_json else self.after

    @property
    def written(self) -> bytes | None:
        """The document of the event itself; None: it has none."""
        return self.after if self.flags & AS_AFTER else self.own_document

    @property
    def clusters(self) -> list[str]:
        """The clusters that the event names."""
        found: list[str] = json.loads(self.clusters_json)
        return found

    @property
    def changed(self) -> list[str]:
        """The paths in which the documents before and after differ."""
        found: list[str] = json.loads(self.changed_json) if self.changed_json and self.before_known else []
        return found

    @property
    def paths(self) -> list[str]:
        """The paths of the event's mask."""
        found: list[str] = json.loads(self.mask)
        return found

    @property
    def size(self) -> int:
        """The entry's size in an answer in bytes, by estimate."""
        texts = len(self.mask) + len(self.changed_json) + len(self.reason) + len(self.actor) + len(self.problem)
        return len(self.before or b"") + len(self.after or b"") + len(self.written or b"") + 4 * texts


@dataclass(slots=True, eq=False)
class Stream:
    """One partition of one log of a namespace: the scope in which positions can be compared, and how far it is recorded."""

    namespace: str
    log: str
    """The log's identity."""
    partition: int
    position: Position = ""
    """The position of the last recorded event; "": nothing is recorded."""
    at: int = 0
    """The time of the last entry, in milliseconds since 1970."""


class Noted(NamedTuple):
    """An event and its effect, to be recorded."""

    stream: Stream
    placed: Placed
    at: int
    """The event's time in the history, in milliseconds since 1970."""
    folded: Folded | None
    """The effect; None: the entry could not be read."""
    before: Document | None
    """The head before the event."""
    after: Document | None
    """The head after it."""
    version: Position
    """The version of the head after the event."""
    cluster: str
    """The name of the cluster for which the log's LOCAL events are."""

    @property
    def weight(self) -> int:
        """How much memory it holds until it is written, in bytes, by estimate."""
        after = self.after
        return 512 if after is None else 512 + 128 * len(after) + sum(map(len, after.values()))

    @property
    def as_gap(self) -> Gap:
        """The gap that there is if it is not recorded."""
        return Gap(self.stream.namespace, self.at, self.at + 1, GapReason.OVERRUN, ((self.stream, self.placed.position),))


class Gap(NamedTuple):
    """A time in which events may be missing."""

    namespace: str
    since: int | None
    """In milliseconds since 1970; None: from the beginning of the log."""
    until: int
    reason: GapReason
    holes: tuple[tuple[Stream, Position], ...] = ()
    """The streams in which events may be missing, each with the position up to which they may; "": before the first event."""

    def merged(self, earlier: Gap) -> Gap:
        """Returns the gap that has this one and an earlier one of the same namespace and reason."""
        since = None if self.since is None or earlier.since is None else min(self.since, earlier.since)
        holes = tuple((dict(earlier.holes) | dict(self.holes)).items())
        return Gap(self.namespace, since, max(self.until, earlier.until), self.reason, holes)


@dataclass(slots=True)
class Extent:
    """How far the history of a namespace goes, including what still waits to be written."""

    followed_until: int | None = None
    """When the namespace's log was last followed, in milliseconds since 1970; None: never."""
    streams: dict[tuple[str, int], Stream] = field(default_factory=dict)
    """The streams, by the log's identity and the partition."""
    listeners: set[Callable[[], None]] = field(default_factory=set)
    """Are called when there are new events."""

    @property
    def empty(self) -> bool:
        """Whether the history knows nothing of the namespace, and nobody waits for its events."""
        return self.followed_until is None and not self.listeners and not any(stream.position for stream in self.streams.values())


_UNSTAMPED = Stamp("", StampKind.UPDATE)
_REMEMBERED = 64
"""How many JSON texts of each kind are cached: most events have the same few paths."""
_MOST_CHANGED = 1_000
_MOST_CHANGED_TEXT = 65_536
"""How many changed settings an entry lists at most, and with how many characters together; beyond these it lists their fields."""


def entry_of(noted: Noted, number: int, stream: int, namespace: int, wires: dict[int, bytes]) -> Entry:
    """Makes the entry of a noted event.

    ``wires``: the serialized documents of events that are made together, by the identity of the document: the document after an event of a
    key is the one before the next.
    """
    placed, event, folded = noted.placed, noted.placed.event, noted.folded
    published_at = min(max(placed.published_at, 0), LATEST_MS)  # a writer's own time may be any number
    if event is None or folded is None:
        entry = Entry(number, stream, placed.position, namespace, noted.at, published_at, HISTORY_KIND_UNREADABLE, OUTCOMES[Status.IGNORED])
        return entry._replace(producer=placed.producer, problem=placed.problem)

    def wire(document: Document) -> bytes:
        found = wires.get(id(document))
        if found is None:
            found = wires[id(document)] = secrets.wire(document)
        return found

    stamp = event.stamp or _UNSTAMPED
    before, after, written = noted.before, noted.after, event.document
    changed = [] if before is after else differing(before, after)
    moved = bool(changed) or (before is None) is not (after is None)
    previous = folded.previous if folded.changed else noted.version
    as_after = written is not None and (written is after or written == after)
    return Entry(
        id=number,
        stream=stream,
        position=placed.position,
        namespace=namespace,
        at=noted.at,
        published_at=published_at,
        kind=HISTORY_KIND_BROKER if event.stamp is None else HistoryKind.Value(f"HISTORY_KIND_{stamp.kind.name}"),
        outcome=OUTCOMES[folded.status],
        topic=event.key.topic,
        scope=int(event.key.scope),
        actor=stamp.actor,
        reason=stamp.reason,
        request_id=stamp.request_id,
        mask=_paths_json(folded.settings) if event.stamp is None else _json(stamp.mask),
        producer=placed.producer,
        version=noted.version,
        previous=previous,
        flags=STALE * folded.stale
        | UNEXPLAINED * folded.unexplained
        | AMBIGUOUS * folded.ambiguous
        | REPLICATED * event.replicated
        | BEFORE_KNOWN * bool(previous)
        | AS_AFTER * as_after,
        kept_before=wire(before) if before is not None and moved else None,
        after=wire(after) if after is not None else None,
        changed_json=_paths_json(_few(changed)) if moved else "",
        problem="",
        principal=stamp.principal,
        claimed=stamp.claimed,
        owner=stamp.owner,
        trace_parent=stamp.trace_parent,
        action=int(event.action),
        clusters_json=_json(_clusters(event, noted.cluster)),
        own_document=wire(written) if written is not None and not as_after else None,
    )


def _clusters(event: Event, cluster: str) -> tuple[str, ...]:
    if event.clusters is not None:
        return event.clusters
    return (cluster,) if event.key.scope is Scope.LOCAL and event.document is not None else ()


def _few(settings: Sequence[Setting]) -> tuple[Setting, ...]:
    """Returns the settings as they are or, where they exceed the limits, the fields that they belong to."""
    if len(settings) <= _MOST_CHANGED and sum(map(len, settings)) <= _MOST_CHANGED_TEXT:
        return tuple(settings)
    return tuple(dict.fromkeys(map(family, settings)))


@lru_cache(_REMEMBERED)
def _paths_json(settings: tuple[Setting, ...]) -> str:
    """Returns settings as the paths of a mask. A setting that only a newer broker knows keeps the name that the broker gave it."""
    found: list[str] = []
    for setting in settings:
        if setting.startswith(EXTRA_PREFIX):
            found.append(format_path((setting.removeprefix(EXTRA_PREFIX),)))
        else:
            found += map(format_path, paths_of(setting))
    return _json(tuple(sorted(found)))


@lru_cache(_REMEMBERED)
def _json(texts: tuple[str, ...]) -> str:
    return json.dumps(list(texts), ensure_ascii=False, separators=(",", ":"))
