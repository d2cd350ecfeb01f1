"""A watcher: one stream's place in one namespace, and the changes that it is *owed*, that is, that it wants and has not taken yet.

=============  =====================================  ==========================  =============================  =======================
state          what ``take`` returns                  when all of that is taken   when a view of the same log    when a view of another
                                                                                  replaces the view              log replaces it
=============  =====================================  ==========================  =============================  =======================
BEGINNING      a snapshot, or the changes since the   FOLLOWING; once, SYNCED     EVERY, or unknown: BEHIND      REPLACED
               token, as of the beginning
FOLLOWING      the changes that are owed              FOLLOWING; BEHIND, if       EVERY, or unknown: BEHIND      REPLACED
                                                      some are lost
BEHIND         nothing: raises ``Lagged``                                         BEHIND                         REPLACED
REPLACED       nothing: raises ``Replaced``                                       REPLACED                       REPLACED
=============  =====================================  ==========================  =============================  =======================

``Latest`` becomes BEHIND, too, when a head is corrected with a version that watchers were sent already (``Head.is_correction``): its
readers compare versions, and would keep the wrong document. "Unknown" is a watcher that stands ahead of the view, if events up to where it
stands may be gone (``horizon``).

A watcher keeps the changes that it is owed itself, added by ``notify``: references to changes that all watchers share. A watcher of a whole
namespace that is FOLLOWING, and up to date, enters the ``feed`` of watchers like it, and keeps only its place in that. It leaves the feed,
with the changes that it is owed, when the view is replaced, a head is corrected, or the feed has lost some of these changes. The modes
(``watcher``) decide which changes are owed.

The token: while nothing is owed a watcher stands where the view does. Once changes are owed it stands where the view stood before the first
of them, and with each change that is taken it moves on in that change's partition.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from ..names import Scope
from .feed import Feed
from .heads import Head
from .places import Lagged, Replaced, Selection, Token
from .runs import Lot, Reader, Run
from .view import View


class Watched(Protocol):
    """The part of the hub that a watcher uses."""

    @property
    def view(self) -> View:
        """The view that is watched."""

    @property
    def token(self) -> Token:
        """Where the view stands."""

    @property
    def ring(self) -> Iterable[Head]:
        """The recent changes."""

    @property
    def ring_start(self) -> int:
        """The number of the oldest change in the ring."""

    def lot_since(self, token: Token, selection: Selection) -> Lot:
        """Returns the wanted heads that changed after a place, in the order of their last change."""

    def lot(self, scopes: frozenset[Scope]) -> Lot:
        """Returns all heads with a document of these scopes, as of now."""

    def enter(self, watcher: Watcher) -> Feed | None:
        """Adds a watcher that is up to date to a feed, and returns the feed; None: it goes on keeping what it is owed itself."""

    def leave(self, watcher: Watcher) -> None:
        """Removes a watcher from its feed: it keeps what it is owed itself."""


class Batch(NamedTuple):
    """What one call of ``Watcher.take`` returns."""

    changes: list[Head]
    synced: bool
    """Whether the SYNCED bookmark is due after these changes (once)."""
    more: bool
    """Whether more changes can be taken at once."""
    run: Run | None = None
    """The same changes as a run, which other watchers take too; None: this watcher's own."""


class _State(enum.Enum):
    BEGINNING = enum.auto()
    FOLLOWING = enum.auto()
    BEHIND = enum.auto()
    REPLACED = enum.auto()


