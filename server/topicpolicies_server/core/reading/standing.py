"""One stream's place in one namespace: what it is owed, and where it stands.

=============  =====================================  ==========================  =============================  =======================
state          what is taken                          all of that was taken       the view was replaced by one   by one of another log
                                                                                  of the same log
=============  =====================================  ==========================  =============================  =======================
BEGINNING      a snapshot, or what came since the     FOLLOWING; once, SYNCED     EVERY, or not known: BEHIND    REPLACED
               token, as of the beginning
FOLLOWING      what is owed                           FOLLOWING; BEHIND, if      EVERY, or not known: BEHIND    REPLACED
                                                      some of it is gone
BEHIND         nothing: ``Lagged``                                                BEHIND                         REPLACED
REPLACED       nothing: ``Replaced``                                              REPLACED                       REPLACED
=============  =====================================  ==========================  =============================  =======================

``Latest`` is BEHIND too where a document is put right under a version that was told: those who read it keep what is newer by its version.
It is not known what one is owed who is ahead of the view, if what came up to where he stands may be gone (``horizon``).

What a watcher is owed it keeps itself, and ``notify`` fills that: references to changes that all watchers share. One of a whole namespace
that is FOLLOWING, and has everything, enters the ``feed`` of those like it, and keeps only its place in that; it leaves the feed with what
it is owed where the view is replaced, a document is put right, or the feed has lost something. The modes (``watcher``) say what is owed.

The token: while nothing is owed a watcher stands where the view does. When something comes to be owed it stands where the view stood before
that, and with each change that is taken it moves on in that one's partition.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from ..names import Scope
from ..policies.events import ABSENT
from .feed import Feed
from .heads import Head
from .places import Lagged, Replaced, Selection, Token
from .runs import Lot, Reader, Run
from .view import View


class Watched(Protocol):
    """What a watcher sees of its hub."""

    @property
    def view(self) -> View:
        """What is watched."""

    @property
    def token(self) -> Token:
        """Where the view stands."""

    @property
    def ring(self) -> Iterable[Head]:
        """The recent changes."""

    @property
    def ring_start(self) -> int:
        """The number of the oldest of them."""

    def lot_since(self, token: Token, selection: Selection) -> Lot:
        """The heads that changed behind a place, and are wanted, in the order of their last change."""

    def lot(self, scopes: frozenset[Scope]) -> Lot:
        """All documents of these scopes, as of now."""

    def enter(self, watcher: Watcher) -> Feed | None:
        """A watcher has everything: the feed that owes it what comes; None: it goes on keeping that itself."""

    def leave(self, watcher: Watcher) -> None:
        """A watcher keeps itself what it is owed."""


class Batch(NamedTuple):
    """What a watcher has taken."""

    changes: list[Head]
    synced: bool
    """Whether, after these changes, the SYNCED bookmark is due (once)."""
    more: bool
    """Whether there is more to take at once."""
    run: Run | None = None
    """The changes, where others take the same."""


class _State(enum.Enum):
    BEGINNING = enum.auto()
    FOLLOWING = enum.auto()
    BEHIND = enum.auto()
    REPLACED = enum.auto()


class Watcher(ABC):
    """What both kinds share: the beginning, the token, and the waking."""

    def __init__(self, hub: Watched, selection: Selection, token: Token | None, wake: Callable[[], None]) -> None:
        """Begins.

        Args:
            hub: what is watched.
            selection: what is wanted of it.
            token: where to go on; None: with a snapshot.
            wake: called, at most once between two takes, when there is something to take. Must not block or raise.
        """
        self.selection = selection
        self._hub = hub
        self._wake = wake
        self._signalled = False
        self._state = _State.BEGINNING
        self._stands = None if token is None else Token(hub.token.log, token.positions)
        """Where it stands; while it is FOLLOWING and nothing is owed it stands where the view does."""
        self._owed_from = hub.token
        """Where the view stood before anything was owed that is owed now."""
        self._floor = self._stands if self._stands is not None and not hub.token.reaches(self._stands) else None
        """Nothing up to here is told again, as a faster sidecar told it; None: the view has come past it."""
        self._first = Reader(self._snapshot() if token is None else self._since(token))
        self._feed: Feed | None = None
        """Has what it is owed; None: it has that itself."""
        self._at = 0
        """Its place in the feed."""
        self._before = 0
        """The greatest number of a change that it is not owed, while it is owed something by the feed."""

    @property
    def token(self) -> Token | None:
        """Where the stream stands; None while the snapshot is not complete."""
        if self._state is _State.FOLLOWING and not self._is_owed:
            return self._hub.token if self._floor is None else self._hub.token.furthest(self._floor)
        return self._stands

    def notify(self, change: Head) -> None:
        """A head that may be wanted has changed; the hub's token does not cover it yet."""
        if change.key.scope not in self.selection.scopes or self._state is _State.BEHIND or self._state is _State.REPLACED:
            return
        if self._floor is not None and not self._floor.is_before(change):
            return
        if change.takes_back and not self._needs_every_change:
            self._end(_State.BEHIND)
            self.signal()
            return
        if not self._owes:
            self._owed_from = self._hub.token if self._floor is None else self._hub.token.furthest(self._floor)
            if self._state is _State.FOLLOWING:
                self._stands = self._owed_from
        self._owe(change)
        self.signal()

    def owed_from(self, stood: Token, before: int) -> None:
        """As ``feed.Member``."""
        self._stands, self._before = stood, before

    def signal(self) -> None:
        """Wakes whoever takes."""
        if not self._signalled:
            self._signalled = True
            self._wake()

    @property
    def ahead(self) -> Token | None:
        """Up to where a faster sidecar has told it; None: the view has come past that."""
        return self._floor

    def superseded(self, *, same_log: bool, known: bool = True) -> None:
        """The view was replaced.

        Args:
            same_log: whether by one of the same log.
            known: whether that tells of every key that has changed behind where it stands.
        """
        self.leave_feed()
        if self._state is not _State.REPLACED and (self._needs_every_change or not same_log or not known):
            self._end(_State.BEHIND if same_log else _State.REPLACED)
            self.signal()

    def take(self, most: int) -> Batch:
        """Takes what is owed, at most ``most`` changes.

        Raises:
            Lagged: it is behind; ``token`` says where it stands.
            Replaced: the log is another one than when it began.
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
        """From now on it keeps itself what it is owed."""
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
        view = self._hub.view
        keys = self.selection.keys()
        if keys is None:
            return self._hub.lot(self.selection.scopes)
        return Lot([view.head(key) or Head(key, None, ABSENT, "", None, 0) for key in keys], view.number)

    # --- what the modes differ in ----------------------------------------------------------------------------------

    _needs_every_change = False

    @abstractmethod
    def _since(self, token: Token) -> Lot:
        """What came since a place, and is wanted."""

    @property
    @abstractmethod
    def _owes(self) -> bool:
        """Whether anything is owed."""

    @property
    def _has_lost_some(self) -> bool:
        """Whether something that is owed is not kept any more."""
        return False

    @abstractmethod
    def _owe(self, change: Head) -> None:
        """A wanted change has come."""

    @abstractmethod
    def _inherit(self, changes: list[Head] | None, before: int) -> None:
        """What its feed owed is owed; None: that is lost, and was all that is wanted with a number greater than ``before``."""

    @abstractmethod
    def _take(self, most: int) -> list[Head]:
        """The next of what is owed."""

    @abstractmethod
    def _forget_owed(self) -> None:
        """Nothing is taken any more."""
