"""The watchers of the modes LATEST and EVERY, which differ in the changes that a stream is owed.

``Latest`` owes the newest change of each key, so a stream that takes nothing keeps no more changes than it has keys, and in a whole
namespace no more than ``MOST_DIRTY``. ``Every`` owes all changes, as long as the hub's ring has the oldest of them. If the ring has not,
the watcher is BEHIND, and its token says where it stands, so that the stream goes on from the history, or begins anew. Changes that a
watcher does not want never make it BEHIND.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import islice, takewhile
from typing import Any

from ..names import PolicyKey
from .heads import Head
from .places import Selection, Token
from .runs import Listed, Lot, LotHeads, Reader
from .watcher_base import Watched, Watcher

MOST_DIRTY = 4_096
"""How many keys a watcher of a whole namespace keeps at most."""


_NOTHING: deque[Any] = deque(maxlen=0)
"""Shared by all watchers that owe nothing: most do, most of the time, and an empty deque would be the largest part of each."""


class Latest(Watcher):
    """Owes the newest state of each key.

    A watcher of a whole namespace that falls far behind keeps no changes. The view has the heads in the order of their last change, so the
    number of the last change that is not owed (``_far``) determines all that are, as long as no deletion among them is forgotten. When the
    watcher takes again, it reads what is owed from the view: very many changes some at a time (``walk``).
    """

    def __init__(self, hub: Watched, selection: Selection, token: Token | None, wake: Callable[[], None]) -> None:
        self._dirty: OrderedDict[PolicyKey, Head] = OrderedDict()  # finding the first entry of a dict is slow
        """The owed changes, in the order of the keys' last changes."""
        self._far: int | None = None
        """If the watcher is far behind: all wanted changes with a greater number are owed. None: those in ``_dirty`` are."""
        self._caught_up: Reader | None = None
        """What was owed when the watcher was far behind; taken before ``_dirty``, but for keys that changed again."""
        self._caught_up_to = 0
        """The number of the view's last change when ``_caught_up`` began."""
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
        dirty = self._dirty
        if self._far is not None and not self._caught_up:
            self._caught_up, self._caught_up_to = Reader(Lot(self._newer_than(self._far), 0)), self._hub.view.number
            self._far = None
        changes: list[Head] = []
        if self._caught_up:
            run = self._caught_up.take(most)
            changes += filter(self._is_not_newer, run.changes if run is not None else ())
        while dirty and not self._caught_up and len(changes) < most:
            changes.append(dirty.popitem(last=False)[1])
        return changes

    def _inherit(self, changes: list[Head] | None, before: int) -> None:
        if changes is None:
            self._far = before
        for change in changes or ():
            self._owe(change)

    def _newer_than(self, number: int) -> LotHeads:
        view, scopes = self._hub.view, self.selection.scopes
        newer = takewhile(lambda trace: trace.number > number, view.traces())
        some = list(islice(newer, 2 * MOST_DIRTY))
        if len(some) == 2 * MOST_DIRTY:
            return view.changed(scopes, lambda trace: trace.number > number)
        return view.traced(trace for trace in reversed(some) if trace.key.scope in scopes)

    def _is_not_newer(self, change: Head) -> bool:
        """Returns whether a key has not changed again since ``_caught_up`` began; if it has, its newer head is owed in ``_dirty``."""
        number = self._hub.view.number_of(change.key)
        return number <= self._caught_up_to and (number > 0 or change.document is None)

    def _forget_owed(self) -> None:
        self._dirty.clear()
        self._caught_up = self._far = None

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
        return Lot(Listed(changes), self._hub.view.number)
