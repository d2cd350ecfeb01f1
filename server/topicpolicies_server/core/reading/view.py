"""The view: the heads of one namespace, built from the events of its log in order, and from nothing else.

There is one cell for each key (``cells``), and the cells stand in the order of their last change. What a key costs does not depend on how
many other keys there are:

===============================  ====================================  ===============================================================
order of the cells               what it is for                        what removes a cell from it
===============================  ====================================  ===============================================================
by last change                   changes since a place                 only forgetting the key
by last event, per partition     dropping what matters only for a      so many windows W without an event (``cells.RecentCells``)
                                 while after an event
absent ones, by last change      forgetting keys                       a document; more than ``ABSENCES`` of them
with a document, by their names  pages, snapshots                      its deletion
===============================  ====================================  ===============================================================

**Deleted keys are forgotten**: the longest deleted first, and none for which an event may still come. A forgotten key is like one without
any event in the log, as after a start after a compaction, which erases the key too. The view knows up to which position of each partition
deletions were forgotten (``forgotten``), so that no watcher resumes from an older place and misses a deletion.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from ..fold.fold import FoldContext, Folded, KeyState, absent_since, fold, restatement
from ..fold.recent import RecentRequests, Texts
from ..names import PolicyKey, Scope
from ..policies import documents
from ..policies.documents import Settings
from ..policies.events import ABSENT, Event, Placed, Position
from .cell import Cell, facts, is_due, key_of, last_event, name_of
from .cells import WINDOWS, Cells, CellsInUse, Trace, is_same
from .heads import Before, Head
from .pages import Pages, page_of

__all__ = ["ABSENCES", "Before", "Copy", "Head", "Taken", "View", "wire"]

ABSENCES = 10_000
"""How many keys without a document are kept, by default; more only while events may still come for them."""
_FORGET_AT_A_TIME = 2
_RUN = 2_048
"""How many names are sorted at a time, roughly: no other thread runs during a sort."""


class Copy(NamedTuple):
    """All that is kept of a view for another process. Nothing changes it."""

    names: Sequence[str]
    """The names of all keys (``cell.name_of``), in any order."""
    cells: Sequence[bytes]
    """The cell of each key."""
    number: int
    """The number of the last change."""
    forgotten: Mapping[int, Position]
    """The position up to which deletions were forgotten, by partition."""
    times: Mapping[int, int]
    """The time of each partition by its events, in milliseconds since 1970 (``cells.RecentCells``)."""
    requests: Sequence[Texts]
    """The requests applied lately, the oldest first."""


class Taken(NamedTuple):
    """What an entry of the log did to its key."""

    folded: Folded | None
    """What the fold did; None: the entry is no event."""
    change: Head | None
    """The new head; None: it did not change."""
    before: Head | None
    """The head before it; None: there was none."""
    state: KeyState | None
    """The fold's state after it (``View.state``)."""


_NO_EVENT = Taken(None, None, None, None)


