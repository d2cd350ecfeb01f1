"""A feed: one queue of changes for all watchers of a whole namespace that are up to date. A change is one entry, however many watch.

A member of a feed keeps only its place in the queue, and no changes of its own.

========  ==============================  ========================================  =================================================
state of  changes that the member is      event                                     next
a member  owed
========  ==============================  ========================================  =================================================
RESTING   none                            a change: the member is woken, after      OWED
                                          ``owed_again`` with the view's place
                                          before the change
OWED      those after its place           it takes some (``run``); at the end it    OWED, or RESTING at the end
                                          calls ``rest``
OWED      the same                        the ring has passed its place             not a member: it leaves, because the feed may not
                                                                                    have all that it is owed any more
any       the same                        it leaves, with what it is owed           not a member
                                          (``owed``, ``leave``)
========  ==============================  ========================================  =================================================

So only waking takes more time with more watchers; the members that are woken take the same runs.
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
"""Old changes are dropped after every so many new ones."""


class Member(Protocol):
    """A watcher in a feed."""

    def owed_again(self, stood: Token, before: int) -> None:
        """Notes that changes are owed again, of which the first has just come.

        Args:
            stood: where the view stood before that change.
            before: a number that is less than that change's, and not less than that of any change before it.
        """

    def signal(self) -> None:
        """Wakes the reader of this watcher."""


class Feed:
    """The queue of one namespace's changes, for watchers of the whole namespace that want the same scopes."""

    def __init__(self, scopes: frozenset[Scope]) -> None:
        """An empty queue without members."""
        self.scopes = scopes
        self._members: dict[Member, None] = {}
        self._resting: dict[Member, None] = {}
        self._changes: list[Head] = []
        self._first = 0
        """The place of the first change in ``_changes``; places count all changes that the feed ever had."""
        self._runs: OrderedDict[tuple[int, int, bool], Run] = OrderedDict()
        """Runs that were taken since the last change, at most ``KEPT``: members at different places take different runs."""

    def __len__(self) -> int:
        return len(self._members)

    @property
    def end(self) -> int:
        """The place after the last change."""
        return self._first + len(self._changes)

    @property
    def kept(self) -> int:
        """How many changes are kept for members that have not taken them yet."""
        return len(self._changes)

    def enter(self, member: Member) -> int:
        """Adds a member, which is owed nothing. Returns its place."""
        self._members[member] = None
        return self.rest(member)

    def rest(self, member: Member) -> int:
        """Notes that a member has taken everything. Returns its place."""
        self._resting[member] = None
        self._tidy()
        return self.end

    def leave(self, member: Member) -> None:
        """Removes a member."""
        self._members.pop(member, None)
        self._resting.pop(member, None)
        self._tidy()

    def owed(self, at: int) -> list[Head]:
        """Returns the changes that a member at this place is owed."""
        return self._changes[at - self._first :]

    def append(self, change: Head, stood: Token, start: int) -> None:
        """Adds the next change, and wakes the resting members.

        Args:
            change: a change in one of the feed's scopes.
            stood: where the view stood before the change.
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
                member.owed_again(stood, change.number - 1)
            for member in resting:
                member.signal()

    def has_lost(self, at: int, start: int) -> bool:
        """Returns whether a change that a member at this place is owed may not be kept any more; ``start``: see ``append``."""
        if at < self._first:
            return True
        return at < self.end and self._changes[at - self._first].number < start

    def _trim(self, start: int) -> None:
        """Drops the changes before the one with this number."""
        changes, gone = self._changes, 0
        while gone < len(changes) and changes[gone].number < start:
            gone += 1
        if gone:
            del changes[:gone]
            self._first += gone
            self._runs.clear()

    def run(self, at: int, most: int, newest_in: View | None) -> Run:
        """Returns the run that a member at this place takes.

        Args:
            at: the place.
            most: how many changes the run has at most.
            newest_in: leaves out changes that newer ones of the same key in this view have superseded; None: leaves out none.
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
    """Returns whether a view has no newer change of the same key; if it has forgotten the key, the change is the newest there was."""
    return view.number_of(change.key) <= change.number
