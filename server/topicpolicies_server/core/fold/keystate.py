"""What is kept of one policy key: its head, and what is needed to fold the next event and to tell whether a repair is due.

The fold (``core/fold/fold``) is the only writer of a ``KeyState``; everything else reads. A namespace may have 100,000 of them, so an idle
one is small: what is only of use for the window W after an event is None when there is nothing to keep.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from ..names import PolicyKey
from ..policies.documents import Setting, Settings
from ..policies.events import ABSENT, Action, Event, Placed, Position, Remembered, Seen, Stamp, StampKind

WINDOW_MS = 30_000
"""W, in milliseconds: the longest that a broker may lag behind the log, and that a repair may take."""
RECENT_EVENTS = 4_096
"""How many superseded events of a key are kept at most."""
SOLE_WRITER_EVENTS = 256
"""The same where nobody else writes: only their ids matter, and no more can be in flight."""
REMEMBERED_REQUESTS = 16
"""How many requests of a key are remembered, and travel in each of its events."""


_ID: Callable[[Remembered], str] = itemgetter(0)
"""A request's id."""


class Superseded(NamedTuple):
    """An event of a key that is not its newest any more."""

    raw: Settings | None
    """What a broker showed after it; None: no document."""
    at: int
    """When the next event was published, in milliseconds since 1970."""
    event_id: str
    """Its id; empty for a broker's."""


class Owed(NamedTuple):
    """Events that are still to come, whose changes others have carried (``core/fold/overlap``)."""

    events: int
    until: int
    """Until when they are waited for, in milliseconds since 1970."""


class Noted(NamedTuple):
    """An event that may have to be folded again."""

    placed: Placed
    changed: list[Setting] | None = None
    """Of a broker's event the change inferred from it; None: its whole document was taken. None for events of ours."""
    on_absence: bool = True
    """Of a broker's event, whether it was computed from no document; if not, it can't bring one into being by clearing settings."""
    certain: bool = True
    """Whether somebody who has seen more would infer the same change."""


class Joined:
    """What is kept for a while of a key whose history was not seen from its beginning (``core/fold/joining``)."""

    __slots__ = ("dropped", "first", "first_at", "trail")

    def __init__(self, first: Position = "", first_at: int = 0, dropped: Position = "") -> None:
        self.first = first
        """Where seeing began: what stood before may be missing; empty: that is so long ago that it does not matter any more."""
        self.first_at = first_at
        """When that event was published, in milliseconds since 1970; 0 with an empty ``first``."""
        self.dropped = dropped
        """Up to where the trail tells nothing: to the first event that was seen, or the newest that was let go of."""
        self.trail: list[Noted] = []
        """The events of the last W that may have to be folded again, oldest first."""


ALONE = Joined()
"""Shared by the keys of which the head is a guess in a log with a sole writer: whatever that writes next tells."""