class View:
    """The heads of one namespace."""

    __slots__ = (
        "_absences",
        "_absent",
        "_cells",
        "_complete",
        "_context",
        "_forgotten",
        "_heads",
        "_number",
        "_pages",
        "recent",
    )

    def __init__(
        self, context: FoldContext, complete: Sequence[Position | None] = (), absences: int | None = None, in_use: CellsInUse | None = None
    ) -> None:
        """An empty view.

        Args:
            context: what the fold must know besides the log.
            complete: by partition, the position after which nothing was compacted away; None where that is unknown.
            absences: how many keys without a document are kept; None: ``ABSENCES``.
            in_use: the cells in use of all views of the server; None: those of this view only.
        """
        self._context = context
        self._complete = complete
        self._absences = ABSENCES if absences is None else absences
        self.recent = RecentRequests()
        """Requests that were applied lately."""
        self._cells = Cells(context.window_ms, in_use)
        self._heads = 0
        """How many cells have a head."""
        self._number = 0
        self._absent: OrderedDict[str, None] = OrderedDict()
        self._forgotten: dict[int, Position] = {}
        self._pages = Pages()

    @property
    def number(self) -> int:
        """The number of the last change."""
        return self._number

    @property
    def context(self) -> FoldContext:
        """The facts that the fold needs besides state and event."""
        return self._context

    @property
    def complete(self) -> Sequence[Position | None]:
        """By partition, the position after which nothing was compacted away; None where that was unknown when the log was loaded."""
        return self._complete

    @property
    def forgotten(self) -> Mapping[int, Position]:
        """The position up to which deletions were forgotten, by partition; without partitions where none was."""
        return self._forgotten

    def state(self, key: PolicyKey) -> KeyState | None:
        """Returns the fold's state of a key; None: the log has no event of it. Ask again after each ``take``: it may be another object."""
        self._cells.limit()
        cell = self._cells.use(name_of(key))
        return cell.state if cell is not None else None

    def head(self, key: PolicyKey) -> Head | None:
        """Returns the head of a key; None: no event of the log made one."""
        return self._cells.peek(name_of(key))

    def version(self, key: PolicyKey) -> Position:
        """Returns the version of a key's document, also of an absent one."""
        head = self.head(key)
        return head.version if head is not None else ABSENT

    def heads(self) -> Iterator[Head]:
        """Yields all heads, the oldest change first, absent documents included."""
        return self._cells.heads()

    def traces(self) -> Iterator[Trace]:
        """Yields the traces of all heads, the newest change first, for a caller that needs few of the heads."""
        return self._cells.traces()

    def traced(self, traces: Iterable[Trace]) -> list[Head]:
        """Returns the heads of some traces."""
        return [head for trace in traces if (head := self._cells.head_of(trace.name, trace.kept)) is not None]

    def deletions(self, scopes: frozenset[Scope], since: Callable[[Head], bool]) -> list[Head]:
        """Returns the heads without a document that ``since`` accepts, the oldest change first."""
        peek = self._cells.peek
        return [head for name in self._absent if (head := peek(name)) is not None and head.key.scope in scopes and since(head)]

    def __len__(self) -> int:
        return self._heads

    def states(self) -> Iterator[tuple[PolicyKey, KeyState]]:
        """Yields the fold's state of every key, as of now, to be read only."""
        return ((key_of(name), self._cells.state_of(name, kept)) for name, kept in self._cells.items())

    def due(self) -> Iterator[tuple[PolicyKey, KeyState]]:
        """Yields the fold's state of every key of which a repair is due, as of now, to be read only."""
        return ((key_of(name), self._cells.state_of(name, kept)) for name, kept in self._cells.items() if is_due(kept))

    def page(self, scopes: frozenset[Scope], after: PolicyKey | None, most: int, most_bytes: int | None = None) -> tuple[list[Head], bool]:
        """Returns at most ``most`` heads with a document, in the order of their keys, after ``after``, and whether there are more.

        The page ends with the document that makes it at least ``most_bytes`` large.
        """
        return page_of(self._cells, self._pages.after(scopes, after), most, most_bytes)

    def named(self, after: str, most: int) -> list[str]:
        """Returns the names of at most ``most`` keys with a document, in order, that are greater than ``after``."""
        return list(islice(self._pages.names(frozenset(Scope), after), most))

    def restatement(self, key: PolicyKey, event_id: str) -> Event | None:
        """Returns the repair or tombstone that is due for a key; None: none is due."""
        state = self.state(key)
        return restatement(key, state, event_id) if state is not None and state.due else None

    def take(self, placed: Placed) -> Taken:
        """Folds the next event of the log."""
        event = placed.event
        if event is None:
            return _NO_EVENT
        self._cells.limit()
        cell = self._cells.use(name_of(event.key))
        if cell is None:
            cell = self._new_cell(event.key, placed.partition)
        elif cell.partition != placed.partition:
            self._cells.recent[cell.partition].remove(cell.name)
            cell.partition = placed.partition
        state = cell.state
        context = self._context
        if self._complete and (complete := self._complete[placed.partition]) is not None and placed.position > complete:
            if complete == "":  # nothing was ever compacted away
                if context.joining or context.joined_at is not None:
                    context = context._replace(joining=False, joined_at=None)
            elif context.joining:  # the event's base was not compacted away: if it was not seen, there is none
                context = context._replace(joining=False)
        folded = fold(state, placed, context)
        cell.touched_at = placed.published_at
        recent = self._cells.recent[placed.partition]
        for name in recent.touch(cell.name, placed.published_at, placed.producer):
            self._cells.trim(name, recent.now or 0, context.window_ms)
        before, change = cell.head, None
        if folded.changed:
            if event.stamp is not None:
                self.recent.note(event.key, event.stamp, folded, state)
            change = self._put(cell, state.document, folded.version, folded.previous, placed)
        if len(self._absent) > self._absences:
            self._forget()
        return Taken(folded, change, before, state)

    def check_all_seen(self, now: int) -> int | None:
        """Looks for keys with documents that were not seen and that brokers may still compute from (``core/fold/joining``).

        Args:
            now: milliseconds since 1970, by the log's clock.

        Returns:
            When there will be no such key any more, by the same clock, if no other event comes; None: there is none now.
        """
        window = self._context.window_ms
        missing = (state.joined for state in self._cells.joined(now - window) if not state.all_seen(now, window))
        return max((joined.first_at + window for joined in missing if joined), default=None)

    def complete_behind(self, positions: Sequence[Position | None]) -> None:
        """Sets, by partition, the position after which nothing was compacted away; to be called while the log is loaded."""
        self._complete = positions

    def loaded(self) -> None:
        """Notes that the log as it was when it was opened has been taken: from now on a key without events is truly absent."""
        self._context = self._context._replace(joining=False)

    def succeed(self, older: View, positions: Sequence[Position]) -> list[Head]:
        """Continues the numbering of a view that this one replaces after its log was opened anew.

        Heads that are the same in both views keep their numbers. A key that vanished (deleted and compacted away in between) becomes an
        absence, whose version is where this view stands in the key's partition (``positions``).

        Returns:
            The heads that changed in between: first the keys that vanished, then the others in this view's order.
        """
        mine, theirs = self._cells, older._cells
        fresh = [
            (name, head)
            for name, kept in mine.items()
            if not is_same(kept, theirs.kept(name))
            and (head := mine.head_of(name, kept)) is not None
            and not _same_head(head, theirs.peek(name))
        ]
        vanished: list[tuple[Cell, Head]] = []
        self._number = older.number
        self._forgotten = dict(older.forgotten)
        for name, kept in theirs.items():
            if is_same(mine.kept(name), kept):
                assert isinstance(kept, bytes)
                mine.take_over(name, kept)  # with the older view's number
                if name in self._absent:
                    self._absent.move_to_end(name)
                continue
            head = theirs.head_of(name, kept)
            if head is None:
                continue
            there = head.document is not None
            cell = mine.use(name) or self._new_cell(head.key, last_event(kept)[0])
            if cell.head is None:
                absent_since(_absence(cell.partition, head, positions) if there else head.version, cell.state)
            if cell.head is None and there:
                vanished.append((cell, head))
            elif cell.head is None or _same_head(cell.head, head):
                self._show(cell, head)
        changes = [self._put(cell, None, _absence(cell.partition, head, positions), head.version, None) for cell, head in vanished]
        for name, head in fresh:
            told = theirs.peek(name)
            cell = mine.use(name) or self._new_cell(head.key, head.partition)
            change = self._put(cell, head.document, head.version, told.version if told is not None else ABSENT, head.placed)
            if told is not None or not _was_forgotten(older.forgotten, head):
                changes.append(change)
        return changes

    def supersede(self, older: View) -> None:
        """Continues the numbering of a view of another log, of which nothing else counts any more, neither documents nor absences.

        Positions of two logs can't be compared, and those of the new one may be smaller.
        """
        self._cells.renumber(older.number)
        self._number += older.number

    def share(self, in_use: CellsInUse) -> None:
        """Limits the cells in use together with those of other views. To be called before the first event is taken."""
        self._cells.share(in_use)

    def copy(self) -> Copy:
        """Returns what another process needs to continue this view."""
        times = {partition: recent.now for partition, recent in self._cells.recent.items() if recent.now is not None}
        return Copy(*self._cells.copy(), self._number, dict(self._forgotten), times, self.recent.all())

    def restore(self, copy: Copy) -> None:
        """Fills an empty view with the content of another one. Never blocks other threads for long.

        Raises:
            ValueError: a cell is not what ``copy`` returns.
        """
        self._number, self._forgotten = copy.number, dict(copy.forgotten)
        there: list[str] = []
        recent: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
        idle_before = {partition: now - WINDOWS * self._context.window_ms for partition, now in copy.times.items()}
        known = list(map(facts, copy.cells))
        numbers = [number for number, *_ in known]
        for at in sorted(range(len(known)), key=numbers.__getitem__):
            name, (number, has_document, partition, touched_at, has_leftovers) = copy.names[at], known[at]
            self._heads += number > 0
            if has_document:
                there.append(name)
            else:
                self._absent[name] = None
            if has_leftovers or (not has_document and touched_at >= idle_before.get(partition, touched_at + 1)):
                recent[partition].append((name, touched_at))
            self._cells.restore(name, copy.cells[at])
        for run in _in_order(there):
            self._pages.fill(run)
        for partition, now in copy.times.items():
            self._cells.recent[partition].begin(sorted(recent[partition], key=itemgetter(1)), now)
        self.recent.restore(copy.requests)

    def _new_cell(self, key: PolicyKey, partition: int) -> Cell:
        cell = self._cells.add(key, partition)
        self._absent[cell.name] = None
        return cell

    def _put(self, cell: Cell, document: Settings | None, version: Position, previous: Position, placed: Placed | None) -> Head:
        self._number += 1
        change = Head(cell.key, document, version, previous, placed, self._number, cell.partition)
        self._show(cell, change)
        return change

    def _show(self, cell: Cell, change: Head) -> None:
        """Gives a cell another head, and moves it to the end of the orders by last change."""
        there, was_there = change.document is not None, cell.head is not None and cell.head.document is not None
        if there is not was_there:
            if there:
                self._pages.add(cell.key, cell.name)
                del self._absent[cell.name]
            else:
                self._pages.remove(cell.key, cell.name)
                self._absent[cell.name] = None
        elif not there:
            self._absent.move_to_end(cell.name)
        if cell.head is None:
            self._heads += 1
        cell.head = change
        self._cells.move_to_end(cell.name)

    def _forget(self) -> None:
        """Forgets the keys that have been absent longest, but none for which a repair is due or an event may still come."""
        cells = self._cells
        for _ in range(_FORGET_AT_A_TIME):
            name = next(iter(self._absent))
            if any(name in lately for lately in self._cells.recent.values()) or not cells.is_forgettable(name):
                self._absent.move_to_end(name)
                continue
            head = cells.peek(name)
            cells.remove(name)
            del self._absent[name]
            if head is not None:
                self._heads -= 1
                self._forgotten[head.partition] = max(self._forgotten.get(head.partition, ""), head.place)
            if len(self._absent) <= self._absences:
                return


