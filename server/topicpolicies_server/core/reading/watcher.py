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

What a watcher is owed it keeps itself, and ``notify`` is all that fills that: references to changes that all watchers share. ``Latest``
owes the newest change of each key, so a stream that takes nothing costs no more than its keys, and in a whole namespace no more than
``MOST_DIRTY`` of them. ``Every`` owes all of them, as long as
the hub's ring has the oldest of them. If not it is BEHIND, and its token says where, so that it goes on by another way (the history), or
begins anew. Changes that it does not want never leave it behind.

The token: while nothing is owed a watcher stands where the view does. When something comes to be owed it stands where the view stood before
that, and with each change that is taken it moves on in that one's partition.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import NamedTuple, Protocol

from ..names import PolicyKey
from ..policies.events import ABSENT
from .heads import Head
from .places import Lagged, Replaced, Selection, Token
from .view import View

MOST_DIRTY = 4_096
"""Keys that a watcher of a whole namespace keeps at most."""


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

    def changed_since(self, token: Token) -> Iterable[Head]:
        """The heads that changed behind a place, in the order of their last change."""


class Batch(NamedTuple):
    """What a watcher has taken."""

    changes: list[Head]
    synced: bool
    """Whether, after these changes, the SYNCED bookmark is due (once)."""
    more: bool
    """Whether there is more to take at once."""


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
        self._first = deque(self._snapshot() if token is None else self._since(token))

    @property
    def token(self) -> Token | None:
        """Where the stream stands; None while the snapshot is not complete."""
        if self._state is _State.FOLLOWING and not self._owes:
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
        if self._state is _State.FOLLOWING and self._has_lost_some:
            self._end(_State.BEHIND)
        if self._state is _State.REPLACED:
            raise Replaced
        if self._state is _State.BEHIND:
            raise Lagged
        synced = False
        if self._state is _State.FOLLOWING:
            changes = self._take(most)
        else:
            changes = [self._first.popleft() for _ in range(min(most, len(self._first)))]
            synced = not self._first
        if changes and self._stands is not None:
            self._stands = self._stands.moved(changes)
        if synced:
            self._state, self._stands = _State.FOLLOWING, self._owed_from
        if self._floor is not None and self._hub.token.reaches(self._floor):
            self._floor = None
        return Batch(changes, synced, bool(self._first) or self._owes)

    def _end(self, state: _State) -> None:
        self._stands = self.token
        self._state = state
        self._first.clear()
        self._forget_owed()

    def _snapshot(self) -> Iterable[Head]:
        view = self._hub.view
        keys = self.selection.keys()
        if keys is None:
            return [head for head in view.heads() if head.document is not None and head.key.scope in self.selection.scopes]
        return [view.head(key) or Head(key, None, ABSENT, "", None, 0) for key in keys]

    # --- what the modes differ in ----------------------------------------------------------------------------------

    _needs_every_change = False

    @abstractmethod
    def _since(self, token: Token) -> Iterable[Head]:
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
    def _take(self, most: int) -> list[Head]:
        """The next of what is owed."""

    @abstractmethod
    def _forget_owed(self) -> None:
        """Nothing is taken any more."""


class Latest(Watcher):
    """Owes the newest state of each key.

    A watcher of a whole namespace that falls far behind keeps no key of its own. The view has the heads in the order of their last change,
    so the number of the last change that is not owed (``_far``) tells all of them, as long as no deletion among them is forgotten.
    """

    def __init__(self, hub: Watched, selection: Selection, token: Token | None, wake: Callable[[], None]) -> None:
        self._dirty: OrderedDict[PolicyKey, Head] = OrderedDict()  # a dict is slow to find its first entry
        """What is owed, in the order of the last change."""
        self._far: int | None = None
        """All wanted changes with a greater number are owed; None: those in ``_dirty``."""
        self._caught_up: deque[Head] = deque()
        """What was owed when it was far behind: all that is taken before the others, unless a newer state of the key follows."""
        super().__init__(hub, selection, token, wake)

    @property
    def _owes(self) -> bool:
        return bool(self._dirty) or bool(self._caught_up) or self._far is not None

    @property
    def _has_lost_some(self) -> bool:
        return self._far is not None and self._hub.view.forgotten_number > self._far

    def _owe(self, change: Head) -> None:
        if self._far is not None:
            return
        dirty = self._dirty
        dirty[change.key] = change
        dirty.move_to_end(change.key)
        if len(dirty) > MOST_DIRTY and self.selection.topics is None:
            self._far = next(iter(dirty.values())).number - 1
            dirty.clear()

    def _take(self, most: int) -> list[Head]:
        dirty, caught_up = self._dirty, self._caught_up
        if self._far is not None and not caught_up:
            caught_up.extend(self._newer_than(self._far))
            self._far = None
        changes: list[Head] = []
        while caught_up and len(changes) < most:
            change = caught_up.popleft()
            head = self._hub.view.head(change.key)
            if head is None or head.number <= change.number:
                changes.append(change)
        while dirty and not caught_up and len(changes) < most:
            changes.append(dirty.popitem(last=False)[1])
        return changes

    def _newer_than(self, number: int) -> list[Head]:
        heads = list(takewhile(lambda head: head.number > number, self._hub.view.newest_first()))
        heads.reverse()
        return [head for head in heads if head.key.scope in self.selection.scopes]

    def _forget_owed(self) -> None:
        self._dirty.clear()
        self._caught_up.clear()
        self._far = None

    def _since(self, token: Token) -> Iterable[Head]:
        return [change for change in self._hub.changed_since(token) if self.selection.includes(change.key)]


class Every(Watcher):
    """Owes all changes, as long as the ring has the oldest of them."""

    _needs_every_change = True

    def __init__(self, hub: Watched, selection: Selection, token: Token | None, wake: Callable[[], None]) -> None:
        self._owed: deque[Head] = deque()
        """No longer than the ring."""
        self._overrun = False
        super().__init__(hub, selection, token, wake)

    @property
    def _owes(self) -> bool:
        return self._overrun or bool(self._owed)

    @property
    def _has_lost_some(self) -> bool:
        return self._overrun or (bool(self._owed) and self._owed[0].number < self._hub.ring_start)

    def _owe(self, change: Head) -> None:
        if self._has_lost_some:
            self._overrun = True
            self._owed.clear()
        else:
            self._owed.append(change)

    def _take(self, most: int) -> list[Head]:
        return [self._owed.popleft() for _ in range(min(most, len(self._owed)))]

    def _forget_owed(self) -> None:
        self._owed.clear()

    def _since(self, token: Token) -> Iterable[Head]:
        return [change for change in self._hub.ring if self.selection.includes(change.key) and token.is_before(change)]
