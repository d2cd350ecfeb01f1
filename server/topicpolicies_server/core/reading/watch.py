"""The watch hub: turns the changes of one namespace's view into any number of streams.

The hub holds no queue per watcher and sends nothing. A watcher is a cursor: the number of the last change that it has dealt with.
It is woken when there is something for it, and takes what it is owed when it has room; whoever never takes costs a cursor and
delays nobody.

- LATEST takes from the view: its heads stand in the order of their last change, so what is new for a cursor is at their end, each key once,
  however many changes it had meanwhile. Nothing has to be kept for it.
- EVERY takes from a ring of the recent changes. A cursor whose changes have left the ring is behind (``Lagged``): it goes on from its token
  by another way (the history), or begins anew. Changes that it does not want never leave it behind.

A watcher begins with a snapshot (references to immutable heads, so it is consistent and cheap), is told once that it is synced, and
then gets the changes. One that resumes skips the snapshot.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

from ..names import PolicyKey, Scope
from ..policies import documents
from ..policies.events import ABSENT, Position
from .view import Change, View

RING = 8192
"""Changes that the ring keeps for EVERY."""


class Mode(enum.IntEnum):
    """What is owed to a watcher that falls behind. The numbers are those of ``topicpolicies.v1.WatchMode``."""

    LATEST = 1
    EVERY = 2
    ENTRIES = 3
    """Every event, by the history; the hub has nothing to do with these."""


class Token(NamedTuple):
    """A place in a namespace's log: the position per partition, and whose positions they are."""

    log: str
    positions: tuple[Position, ...]
    left_out: str = ""
    """Names the topics that were left out because their policies are disabled; empty: none were."""

    def widened(self, partitions: int) -> Token:
        """The same place in a log that has so many partitions, or more, by now."""
        return self._replace(positions=(*self.positions, *[""] * (partitions - len(self.positions))))


class Selection(NamedTuple):
    """What a watcher wants of a namespace."""

    topics: frozenset[str] | None
    """Full names; None: all topics."""
    scopes: frozenset[Scope] = frozenset(Scope)

    def includes(self, key: PolicyKey) -> bool:
        """Whether a policy key is wanted."""
        return key.scope in self.scopes and (self.topics is None or key.topic in self.topics)

    def keys(self) -> list[PolicyKey] | None:
        """The wanted keys in order; None: all."""
        if self.topics is None:
            return None
        return [PolicyKey(topic, scope) for topic in sorted(self.topics) for scope in sorted(self.scopes)]


class OutOfRange(Exception):
    """A token that can't be resumed from: of another log, or older than the horizon. Start over with a snapshot.

    Attributes:
        older: whether it is one of this log, but older than what the ring holds: the history may have what it lacks.
    """

    def __init__(self, why: str, *, older: bool = False) -> None:
        super().__init__(why)
        self.older = older


class Lagged(Exception):
    """An EVERY watcher is behind: changes that it is owed have left the ring. Its token says where it stands."""


class Replaced(Exception):
    """The log that was watched has been replaced by another one: begin anew."""


RING_BYTES = 64 << 20
"""Bytes of documents that a ring keeps, about."""


def _size(change: Change) -> int:
    """What a change keeps in memory, about: its document, that before it, and the bytes that are told."""
    return 512 + 3 * documents.size(change.document or {})


