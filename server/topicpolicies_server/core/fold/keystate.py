"""The fold's state of one policy key: its head, and what is needed to fold the next event and to decide whether a repair is due.

Only the fold (``core/fold/fold``) writes a ``KeyState``; all other code reads it. A namespace may have 100,000 of them, so the state of an
idle key is small: fields that are of use only for a window W after an event are None when there is nothing to keep.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from ..names import PolicyKey
from ..policies.documents import Document, Setting
from ..policies.events import ABSENT, Action, Event, Placed, Position, Remembered, Seen, Stamp, StampKind

WINDOW_MS = 30_000
"""W, in milliseconds: the longest that a broker may lag behind the log, and that a repair may take."""
RECENT_EVENTS = 4_096
"""How many superseded events of a key are kept at most."""
SOLE_WRITER_EVENTS = 256
"""How many superseded events are kept at most in a log with one writer: only their ids matter, and no more can be in flight."""
REMEMBERED_REQUESTS = 16
"""How many requests of a key are remembered, and travel in each of its events."""

REQUEST_ID: Callable[[Remembered], str] = itemgetter(0)
"""Returns a request's id."""


class Superseded(NamedTuple):
    """An event of a key that is not its newest any more."""

    raw: Document | None
    """The raw document after this event; None: no document."""
    at: int
    """When the event that superseded this one was published, in milliseconds since 1970."""
    event_id: str
    """The id of this event; empty if a broker wrote it."""


class Owed(NamedTuple):
    """A number of events that are still to come although earlier events already carried their changes (``core/fold/overlap``)."""

    events: int
    until: int
    """Until when these events are expected, in milliseconds since 1970."""


class TrailEvent(NamedTuple):
    """An event that may have to be folded again, on top of a head that another writer restates (``core/fold/joining``)."""

    placed: Placed
    changed: list[Setting] | None = None
    """The settings that a broker's event was inferred to change; None: its whole document was taken, or the event is ours."""
    on_absence: bool = True
    """Whether a broker's event was computed from no document; if not, it can't create one by clearing settings."""
    certain: bool = True
    """Whether a sidecar that has seen more of the history would infer the same change."""


@dataclass(slots=True, eq=False)
class Joined:
    """What the state of a key keeps for a while if the key's history was not seen from its beginning (``core/fold/joining``)."""

    first: Position = ""
    """The position of the first event that was seen: events before it may be missing. Empty: so long ago that these do not matter."""
    first_at: int = 0
    """When the first event that was seen was published, in milliseconds since 1970; 0 with an empty ``first``."""
    dropped: Position = ""
    """The position after which the trail is complete: that of the first event that was seen, or of the newest that was dropped."""
    trail: list[TrailEvent] = field(default_factory=list)
    """The events of the last W that may have to be folded again, oldest first."""


ALONE = Joined()
"""The ``KeyState.joined`` of every key whose head is a guess in a log with one writer: that writer's next event confirms or corrects it."""


