"""The view: the heads of one namespace, built from the events of its log in order, and from nothing else.

Heads are kept in the order of their last change. That order is all that watchers need: whoever remembers the number of
the last change it has seen finds what is new at the end (``core/reading/watch``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from ..fold.fold import FoldContext, Folded, KeyState, absent_since, fold, repair_due, restatement, settle
from ..fold.recent import RecentRequests
from ..names import PolicyKey, Scope
from ..policies import documents
from ..policies.documents import Settings
from ..policies.events import ABSENT, Event, Placed, Position


class Before(NamedTuple):
    """What was there before a change."""

    document: Settings | None
    """None: there was none."""


class Change:
    """A head, and the event that made it. Immutable but for the cached bytes."""

    __slots__ = ("before", "document", "encoded", "key", "number", "placed", "previous", "version", "with_before")

    def __init__(
        self,
        key: PolicyKey,
        document: Settings | None,
        version: Position,
        previous: Position,
        placed: Placed | None,
        number: int,
    ) -> None:
        self.key = key
        self.document = document
        self.version = version
        self.previous = previous
        """The version before; "" for what was loaded."""
        self.placed = placed
        """The event that made it; None for an absence that no event tells of."""
        self.number = number
        """Counts the changes of this view; 0 for what is not a change."""
        self.before: Before | None = None
        """The document before, as long as somebody may want it; None: it is not known (any more)."""
        self.encoded: bytes | None = None
        """What watchers are told, made once for all of them."""
        self.with_before: bytes | None = None
        """The same with the document before."""

    @property
    def event(self) -> Event | None:
        """The event that made it."""
        return self.placed.event if self.placed is not None else None

    def forget_before(self) -> None:
        """Lets go of the document before: heads stay for long."""
        self.before = self.with_before = None


class View:
    """The heads of one namespace."""

    __slots__ = ("_complete", "_context", "_heads", "_number", "_order", "_states", "_touched", "recent")

    def __init__(self, context: FoldContext, complete: Sequence[Position | None] = ()) -> None:
        """An empty view.

        Args:
            context: what the fold must know besides the log.
            complete: behind which position of each partition nothing was compacted away; None is not known.
        """
        self._context = context
        self._complete = complete
        self.recent = RecentRequests()
        """Requests that were applied lately."""
        self._states: dict[PolicyKey, KeyState] = {}
        self._touched: defaultdict[int, dict[PolicyKey, int]] = defaultdict(dict)
        """By partition, as each is read at its own pace: when the last event of a key was published, for those that have not been idle for
        long; the longest idle first."""
        self._heads: dict[PolicyKey, Change] = {}
        self._number = 0
        self._order: list[PolicyKey] | None = None
        """The keys in order, as of the last page; keys are only ever added."""

    @property
    def number(self) -> int:
        """The number of the last change."""
        return self._number

    @property
    def context(self) -> FoldContext:
        """The facts that the fold needs besides state and event."""
        return self._context

    def state(self, key: PolicyKey) -> KeyState | None:
        """The fold's state of a key; None if the log knows no event of it. Only ``take`` changes it."""
        return self._states.get(key)

    def head(self, key: PolicyKey) -> Change | None:
        """The head of a key; None if the log knows no event of it."""
        return self._heads.get(key)

    def version(self, key: PolicyKey) -> Position:
        """The version of a key's document, also of an absent one."""
        head = self._heads.get(key)
        return head.version if head is not None else ABSENT

    def heads(self) -> Iterable[Change]:
        """All heads, the oldest change first; absent documents among them."""
        return self._heads.values()

    def newest_first(self) -> Iterator[Change]:
        """All heads, the newest change first."""
        return reversed(self._heads.values())

    def __len__(self) -> int:
        return len(self._heads)

    def states(self) -> Iterable[tuple[PolicyKey, KeyState]]:
        """The fold's state of every key. Only ``take`` changes them."""
        return self._states.items()

    def page(
        self, scopes: frozenset[Scope], after: PolicyKey | None, most: int, most_bytes: int | None = None
    ) -> tuple[list[Change], bool]:
        """Documents in the order of their keys: at most ``most`` after ``after``, and whether there are more.

        It ends with the document that makes it ``most_bytes`` large.
        """
        if self._order is None or len(self._order) != len(self._heads):
            self._order = sorted(self._heads)
        page: list[Change] = []
        size = 0
        for key in islice(self._order, bisect_right(self._order, after) if after is not None else 0, None):
            head = self._heads[key]
            if head.document is not None and key.scope in scopes:
                if len(page) == most or (most_bytes is not None and size >= most_bytes):
                    return page, True
                page.append(head)
                size += documents.size(head.document)
        return page, False

    def restatement(self, key: PolicyKey, event_id: str) -> Event | None:
        """The repair or tombstone that is due for a key; None if its raw document is as it should be."""
        state = self._states.get(key)
        return restatement(key, state, event_id) if state is not None and repair_due(state) else None

    def take(self, placed: Placed) -> tuple[Folded | None, Change | None]:
        """Folds the next event of the log. Returns what the fold says, and the change of the head if there is one."""
        event = placed.event
        if event is None:
            return None, None
        key = event.key
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = KeyState()
        context = self._context
        if self._complete and (complete := self._complete[placed.partition]) is not None and placed.position > complete:
            if complete == "":  # nothing was ever compacted away
                context = context._replace(joining=False, joined_at=None)
            elif context.joining:  # what it was computed from was not compacted away: if it is not here, it never was
                context = context._replace(joining=False)
        folded = fold(state, placed, context)
        touched = self._touched[placed.partition]
        touched.pop(key, None)  # so that it moves to the end
        touched[key] = placed.published_at
        self._trim(touched, placed.published_at - 3 * context.window_ms)
        if not folded.changed:
            return folded, None
        if event.stamp is not None:
            self.recent.note(key, event.stamp, folded, state)
        return folded, self._put(key, state.document, folded.version, folded.previous, placed)

    def _trim(self, touched: dict[PolicyKey, int], before: int) -> None:
        """Drops what only matters for a while after an event from keys that had none since: two at a time, so that nobody waits."""
        for _ in range(2):
            key = next(iter(touched))
            if touched[key] >= before:
                return
            del touched[key]
            self._states[key].trim(before + 3 * self._context.window_ms, self._context.window_ms)

    def settle(self, now: int) -> int | None:
        """Looks for keys of which something may be missing that brokers still compute from (``core/fold/joining``).

        Args:
            now: milliseconds since 1970, by the log's clock.

        Returns:
            When there are none any more, by the same clock, if nothing else comes; None: there are none.
        """
        window = self._context.window_ms
        unsettled = [state.joined for state in self._states.values() if state.joined is not None and not settle(state, now, window)]
        return max((joined.first_at + window for joined in unsettled), default=None)

    def loaded(self) -> None:
        """What was in the log when it was opened has been taken: from now on an unknown key is truly absent."""
        self._context = self._context._replace(joining=False)

    def succeed(self, older: View, positions: Sequence[Position]) -> list[Change]:
        """Continues the numbering of a view that this one replaces after its log was opened anew.

        Heads that both know keep their numbers. What vanished (deleted and compacted away in between) becomes an absence, whose
        version is where this view stands in its partition (``positions``).

        Returns:
            What changed in between, in this view's order.
        """
        fresh = [change for key, change in self._heads.items() if older.version(key) != change.version]
        kept: dict[PolicyKey, Change] = {}
        vanished: list[Change] = []
        for change in older.heads():
            mine = self._heads.get(change.key)
            if mine is None and change.document is not None:
                vanished.append(change)
            elif mine is None or mine.version == change.version:
                kept[change.key] = change
        self._heads = kept
        self._number = older.number
        changes = [self._put(change.key, None, _absence(change, positions), change.version, None) for change in vanished]
        changes += [self._put(change.key, change.document, change.version, older.version(change.key), change.placed) for change in fresh]
        for key, change in self._heads.items():
            if key not in self._states:
                self._states[key] = absent_since(change.version)
        return changes

    def supersede(self, older: View) -> None:
        """Replaces the view of another log: nothing of that counts any more, neither documents nor absences.

        Positions of two logs can't be compared, and those of the new one may be smaller. Only the numbering goes on.
        """
        for change in self._heads.values():
            change.number += older.number
        self._number += older.number

    def _put(self, key: PolicyKey, document: Settings | None, version: Position, previous: Position, placed: Placed | None) -> Change:
        self._number += 1
        change = Change(key, document, version, previous, placed, self._number)
        self._heads.pop(key, None)  # so that it moves to the end
        self._heads[key] = change
        return change


def _absence(vanished: Change, positions: Sequence[Position]) -> Position:
    """A version for the absence of what vanished: one that is greater than all of its key's before, and smaller than all to come."""
    assert vanished.placed is not None, "documents are made by events"
    partition = vanished.placed.partition
    return max(vanished.version, positions[partition] if partition < len(positions) else ABSENT)


def wire(change: Change) -> bytes | None:
    """The serialized document of a head; None if there is none."""
    return None if change.document is None else documents.wire(change.document)
