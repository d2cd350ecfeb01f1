"""The watchers of the two modes: what is owed to each.

``Latest`` owes the newest change of each key, so a stream that takes nothing costs no more than its keys, and in a whole namespace no more
than ``MOST_DIRTY`` of them. ``Every`` owes all of them, as long as the hub's ring has the oldest of them. If not it is BEHIND, and its
token says where, so that it goes on by another way (the history), or begins anew. Changes that it does not want never leave it behind.
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
from .standing import Watched, Watcher

MOST_DIRTY = 4_096
"""Keys that a watcher of a whole namespace keeps at most."""


_NOTHING: deque[Any] = deque(maxlen=0)
"""What most watchers owe, most of the time; an empty deque of each would be its largest part."""


class Latest(Watcher):
    """Owes the newest state of each key.

    A watcher of a whole namespace that falls far behind keeps no key of its own. The view has the heads in the order of their last change,
    so the number of the last change that is not owed (``_far``) tells all of them, as long as no deletion among them is forgotten. When it
    takes again, it keeps the names of those keys, and asks the view for one after the other; of deletions, which that may forget, it keeps
    what there is.
    """

    def __init__(self, hub: Watched, selection: Selection, token: Token | None, wake: Callable[[], None]) -> None:
        self._dirty: OrderedDict[PolicyKey, Head] = OrderedDict()  # a dict is slow to find its first entry
        """What is owed, in the order of the last change."""
        self._far: int | None = None
        """All wanted changes with a greater number are owed; None: those in ``_dirty``."""
        self._caught_up: deque[str | Trace] = _NOTHING
        """What was owed when it was far behind: all that is taken before the others, unless a newer state of the key follows."""
        self._caught_up_to = 0
        """The number of the last change by then."""
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
        """What was owed when it was far behind; None: a newer state of the key is owed besides."""
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
    """Owes all changes, as long as the ring has the oldest of them."""

    _needs_every_change = True

    def __init__(self, hub: Watched, selection: Selection, token: Token | None, wake: Callable[[], None]) -> None:
        self._owed = _NOTHING
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