class Watcher(ABC):
    """One stream's watcher of a namespace, without what the two modes differ in."""

    def __init__(self, hub: Watched, selection: Selection, token: Token | None, wake: Callable[[], None]) -> None:
        """A watcher in the state BEGINNING.

        Args:
            hub: the hub of the namespace.
            selection: the wanted keys.
            token: where to resume; None: begin with a snapshot.
            wake: called, at most once between two takes, when there is something to take. Must not block or raise.
        """
        self.selection = selection
        self._hub = hub
        self._wake = wake
        self._signalled = False
        self._state = _State.BEGINNING
        self._stands = None if token is None else Token(hub.token.log, token.positions)
        """Where the watcher stands, unless it is FOLLOWING and nothing is owed: then it stands where the view does."""
        self._owed_from = hub.token
        """Where the view stood before the first change that is owed now."""
        self._floor = self._stands if self._stands is not None and not hub.token.reaches(self._stands) else None
        """A place ahead of the view up to which a faster sidecar sent all changes, so that none is sent again; None: the view passed it."""
        self._first = Reader(self._snapshot() if token is None else self._since(token))
        self._feed: Feed | None = None
        """The feed that has the owed changes; None: the watcher keeps them itself."""
        self._at = 0
        """The watcher's place in the feed."""
        self._before = 0
        """While the feed has owed changes: the greatest number of a change that is not owed."""

    @property
    def has_all(self) -> bool:
        """Whether every change that the hub has was taken."""
        return self._state is _State.FOLLOWING and not self._is_owed

    @property
    def token(self) -> Token | None:
        """Where the watcher stands; None while the snapshot is not complete."""
        if self.has_all:
            return self._hub.token if self._floor is None else self._hub.token.furthest(self._floor)
        return self._stands

    def notify(self, change: Head) -> None:
        """Adds a change of a head to what is owed, if it is wanted; the hub's token must not cover the change yet."""
        if change.key.scope not in self.selection.scopes or self._state is _State.BEHIND or self._state is _State.REPLACED:
            return
        if self._floor is not None and not self._floor.is_before(change):
            return
        if change.is_correction and not self._needs_every_change:
            self._end(_State.BEHIND)
            self.signal()
            return
        if not self._owes:
            self._owed_from = self._hub.token if self._floor is None else self._hub.token.furthest(self._floor)
            if self._state is _State.FOLLOWING:
                self._stands = self._owed_from
        self._owe(change)
        self.signal()

    def owed_again(self, stood: Token, before: int) -> None:
        """See ``feed.Member``."""
        self._stands, self._before = stood, before

    def signal(self) -> None:
        """Wakes the reader, once until it calls ``take``."""
        if not self._signalled:
            self._signalled = True
            self._wake()

    @property
    def ahead(self) -> Token | None:
        """The place up to which a faster sidecar has sent all changes; None: the view has come past it."""
        return self._floor

    def superseded(self, *, same_log: bool, known: bool = True) -> None:
        """Goes to the state that follows from a replacement of the view (see the table above).

        Args:
            same_log: whether the new view is of the same log.
            known: whether the new view has a head of every key that has changed after the place where the watcher stands.
        """
        self.leave_feed()
        if self._state is not _State.REPLACED and (self._needs_every_change or not same_log or not known):
            self._end(_State.BEHIND if same_log else _State.REPLACED)
            self.signal()

    def take(self, most: int) -> Batch:
        """Returns the next changes, at most ``most``, of the snapshot or of what is owed.

        Raises:
            Lagged: the watcher is BEHIND; ``token`` says where it stands.
            Replaced: the log is another one than when the watcher began.
        """
        self._signalled = False
        if self._feed is not None:
            if not self._feed.has_lost(self._at, self._hub.ring_start):
                return self._take_from(self._feed, most)
            self.leave_feed()
        if self._state is _State.FOLLOWING and self._has_lost_some:
            self._end(_State.BEHIND)
        if self._state is _State.REPLACED:
            raise Replaced
        if self._state is _State.BEHIND:
            raise Lagged
        synced, run = False, None
        if self._state is _State.FOLLOWING:
            changes = self._take(most)
        else:
            run = self._first.take(most)
            changes = run.changes if run is not None else []
            synced = not self._first
        if changes and self._stands is not None:
            self._stands = self._stands.moved(changes)
        if synced:
            self._state, self._stands = _State.FOLLOWING, self._owed_from
        if self._floor is not None and self._hub.token.reaches(self._floor):
            self._floor = None
        more = bool(self._first) or self._owes
        if self._state is _State.FOLLOWING and not more and self._floor is None:
            self._feed = self._hub.enter(self)
            self._at = self._feed.end if self._feed is not None else 0
        return Batch(changes, synced, more, run)

    def _take_from(self, feed: Feed, most: int) -> Batch:
        run = feed.run(self._at, most, None if self._needs_every_change else self._hub.view)
        self._at, self._before = run.end, run.last
        more = run.end < feed.end
        if more:
            assert self._stands is not None, "it follows"
            self._stands = run.moved(self._stands)
        else:
            feed.rest(self)
        return Batch(run.changes, False, more, run)

    @property
    def _is_owed(self) -> bool:
        return self._at < self._feed.end if self._feed is not None else self._owes

    def leave_feed(self) -> None:
        """Leaves the feed, if the watcher is in one, and takes over the changes that it is owed there."""
        feed, self._feed = self._feed, None
        if feed is not None:
            lost = feed.has_lost(self._at, self._hub.ring_start)
            self._inherit(None if lost else feed.owed(self._at), self._before)
            self._hub.leave(self)

    def _end(self, state: _State) -> None:
        self._stands = self.token
        self._state = state
        self._first.clear()
        self._forget_owed()

    def _snapshot(self) -> Lot:
        view, keys = self._hub.view, self.selection.keys()
        return self._hub.lot(self.selection.scopes) if keys is None else Lot(view.stood(keys), view.number)

    # --- what the modes differ in ----------------------------------------------------------------------------------

    _needs_every_change = False

    @abstractmethod
    def _since(self, token: Token) -> Lot:
        """Returns the wanted changes since a place."""

    @property
    @abstractmethod
    def _owes(self) -> bool:
        """Whether anything is owed."""

    @property
    def _has_lost_some(self) -> bool:
        """Whether an owed change is not kept any more."""
        return False

    @abstractmethod
    def _owe(self, change: Head) -> None:
        """Adds a wanted change to what is owed."""

    @abstractmethod
    def _inherit(self, changes: list[Head] | None, before: int) -> None:
        """Takes over the changes that the feed had for this watcher; None: the feed lost them, all with numbers greater than ``before``."""

    @abstractmethod
    def _take(self, most: int) -> list[Head]:
        """Removes and returns the next owed changes."""

    @abstractmethod
    def _forget_owed(self) -> None:
        """Drops everything that is owed: nothing is taken any more."""