class WatchHub:
    """The watchers of one namespace, and the ring of its recent changes."""

    def __init__(self, view: View, token: Token, ring: int = RING, horizon: tuple[Position, ...] | None = None) -> None:
        """A hub without watchers.

        Args:
            view: what is watched.
            token: where it stands.
            ring: changes that the ring keeps.
            horizon: behind which positions the view's heads tell of every key that has changed; None: where it stands.
        """
        self.view = view
        self._token = token
        self._horizon = token.positions if horizon is None else horizon
        self._ring_horizon = list(token.positions)
        self._ring: deque[Change] = deque(maxlen=ring)
        self._ring_bytes = 0
        self._everywhere: dict[Watcher, None] = {}
        """In the order in which they came, which is that in which they are woken; as in the groups below."""
        self._by_topic: dict[str, dict[Watcher, None]] = {}

    @property
    def token(self) -> Token:
        """Where the view stands."""
        return self._token

    @property
    def watchers(self) -> int:
        """How many there are."""
        return len(self._all())

    @property
    def ring_start(self) -> int:
        """The number of the oldest change in the ring, or of the next one if it is empty."""
        return self._ring[0].number if self._ring else self.view.number + 1

    def moved(self, token: Token) -> None:
        """The view has come to this place, whether or not that changed a head."""
        self._token = token

    def publish(self, change: Change) -> None:
        """A head has changed. Wakes the watchers whom it concerns; never blocks, and runs none of their code but ``wake``."""
        ring = self._ring
        size = _size(change)
        while ring and (len(ring) == ring.maxlen or self._ring_bytes + size > RING_BYTES):
            gone = ring.popleft()
            self._ring_bytes -= _size(gone)
            gone.forget_before()
            if gone.placed is not None:
                partition = gone.placed.partition
                self._ring_horizon[partition] = max(self._ring_horizon[partition], gone.placed.position)
        ring.append(change)
        self._ring_bytes += size
        for watcher in self._everywhere:
            watcher.notify(change)
        for watcher in self._by_topic.get(change.key.topic, ()):
            watcher.notify(change)

    def succeed(self, view: View, token: Token, changes: Iterable[Change]) -> None:
        """The log was opened anew and ``view`` has replaced the view; ``changes`` is what ``View.succeed`` found.

        LATEST watchers notice nothing but the changes. What EVERY watchers are owed may have been compacted away: they are behind. If it is
        another log, watchers of both modes have to begin anew (``Replaced``).
        """
        same_log = token.log == self._token.log
        self.view = view
        self._token = token
        self._ring.clear()
        self._ring_bytes = 0
        self._ring_horizon = list(token.positions)
        known = len(self._horizon) if same_log else 0
        self._horizon = (*self._horizon[:known], *token.positions[known:])  # of new partitions nothing is known but where they stand
        for watcher in self._all():
            watcher.superseded(same_log=same_log)
        for change in changes:
            self.publish(change)

    def subscribe(self, selection: Selection, mode: Mode, token: Token | None, wake: Callable[[], None]) -> Watcher:
        """A new watcher, with a snapshot or from a token on.

        Args:
            selection: what it wants.
            mode: what it is owed.
            token: where to resume; None: begin with a snapshot.
            wake: called, at most once between two takes, when there is something to take. Must not block or raise.

        Raises:
            OutOfRange: the token can't be resumed from.
        """
        if token is not None:
            token = token.widened(len(self._token.positions))
            self._check(token, mode)
        watcher = Watcher(self, selection, mode, token, wake)
        if selection.topics is None:
            self._everywhere[watcher] = None
        else:
            for topic in selection.topics:
                self._by_topic.setdefault(topic, {})[watcher] = None
        return watcher

    def unsubscribe(self, watcher: Watcher) -> None:
        """Forgets a watcher; one that is not there is no error."""
        self._everywhere.pop(watcher, None)
        for topic in watcher.selection.topics or ():
            group = self._by_topic.get(topic)
            if group is not None:
                group.pop(watcher, None)
                if not group:
                    del self._by_topic[topic]

    def wake_all(self) -> None:
        """Wakes every watcher: something about the namespace itself has changed."""
        for watcher in self._all():
            watcher.signal()

    def recent(self, after: int) -> Iterable[Change]:
        """The ring's changes with a number greater than ``after``; what it costs is what there is of them, not the ring.

        Raises:
            Lagged: some of them have left the ring.
        """
        if after + 1 < self.ring_start:
            raise Lagged
        newer = list(islice(reversed(self._ring), max(0, self.ring_start + len(self._ring) - 1 - after)))
        newer.reverse()
        return newer

    def _all(self) -> dict[Watcher, None]:
        watchers = dict(self._everywhere)
        for topic in sorted(self._by_topic):
            watchers.update(self._by_topic[topic])
        return watchers

    def _check(self, token: Token, mode: Mode) -> None:
        if token.log != self._token.log or len(token.positions) != len(self._token.positions):
            raise OutOfRange("the token belongs to another log")
        horizon = self._horizon if mode is Mode.LATEST else self._ring_horizon
        if any(position < oldest for position, oldest in zip(token.positions, horizon, strict=True)):
            raise OutOfRange("the token is older than what is still known here", older=True)
        if self.view.context.sole_writer and self.behind(token):
            raise OutOfRange("the token is ahead of the log")

    def is_beyond(self, token: Token) -> bool:
        """Whether a token of this log names more partitions than there are, or, where nobody else writes, a place behind its end."""
        if token.log != self._token.log:
            return False
        if len(token.positions) > len(self._token.positions):
            return True
        return self.view.context.sole_writer and self.behind(token.widened(len(self._token.positions)))

    def behind(self, token: Token) -> bool:
        """Whether the view has yet to reach a token (of a faster sidecar on the same log)."""
        return any(mine < theirs for mine, theirs in zip(self._token.positions, token.positions, strict=True))


class Batch(NamedTuple):
    """What a watcher has taken."""

    changes: list[Change]
    synced: bool
    """Whether, after these changes, the SYNCED bookmark is due (once)."""
    more: bool
    """Whether there is more to take at once."""