class KeyState:
    """One policy key after a prefix of the log. Changed only by the fold."""

    __slots__ = (
        "contradictions",
        "document",
        "due",
        "head_event",
        "joined",
        "live",
        "newest",
        "older",
        "owed",
        "remembered",
        "seen",
        "since",
        "upto",
        "version",
    )

    def __init__(self) -> None:
        self.document: Settings | None = None
        """H, the head; None: there is no document."""
        self.version: Position = ABSENT
        """V, the position of the event that made the head. Of an *absence*, different sidecars may hold different versions."""
        self.head_event = ""
        """The id of the event that made the head, or its position if a broker wrote it or it is only known from a restatement."""
        self.remembered: tuple[Remembered, ...] = ()
        """The last ``REMEMBERED_REQUESTS`` requests that were applied, newest last."""
        self.live: Settings | None = None
        """The raw document: what a broker that has read this far shows."""
        self.newest: str | None = None
        """The id of the newest event, empty if a broker wrote it; None: no event of the key was seen."""
        self.older: list[Superseded] | None = None
        """Superseded events, oldest first: those within W, and some more; None if there are none, or nobody else writes."""
        self.owed: Owed | None = None
        """Events that are still to come; None: there are none, or brokers clone what they change."""
        self.seen: dict[str, None] | None = None
        """The ids of superseded events, oldest first; None if there are none."""
        self.due = False
        """Whether somebody who sees only the newest event gets something else than the head (see ``repair_due``)."""
        self.since: Position = ""
        """Since which event the head rests on all of the key's history; empty: since its beginning. It is the fold's or another
        sidecar's word, whoever had seen more (``core/fold/joining``)."""
        self.upto: Position = ""
        """The newest event that was folded; empty where nobody else writes: nobody asks."""
        self.joined: Joined | None = None
        """Of a key with a ``since``: what was seen lately; None: nothing for a while, or the history was seen from its beginning."""
        self.contradictions = 0
        """How often this version was restated as something else by somebody who had seen as much."""

    @property
    def base(self) -> str:
        """What an event that is computed from this very head names as its base: its version, or "" if there is no document."""
        return "" if self.document is None else self.version

    @property
    def history(self) -> Seen | None:
        """How much of the key's history the head rests on; None: nothing of it, or nobody asks."""
        return Seen(self.since, self.upto) if self.upto else None

    @property
    def joining(self) -> bool:
        """Whether something may be missing that its newest events were computed from."""
        return self.joined is not None and (self.joined is ALONE or self.joined.first != "")

    def sighted(self, at: int, window_ms: int = WINDOW_MS) -> bool:
        """Whether all was seen that an event published at ``at`` (milliseconds since 1970) may have been computed from."""
        return self.joined is None or self.joined.first_at <= at - window_ms

    def remembers(self, request_id: str) -> Remembered | None:
        """What is remembered of an applied request; None if it is not, or not any more."""
        if request_id not in map(_ID, self.remembered):  # mostly so, and quick
            return None
        return next(request for request in self.remembered if request.request_id == request_id)

    def trim(self, now: int, window_ms: int = WINDOW_MS) -> None:
        """Drops what no event published at ``now`` (milliseconds since 1970) or later has a use for; for keys that became idle.

        Twice W is kept, so that clocks which differ by up to W cannot make two sidecars infer differently.
        """
        if self.older is None or self.older[-1].at < now - 2 * window_ms:
            self.older = self.seen = None
            if self.joined is not ALONE:
                self.joined = None
            if self.owed is not None and self.owed.until < now - 2 * window_ms:
                self.owed = None

    def advance(
        self, raw: Settings | None, event_id: str, at: int, window_ms: int, sole_writer: bool, *, knows_before: bool = True
    ) -> None:
        """Takes an event as the newest: brokers show ``raw`` from now on. What is older than W, or too much, is dropped in time.

        ``knows_before``: whether it is known what brokers showed until now; not if there was a document before the first seen event.
        """
        before = self.newest
        if before:
            seen = self.seen
            if seen is None:
                seen = self.seen = {}
            seen[before] = None
            if sole_writer and len(seen) > SOLE_WRITER_EVENTS + (SOLE_WRITER_EVENTS >> 2):
                self._forget(list(islice(seen, SOLE_WRITER_EVENTS >> 2)))
        if not sole_writer and knows_before:
            older = self.older
            if older is None:
                older = self.older = []
            older.append(Superseded(self.live, at, before or ""))
            if older[len(older) >> 2].at < at - window_ms or len(older) > RECENT_EVENTS + (RECENT_EVENTS >> 2):  # a quarter at a time
                self._drop(older, at - window_ms)
        head = self.document
        self.live = head if raw is not head and raw == head else raw  # equal documents are kept once
        self.newest = event_id

    def _drop(self, older: list[Superseded], oldest: int) -> None:
        """Drops superseded events, the oldest first; the last was superseded just now, and stays."""
        count = max(len(older) - RECENT_EVENTS, 0)
        while older[count].at < oldest:
            count += 1
        self._forget([entry.event_id for entry in older[:count]])
        del older[:count]

    def _forget(self, event_ids: list[str]) -> None:
        seen = self.seen or {}
        for event_id in event_ids:
            seen.pop(event_id, None)


def absent_since(version: Position, state: KeyState | None = None) -> KeyState:
    """The state of a key whose document is known to be gone, as of a version, although the log tells of that no more.

    ``state``: what the log does tell of the key, which made no head; None: nothing.
    """
    state = state or KeyState()
    state.version = version
    return state


def repair_due(state: KeyState) -> bool:
    """Whether the head must be restated in the log, because brokers, or readers of the compacted log, see something else."""
    return state.due


def restatement(key: PolicyKey, state: KeyState, event_id: str) -> Event:
    """The event to be written if ``repair_due``, under a new id (a UUID). All sidecars write the same, so copies do no harm.

    A document is restated by a REPAIR, an absence by a TOMBSTONE. Where brokers show a document that is gone, its tombstone comes in two:
    first everything unset, because loaded topics ignore a message without a value (``PersistentTopic.onUpdate(null)``); then, as that is
    due once the first is folded, the message without a value. A restatement of a GLOBAL key must not be replicated.
    """
    gone = state.document is None
    kind = StampKind.TOMBSTONE if gone else StampKind.REPAIR
    stamp = Stamp(event_id, kind, head_version=state.version, remembered=state.remembered, seen=state.history)
    if gone and not state.live:
        return Event(key, Action.DELETE, None, stamp)
    return Event(key, Action.UPDATE, state.document or {}, stamp)