@dataclass(slots=True, eq=False)
class KeyState:
    """One policy key after a prefix of the log. Changed only by the fold."""

    document: Document | None = None
    """H, the head; None: there is no document."""
    version: Position = ABSENT
    """V, the position of the event that made the head. Different sidecars may hold different versions of the same *absence*."""
    head_event: str = ""
    """The id of the event that made the head; its position, if a broker wrote that event or it is known only from a restatement."""
    remembered: tuple[Remembered, ...] = ()
    """The last ``REMEMBERED_REQUESTS`` requests that were applied, newest last."""
    raw: Document | None = None
    """The raw document: what a broker that has read this far shows."""
    newest_event: str | None = None
    """The id of the newest event, empty if a broker wrote it; None: no event of the key was seen."""
    older: list[Superseded] | None = None
    """Superseded events, oldest first: those within W, and some more; None if there are none, or the log has one writer."""
    owed: Owed | None = None
    """Events still to come whose changes were already carried; None: there are none, or brokers clone what they change."""
    superseded_ids: dict[str, None] | None = None
    """The ids of superseded events, oldest first; None if there are none."""
    repair_due: bool = False
    """Whether a repair is due: brokers, or readers that see only the newest event, get something else than the head."""
    since: Position = ""
    """The event since which the head rests on all of the key's history; empty: since the history's beginning. This sidecar saw that
    itself, or took it from a writer that had seen more (``core/fold/joining``)."""
    upto: Position = ""
    """The position of the newest event that was folded; empty in a log with one writer, where it is not needed."""
    joined: Joined | None = None
    """For a key with a ``since``: the events seen lately; None: none for a while, or the history was seen from its beginning."""
    contradictions: int = 0
    """How often this version was restated as something else by a writer that had seen as much."""

    @property
    def base(self) -> str:
        """The base that an event computed from this very head names: the head's version, or "" if there is no document."""
        return "" if self.document is None else self.version

    @property
    def history(self) -> Seen | None:
        """How much of the key's history the head rests on; None: nothing, or the log has one writer."""
        return Seen(self.since, self.upto) if self.upto else None

    @property
    def joining(self) -> bool:
        """Whether an event or document that the key's newest events were computed from may be missing."""
        return self.joined is not None and (self.joined is ALONE or self.joined.first != "")

    def all_seen(self, at: int, window_ms: int = WINDOW_MS) -> bool:
        """Returns whether every document was seen that an event published at ``at`` (milliseconds since 1970) may be computed from."""
        return self.joined is None or self.joined.first_at <= at - window_ms

    def remembers(self, request_id: str) -> Remembered | None:
        """Returns what is remembered of an applied request; None: it was not applied, or is not remembered any more."""
        if request_id not in map(REQUEST_ID, self.remembered):  # the common case, and cheap
            return None
        return next(request for request in self.remembered if request.request_id == request_id)

    def trim(self, now: int, window_ms: int = WINDOW_MS) -> None:
        """Drops what no event published at ``now`` (milliseconds since 1970) or later can need; called for keys that became idle.

        What is younger than twice W is kept, so that clocks which differ by up to W cannot make two sidecars infer differently.
        """
        if self.older is None or self.older[-1].at < now - 2 * window_ms:
            self.older = self.superseded_ids = None
            if self.joined is not ALONE:
                self.joined = None
            if self.owed is not None and self.owed.until < now - 2 * window_ms:
                self.owed = None

    def advance(
        self, raw: Document | None, event_id: str, at: int, window_ms: int, sole_writer: bool, *, knows_before: bool = True
    ) -> None:
        """Makes an event the newest: brokers show ``raw`` from now on. Drops superseded events that are too old or too many.

        ``knows_before``: whether the raw document until now is known; it is not if there was one before the first event that was seen.
        """
        before = self.newest_event
        if before:
            seen = self.superseded_ids
            if seen is None:
                seen = self.superseded_ids = {}
            seen[before] = None
            if sole_writer and len(seen) > SOLE_WRITER_EVENTS + (SOLE_WRITER_EVENTS >> 2):
                self._forget(list(islice(seen, SOLE_WRITER_EVENTS >> 2)))
        if not sole_writer and knows_before:
            older = self.older
            if older is None:
                older = self.older = []
            older.append(Superseded(self.raw, at, before or ""))
            if older[len(older) >> 2].at < at - window_ms or len(older) > RECENT_EVENTS + (RECENT_EVENTS >> 2):  # a quarter at a time
                self._drop(older, at - window_ms)
        head = self.document
        self.raw = head if raw is not head and raw == head else raw  # equal documents are kept once
        self.newest_event = event_id

    def _drop(self, older: list[Superseded], oldest: int) -> None:
        """Drops superseded events, the oldest first; the last one was superseded just now and always stays."""
        count = max(len(older) - RECENT_EVENTS, 0)
        while older[count].at < oldest:
            count += 1
        self._forget([entry.event_id for entry in older[:count]])
        del older[:count]

    def _forget(self, event_ids: list[str]) -> None:
        seen = self.superseded_ids or {}
        for event_id in event_ids:
            seen.pop(event_id, None)


def restatement(key: PolicyKey, state: KeyState, event_id: str) -> Event:
    """Returns the event to write if a repair is due, under a new id (a UUID). All sidecars write the same, so copies do no harm.

    A document is restated by a REPAIR, an absence by a TOMBSTONE. Where brokers show a document that is gone, two tombstones are written:
    first an UPDATE with everything unset, because loaded topics ignore a message without a value (``PersistentTopic.onUpdate(null)``);
    once that is folded another one is due, the message without a value. A restatement of a GLOBAL key must not be replicated.
    """
    gone = state.document is None
    kind = StampKind.TOMBSTONE if gone else StampKind.REPAIR
    stamp = Stamp(event_id, kind, head_version=state.version, remembered=state.remembered, history=state.history)
    if gone and not state.raw:
        return Event(key, Action.DELETE, None, stamp)
    return Event(key, Action.UPDATE, state.document or {}, stamp)