def wire(change: Head) -> bytes | None:
    """Returns the serialized document of a head; None: there is no document."""
    return None if change.document is None else documents.wire(change.document)


def _in_order(names: Sequence[str]) -> Iterator[list[str]]:
    """Yields names in order, some at a time."""
    borders = sorted(names[:: _RUN // 16])[15::16]
    runs: list[list[str]] = [[] for _ in range(len(borders) + 1)]
    for name in names:
        runs[bisect_right(borders, name)].append(name)
    for run in runs:
        run.sort()
        yield run


def _absence(partition: int, vanished: Head, positions: Sequence[Position]) -> Position:
    """Returns a version for the absence of a key that vanished: greater than all of the key's versions before, less than all to come.

    Args:
        partition: the partition of the key's events.
        vanished: the key's head in the view that is replaced.
        positions: where the new view stands, by partition.
    """
    return max(vanished.version, positions[partition] if partition < len(positions) else ABSENT)


def _same_head(head: Head, other: Head | None) -> bool:
    """Returns whether two views have the same head of a key: a restatement may change a document without changing its version."""
    if other is None:
        return head.version == ABSENT and head.document is None
    return head.version == other.version and head.document == other.document


def _was_forgotten(forgotten: Mapping[int, Position], head: Head) -> bool:
    """Returns whether a head is an absence that the older view had, and has forgotten.

    Args:
        forgotten: the position up to which the older view had forgotten deletions, by partition.
        head: the head of a key that the older view does not have.
    """
    return head.document is None and head.place <= forgotten.get(head.partition, "")
