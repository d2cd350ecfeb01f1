"""One line of changes for all watchers of a whole namespace that had everything: a change is one entry, however many watch.

A member of a feed keeps nothing of what it is owed but its place in the line.

========  ==============================  ========================================  =================================================
state     what it is owed                 event                                     next
========  ==============================  ========================================  =================================================
RESTING   nothing                         a change: it is woken, and told where     OWED
                                          the view stood before that
OWED      what stands behind its place    it takes: ``run``; at the end: ``rest``   OWED, or RESTING at the end
OWED      the same                        the ring has gone past its place          none: it leaves, as it is not known here any more
                                                                                    what it is owed
any       the same                        it leaves: ``leave`` gives it what it is  none
                                          owed
========  ==============================  ========================================  =================================================

So what a change costs grows with the watchers only where it wakes them, and those that are woken take the same runs.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from ..names import Scope
from .heads import Head
from .places import Token
from .runs import KEPT, Run
from .view import View

_TRIM_EVERY = 64
"""So many changes are let go of together."""


class Member(Protocol):
    """A watcher in a feed."""

    def owed_from(self, stood: Token, before: int) -> None:
        """Something is owed again.

        Args:
            stood: where the view stood before that.
            before: a number that no change before that exceeds, and all from then on do.
        """

    def signal(self) -> None:
        """Wakes whoever takes."""


class Feed:
    """The line of one namespace, for those that want the same scopes."""

    def __init__(self, scopes: frozenset[Scope]) -> None:
        """An empty line without members."""
        self.scopes = scopes
        self._members: dict[Member, None] = {}
        self._resting: dict[Member, None] = {}
        self._changes: list[Head] = []
        self._first = 0
        """The place of the first of them."""
        self._runs: OrderedDict[tuple[int, int, bool], Run] = OrderedDict()
        """Taken since the last change, no more than ``KEPT``: readers that stand in different places take different ones."""

    def __len__(self) -> int:
        return len(self._members)

    @property
    def end(self) -> int:
        """The place behind the last change."""
        return self._first + len(self._changes)

    @property
    def kept(self) -> int:
        """Changes that are kept for those that were not told of them yet."""
        return len(self._changes)

    def enter(self, member: Member) -> int:
        """Somebody that is owed nothing becomes a member. Returns its place."""
        self._members[member] = None
        return self.rest(member)

    def rest(self, member: Member) -> int:
        """A member has taken everything. Returns its place."""
        self._resting[member] = None
        self._tidy()
        return self.end

    def leave(self, member: Member) -> None:
        """Somebody is no member any more."""
        self._members.pop(member, None)
        self._resting.pop(member, None)
        self._tidy()

    def owed(self, at: int) -> list[Head]:
        """What a member at this place is owed."""
        return self._changes[at - self._first :]

    def append(self, change: Head, stood: Token, start: int) -> None:
        """The next change.

        Args:
            change: one that is wanted.
            stood: where the view stood before.
            start: the number of the oldest change that may be kept.
        """
        resting = self._resting
        if len(self._changes) % _TRIM_EVERY == _TRIM_EVERY - 1:
            self._trim(start)
        self._changes.append(change)
        self._runs.clear()
        if resting:
            self._resting = {}
            for member in resting:
                member.owed_from(stood, change.number - 1)
            for member in resting:
                member.signal()

    def has_lost(self, at: int, start: int) -> bool:
        """Whether something that a member at this place is owed is not kept any more; ``start`` as above."""
        if at < self._first:
            return True
        return at < self.end and self._changes[at - self._first].number < start

    def _trim(self, start: int) -> None:
        """Forgets the changes before the one with this number."""
        changes, gone = self._changes, 0
        while gone < len(changes) and changes[gone].number < start:
            gone += 1
        if gone:
            del changes[:gone]
            self._first += gone
            self._runs.clear()

    def run(self, at: int, most: int, newest_in: View | None) -> Run:
        """What a member at this place takes.

        Args:
            at: the place.
            most: changes, at most.
            newest_in: leaves out what newer changes of the same key in this view have superseded; None: takes all.
        """
        wanted = (at, most, newest_in is not None)
        found = self._runs.get(wanted)
        if found is None:
            found = self._runs[wanted] = self._cut(at, most, newest_in)
            if len(self._runs) > KEPT:
                self._runs.popitem(last=False)
        return found

    def _cut(self, at: int, most: int, newest_in: View | None) -> Run:
        begin = at - self._first
        if newest_in is None:
            changes = self._changes[begin : begin + most]
            return Run(changes, at + len(changes), changes[-1].number if changes else 0)
        taken: list[Head] = []
        for change in self._changes[begin:]:
            newest = is_newest(change, newest_in)
            if newest and len(taken) == most:
                break
            at += 1
            if newest:
                taken.append(change)
        return Run(taken, at, self._changes[at - self._first - 1].number if at > self._first else 0)

    def _tidy(self) -> None:
        if len(self._resting) == len(self._members):
            self._first = self.end
            self._changes.clear()
            self._runs.clear()


def is_newest(change: Head, view: View) -> bool:
    """Whether no newer change of the same key is in a view; what the view has forgotten is the newest there was."""
    return view.number_of(change.key) <= change.number
