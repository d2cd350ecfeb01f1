"""The view: the heads of one namespace, built from the events of its log in order, and from nothing else.

There is one cell for each key (``cells``), and the cells stand in the order of their last change. What a key costs does not depend on how
many others there are:

===============================  ====================================  ===============================================================
order of the cells               what it is for                        what lets go of them
===============================  ====================================  ===============================================================
by last change                   snapshots; what is new since a place  nothing
by last event, per partition     trimming what only matters for a      so many windows W without an event (``lately``)
                                 while after an event
absent ones, by last change      forgetting                            a document; more than ``ABSENCES`` of them
with a document, by their names  pages                                 its deletion
===============================  ====================================  ===============================================================

**Deleted keys are forgotten**: the longest deleted first, and none that an event may still come for. A key that was forgotten is one of
which the log knows no event, as after a start behind a compaction, which forgets it too. Up to where that happened in each partition is
known (``forgotten``), so that nobody goes on from an older place and misses a deletion.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..fold.fold import FoldContext, Folded, KeyState, absent_since, fold, repair_due, restatement, sight
from ..fold.recent import RecentRequests
from ..names import PolicyKey, Scope
from ..policies import documents
from ..policies.documents import Settings
from ..policies.events import ABSENT, Event, Placed, Position
from . import snapshot
from .cells import WARM, Cells, Trace, is_due, is_same, key_of, name_of, partition_of
from .heads import Before, Cell, Head
from .pages import Pages
from .resumed import Resumed
from .snapshot import Snapshot
from .succession import absence, same, was_forgotten

__all__ = ["ABSENCES", "Before", "Head", "View", "wire"]

ABSENCES = 10_000
"""Keys without a document that are kept, unless told otherwise; more only while events may still come for them."""
_FORGET_AT_A_TIME = 2


class View(Resumed):
    """The heads of one namespace."""

    __slots__ = (
        "_absences",
        "_context",
        "_forgotten_number",
        "recent",
    )

    def __init__(
        self, context: FoldContext, complete: Sequence[Position | None] = (), absences: int | None = None, warm: int = WARM
    ) -> None:
        """An empty view.

        Args:
            context: what the fold must know besides the log.
            complete: behind which position of each partition nothing was compacted away; None is not known.
            absences: keys without a document that are kept; None: ``ABSENCES``.
            warm: cells that are kept as they are; of more those that nobody has to do with are frozen.
        """
        self._context = context
        self._complete = complete
        self._absences = ABSENCES if absences is None else absences
        self.recent = RecentRequests()
        """Requests that were applied lately."""
        self.gone = None
        self._cells = Cells(context.window_ms, warm)
        self._heads = 0
        """How many of them have one."""
        self._number = 0
        self._absent: OrderedDict[str, None] = OrderedDict()
        self._forgotten: dict[int, Position] = {}
        self._forgotten_number = 0
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
    def forgotten(self) -> Mapping[int, Position]:
        """Up to where deletions were forgotten, by partition; nothing where none was."""
        return self._forgotten

    @property
    def forgotten_number(self) -> int:
        """The greatest number of a deletion that was forgotten; 0: none was."""
        return self._forgotten_number

    def state(self, key: PolicyKey) -> KeyState | None:
        """The fold's state of a key; None if the log knows no event of it. Only ``take`` changes it, and later perhaps not this one."""
        cell = self._cells.find(name_of(key))
        return cell.state if cell is not None else None

    def head(self, key: PolicyKey) -> Head | None:
        """The head of a key; None if the log knows no event of it."""
        cell = self._cells.find(name_of(key))
        return cell.head if cell is not None else None

    def version(self, key: PolicyKey) -> Position:
        """The version of a key's document, also of an absent one."""
        head = self.head(key)
        return head.version if head is not None else ABSENT

    def heads(self) -> Iterator[Head]:
        """All heads, the oldest change first; absent documents among them."""
        return self._cells.heads()

    def traces(self) -> Iterator[Trace]:
        """Where all heads stand, the newest change first: for who is not interested in most of them."""
        return self._cells.traces()

    def traced(self, traces: Iterable[Trace]) -> Snapshot:
        """The heads that traces were of, each thawed when it is asked for."""
        return snapshot.traced(self._cells, traces)

    def number_of(self, key: PolicyKey) -> int:
        """The number of the last change of a key; 0: the log knows no event of it, or it is forgotten."""
        return self._cells.number(name_of(key))

    def still(self, name: str, number: int) -> Head | None:
        """The head of a name, thawed for who asks, if it is not newer than a change; None: it is, or there is none."""
        return self._cells.peek(name) if 0 < self._cells.number(name) <= number else None

    def documents(self, scopes: frozenset[Scope]) -> Snapshot:
        """The heads with a document, as of now, the oldest change first."""
        return snapshot.documents(self._cells, scopes)

    def settle(self, cells: int) -> int:
        """Makes cells small that nobody has to do with: nobody can tell, but for the memory. Looks at so many; returns at how many."""
        return self._cells.settle(cells)

    @property
    def live(self) -> int:
        """How many cells are not small."""
        return self._cells.warm

    def __len__(self) -> int:
        return self._heads

    def states(self) -> Iterator[tuple[PolicyKey, KeyState]]:
        """The fold's state of every key, as of now, to be looked at."""
        return ((key_of(name), self._cells.state_of(name, kept)) for name, kept in self._cells.items())

    def due(self) -> Iterator[tuple[PolicyKey, KeyState]]:
        """The fold's state of every key of which a repair is due, as of now, to be looked at."""
        return ((key_of(name), self._cells.state_of(name, kept)) for name, kept in self._cells.items() if is_due(kept))

    def page(self, scopes: frozenset[Scope], after: PolicyKey | None, most: int, most_bytes: int | None = None) -> tuple[list[Head], bool]:
        """Documents in the order of their keys: at most ``most`` after ``after``, and whether there are more.

        It ends with the document that makes it ``most_bytes`` large.
        """
        page: list[Head] = []
        size = 0
        for name in self._pages.after(scopes, after):
            if len(page) == most or (most_bytes is not None and size >= most_bytes):
                return page, True
            head = self._cells.peek(name)
            assert head is not None, "it has a document"
            page.append(head)
            size += documents.size(head.document or {})
        return page, False

    def restatement(self, key: PolicyKey, event_id: str) -> Event | None:
        """The repair or tombstone that is due for a key; None if its raw document is as it should be."""
        state = self.state(key)
        return restatement(key, state, event_id) if state is not None and repair_due(state) else None

    def take(self, placed: Placed, computed_on: Settings | None = None) -> tuple[Folded | None, Head | None]:
        """Folds the next event of the log. Returns what the fold says, and the change of the head if there is one.

        ``computed_on``: as ``fold`` has it.
        """
        event = placed.event
        if event is None:
            return None, None
        self._cells.taken()  # the one before it: whoever was told of it may have given its head what was before
        cell = self._cells.change(name_of(event.key))
        if cell is None:
            cell = self._new_cell(event.key, placed.partition)
        elif cell.partition != placed.partition:
            self._cells.lately[cell.partition].leave(cell.name)
            cell.partition = placed.partition
        state = cell.state
        context = self._context
        if self._complete and (complete := self._complete[placed.partition]) is not None and placed.position > complete:
            if complete == "":  # nothing was ever compacted away
                if context.joining or context.joined_at is not None:
                    context = context._replace(joining=False, joined_at=None)
            elif context.joining:  # what it was computed from was not compacted away: if it is not here, it never was
                context = context._replace(joining=False)
        folded = fold(state, placed, context, computed_on)
        cell.touched_at = placed.published_at
        now, idle = self._cells.lately[placed.partition].touch(cell.name, placed.published_at, placed.producer)
        for name in idle:
            self._cells.trim(name, now, context.window_ms)
        change = None
        if folded.changed:
            if event.stamp is not None:
                self.recent.note(event.key, event.stamp, folded, state)
            change = self._put(cell, state.document, folded.version, folded.previous, placed)
        if len(self._absent) > self._absences:
            self._forget()
        return folded, change

    def sight(self, now: int) -> int | None:
        """Looks for keys of which something may be missing that brokers still compute from (``core/fold/joining``).

        Args:
            now: milliseconds since 1970, by the log's clock.

        Returns:
            When there are none any more, by the same clock, if nothing else comes; None: there are none.
        """
        window = self._context.window_ms
        missing = (state.joined for state in self._cells.joined(now, window) if not sight(state, now, window))
        return max((joined.first_at + window for joined in missing if joined), default=None)

    def open_all(self) -> None:
        """Folds what is kept as it came: nothing (but see ``unfolded``)."""

    def complete_behind(self, positions: Sequence[Position | None]) -> None:
        """Behind which position of each partition nothing was compacted away, as is known by now; for while the log is read."""
        self._complete = positions

    def loaded(self) -> None:
        """What was in the log when it was opened has been taken: from now on an unknown key is truly absent."""
        self._context = self._context._replace(joining=False)

    def succeed(self, older: View, positions: Sequence[Position]) -> list[Head]:
        """Continues the numbering of a view that this one replaces after its log was opened anew.

        Heads that both know keep their numbers. What vanished (deleted and compacted away in between) becomes an absence, whose
        version is where this view stands in its partition (``positions``).

        Returns:
            What changed in between, in this view's order.
        """
        older.open_all()
        mine, theirs = self._cells, older._cells
        fresh = [
            (name, head)
            for name, kept in mine.items()
            if not is_same(kept, theirs.kept(name)) and (head := mine.head_of(name, kept)) is not None and not same(head, theirs.peek(name))
        ]
        vanished: list[tuple[Cell, Head]] = []
        self._number = older.number
        self._forgotten, self._forgotten_number = dict(older.forgotten), older.forgotten_number
        for name, kept in theirs.items():
            if is_same(mine.kept(name), kept):
                mine.take_over(name, kept)  # with the number that it had
                if name in self._absent:
                    self._absent.move_to_end(name)
                continue
            head = theirs.head_of(name, kept)
            if head is None:
                continue
            there = head.document is not None
            cell = mine.change(name) or self._new_cell(head.key, partition_of(kept))
            if cell.head is None:
                absent_since(absence(cell.partition, head, positions) if there else head.version, cell.state)
            if cell.head is None and there:
                vanished.append((cell, head))
            elif cell.head is None or same(cell.head, head):
                self._show(cell, head)
        changes = [self._put(cell, None, absence(cell.partition, head, positions), head.version, None) for cell, head in vanished]
        for name, head in fresh:
            told = theirs.peek(name)
            cell = mine.change(name) or self._new_cell(head.key, head.partition)
            change = self._put(cell, head.document, head.version, told.version if told is not None else ABSENT, head.placed)
            if told is not None or not was_forgotten(older.forgotten, head):
                changes.append(change)
        return changes

    def supersede(self, older: View) -> None:
        """Replaces the view of another log: nothing of that counts any more, neither documents nor absences.

        Positions of two logs can't be compared, and those of the new one may be smaller. Only the numbering goes on.
        """
        self._cells.renumber(older.number)
        self._number += older.number

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
        """A cell has another head: it moves to the end."""
        there, was_there = change.document is not None, cell.document is not None
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
        """Forgets the longest absent, if nothing would be lost with them."""
        cells = self._cells
        for _ in range(_FORGET_AT_A_TIME):
            name = next(iter(self._absent))
            if any(name in lately for lately in self._cells.lately.values()) or not cells.is_forgettable(name):
                self._absent.move_to_end(name)
                continue
            head = cells.peek(name)
            cells.remove(name)
            del self._absent[name]
            if self.gone is not None:
                self.gone[name] = None
            if head is not None:
                self._heads -= 1
                self._forgotten_number = max(self._forgotten_number, head.number)
                self._forgotten[head.partition] = max(self._forgotten.get(head.partition, ""), head.place)
            if len(self._absent) <= self._absences:
                return


def wire(change: Head) -> bytes | None:
    """The serialized document of a head; None if there is none."""
    return None if change.document is None else documents.wire(change.document)
