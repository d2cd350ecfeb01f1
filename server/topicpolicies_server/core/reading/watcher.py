"""The watchers of the modes LATEST and EVERY, which differ in the changes that a stream is owed.

``Latest`` owes the newest change of each key, so a stream that takes nothing keeps no more changes than it has keys, and in a whole
namespace no more than ``MOST_DIRTY``. ``Every`` owes all changes, as long as the hub's ring has the oldest of them. If the ring has not,
the watcher is BEHIND, and its token says where it stands, so that the stream goes on from the history, or begins anew. Changes that a
watcher does not want never make it BEHIND.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import takewhile
from typing import Any

from ..names import PolicyKey
from .cells import Trace
from .heads import Head
from .places import Selection, Token
from .runs import Lot
from .watcher_base import Watched, Watcher

MOST_DIRTY = 4_096
"""How many keys a watcher of a whole namespace keeps at most."""


_NOTHING: deque[Any] = deque(maxlen=0)
"""Shared by all watchers that owe nothing: most do, most of the time, and an empty deque would be the largest part of each."""


class Latest(Watcher):
    """Owes the newest state of each key.

    A watcher of a whole namespace that falls far behind keeps no changes. The view has the heads in the order of their last change, so the
    number of the last change that is not owed (``_far``) determines all that are, as long as no deletion among them is forgotten. When the
    watcher takes again, it keeps the names of the keys that are owed, and reads their heads from the view one after the other; of
    deletions, which the view may forget, it keeps the traces.
    """

    def __init__(self, hub: Watched, selection: Selection, token: Token | None, wake: Callable[[], None]) -> None:
        self._dirty: OrderedDict[PolicyKey, Head] = OrderedDict()  # finding the first entry of a dict is slow
        """The owed changes, in the order of the keys' last changes."""
        self._far: int | None = None
        """If the watcher is far behind: all wanted changes with a greater number are owed. None: those in ``_dirty`` are."""
        self._caught_up: deque[str | Trace] = _NOTHING
        """What was owed when the watcher was far behind, as names or traces; taken before ``_dirty``, but for keys that changed again."""
        self._caught_up_to = 0
        """The number of the view's last change when ``_caught_up`` was filled."""
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
            caught_up = self._caught_up = self._newer_than(self._far)
            self._far, self._caught_up_to = None, self._hub.view.number
        changes: list[Head] = []
        while caught_up and len(changes) < most:
            change = self._as_it_was(caught_up.popleft())
            if change is not None:
                changes.append(change)
        while dirty and not caught_up and len(changes) < most:
            changes.append(dirty.popitem(last=False)[1])
        return changes

    def _inherit(self, changes: list[Head] | None, before: int) -> None:
        if changes is None:
            self._far = before
        for change in changes or ():
            self._owe(change)

    def _newer_than(self, number: int) -> deque[str | Trace]:
        newer: deque[str | Trace] = deque()
        for trace in takewhile(lambda trace: trace.number > number, self._hub.view.traces()):
            if trace.key.scope in self.selection.scopes:
                newer.appendleft(trace.name if trace.there else trace)
        return newer

    def _as_it_was(self, owed: str | Trace) -> Head | None:
        """Returns the head of an entry of ``_caught_up``; None: the key has changed again, and its newer head is owed in ``_dirty``."""
        view = self._hub.view
        if isinstance(owed, str):
            return view.still(owed, self._caught_up_to)
        return view.traced((owed,))[0] if view.number_of(owed.key) <= owed.number else None

    def _forget_owed(self) -> None:
        self._dirty.clear()
        self._caught_up = _NOTHING
        self._far = None

    def _since(self, token: Token) -> Lot:
        return self._hub.lot_since(token, self.selection)


class Every(Watcher):
    """Owes all changes, as long as the hub's ring has the oldest of them."""

    _needs_every_change = True

    def __init__(self, hub: Watched, selection: Selection, token: Token | None, wake: Callable[[], None]) -> None:
        self._owed = _NOTHING
        """The owed changes, oldest first; no more than the ring has."""
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
            self._owed = _NOTHING
        else:
            self._inherit([change], 0)

    def _inherit(self, changes: list[Head] | None, before: int) -> None:  # noqa: ARG002 (what is lost is lost)
        self._overrun = changes is None
        if changes:
            if self._owed is _NOTHING:
                self._owed = deque()
            self._owed.extend(changes)

    def _take(self, most: int) -> list[Head]:
        return [self._owed.popleft() for _ in range(min(most, len(self._owed)))]

    def _forget_owed(self) -> None:
        self._owed = _NOTHING

    def _since(self, token: Token) -> Lot:
        changes = [change for change in self._hub.ring if self.selection.includes(change.key) and token.is_before(change)]
        return Lot(changes, self._hub.view.number)