class Watcher:
    """One stream's cursor into one namespace."""

    def __init__(self, hub: WatchHub, selection: Selection, mode: Mode, token: Token | None, wake: Callable[[], None]) -> None:
        self.selection = selection
        self._hub = hub
        self._mode = mode
        self._wake = wake
        self._signalled = False
        self._synced = False
        self._lagged = False
        self._replaced = False
        self._owed = False
        """Whether a wanted head has changed since ``_seen``."""
        self._seen = hub.view.number
        """Every change up to this number is dealt with or in ``_batch``."""
        self._positions = list(hub.token.positions)
        """The token's positions once ``_batch`` is empty."""
        self._floor = token
        """Nothing up to here is delivered again, also where a faster sidecar gave the token; None: the view has passed it."""
        self._delivered: list[Position] | None = None
        """The token while ``_batch`` is not empty; None before SYNCED, when there is none."""
        if token is None:
            self._batch = deque(self._snapshot())
        else:
            self._batch = deque(self._since(token))
            self._delivered = list(token.positions)

    @property
    def token(self) -> Token | None:
        """Where the stream stands; None while the snapshot is not complete."""
        hub = self._hub
        if self._batch:
            return None if self._delivered is None else Token(hub.token.log, tuple(self._delivered))
        if not self._synced:
            return None
        if not self._owed:
            self._positions = list(hub.token.positions)  # who was told it must not be told less when the next change has come
        positions = tuple(self._positions)
        if self._floor is not None:
            positions = tuple(map(max, positions, self._floor.positions))
        return Token(hub.token.log, positions)

    def notify(self, change: Change) -> None:
        """A head that may be wanted has changed."""
        if change.key.scope not in self.selection.scopes:
            return
        if not self._owed:
            self._owed = True
            self._seen = max(self._seen, change.number - 1)  # nothing before it is wanted
        self.signal()

    def signal(self) -> None:
        """Wakes whoever takes."""
        if not self._signalled:
            self._signalled = True
            self._wake()

    def superseded(self, *, same_log: bool) -> None:
        """The view was replaced."""
        self._replaced = self._replaced or not same_log
        self._lagged = self._lagged or self._mode is Mode.EVERY
        more = len(self._hub.token.positions) - len(self._positions)
        if same_log and more > 0:  # of partitions that were not there nothing was dealt with
            self._positions += [""] * more
            if self._delivered is not None:
                self._delivered += [""] * more
            if self._floor is not None:
                self._floor = self._floor.widened(len(self._positions))
        if self._replaced or self._lagged:
            self.signal()

    def take(self, most: int) -> Batch:
        """Takes what is owed, at most ``most`` changes.

        Raises:
            Lagged: an EVERY watcher is behind; ``token`` says where it stands.
            Replaced: the log is another one than when it began.
        """
        self._signalled = False
        if self._replaced:
            raise Replaced
        if self._lagged:
            raise Lagged
        if not self._batch and self._synced:
            self._refill()
        changes: list[Change] = []
        batch, heads = self._batch, self._hub.view
        latest = self._mode is Mode.LATEST and self._synced
        floor = self._floor
        while batch and len(changes) < most:
            change = batch.popleft()
            if latest and heads.head(change.key) is not change:
                continue  # a newer state of the key follows
            if floor is not None and not _after(change, floor):
                continue
            changes.append(change)
            if self._delivered is not None and change.placed is not None:
                partition = change.placed.partition
                self._delivered[partition] = max(self._delivered[partition], change.placed.position)
        synced = False
        if not batch:
            synced = not self._synced
            self._synced = True
            self._delivered = list(self._positions)
            if floor is not None:
                self._delivered = list(map(max, self._delivered, floor.positions))
                if not self._hub.behind(floor):
                    self._floor = None
        return Batch(changes, synced, bool(batch) or self._owed)

    def _refill(self) -> None:
        hub = self._hub
        if self._owed:
            if self._mode is Mode.EVERY:
                try:
                    self._batch.extend(change for change in hub.recent(self._seen) if self.selection.includes(change.key))
                except Lagged:
                    self._lagged = True
                    raise
            else:
                self._batch.extend(self._newer())
            self._owed = False
        self._seen = hub.view.number
        self._positions = list(hub.token.positions)

    def _newer(self) -> list[Change]:
        """The wanted heads whose last change was not seen yet, in the order of change."""
        view = self._hub.view
        keys = self.selection.keys()
        if keys is not None:
            heads = (view.head(key) for key in keys)
            return sorted((head for head in heads if head is not None and head.number > self._seen), key=lambda head: head.number)
        newer: list[Change] = []
        for head in view.newest_first():
            if head.number <= self._seen:
                break
            if head.key.scope in self.selection.scopes:
                newer.append(head)
        newer.reverse()
        return newer

    def _snapshot(self) -> Iterable[Change]:
        view = self._hub.view
        keys = self.selection.keys()
        if keys is None:
            return [head for head in view.heads() if head.document is not None and head.key.scope in self.selection.scopes]
        return [view.head(key) or Change(key, None, ABSENT, "", None, 0) for key in keys]

    def _since(self, token: Token) -> Iterable[Change]:
        source: Iterable[Change]
        source = self._hub.view.heads() if self._mode is Mode.LATEST else self._hub.recent(self._hub.ring_start - 1)
        return [change for change in source if self.selection.includes(change.key) and _after(change, token)]


def _after(change: Change, token: Token) -> bool:
    placed = change.placed
    if placed is None:
        return True  # an absence found after a gap: saying it again does no harm
    return placed.position > token.positions[placed.partition]
