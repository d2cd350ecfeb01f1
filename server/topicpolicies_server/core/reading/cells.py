"""The cells of a view, in the order of their last change, so that 100,000 topics fit into memory: few are in use, the others rest as bytes.

The cells in use of all views of a server are limited together (``CellsInUse``): before another one is used, those used longest ago are put
to rest. A caller that only reads a head leaves the cell at rest.

What the fold keeps of a key for a while after its events is dropped when the key is idle (``RecentCells``).
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from weakref import ref

from ..fold.fold import KeyState
from ..fold.keystate import ALONE
from ..names import PolicyKey
from ..policies.events import Position
from .cell import (
    Cell,
    Kept,
    document_size,
    has_leftovers,
    is_due,
    is_owed,
    key_of,
    last_event,
    name_of,
    number_of,
    place_of,
    renumbered,
    rest,
    wake,
    wake_head,
    without_leftovers,
)
from .heads import Head

IN_USE = 1_024
"""How many cells of a server may be in use, by default."""
WINDOWS = 3
"""How many windows W a key is without an event when it counts as idle: its state is of use for twice W, and clocks may differ by W."""
_AT_A_TIME = 2


class Trace(NamedTuple):
    """Number and place of a head, by which a caller selects heads without waking their cells."""

    number: int
    partition: int
    place: Position
    placed: bool
    """Whether an event made the head."""
    name: str
    kept: Head | bytes

    @classmethod
    def of(cls, name: str, kept: Head | bytes) -> Trace:
        """Returns the trace of a head, or of that of a cell at rest."""
        if isinstance(kept, bytes):
            return cls(number_of(kept), *place_of(kept), name, kept)
        return cls(kept.number, kept.partition, kept.place, kept.placed is not None, name, kept)

    @property
    def key(self) -> PolicyKey:
        """The head's policy key."""
        return key_of(self.name)


class CellsInUse:
    """The cells of all views of a server that are in use."""

    def __init__(self, most: int = IN_USE) -> None:
        """``most``: how many there may be before another one is used."""
        self.most = most
        self.cells: OrderedDict[Cell, ref[Cells]] = OrderedDict()
        """The cells, the longest unused first, each with the view that it is of."""

    def __len__(self) -> int:
        return len(self.cells)

    def leave(self, owner: ref[Cells]) -> None:
        """Removes the cells of a view that is gone."""
        for cell in [cell for cell, each in self.cells.items() if each is owner]:
            del self.cells[cell]


class RecentCells:
    """The cells of one partition that are not idle, by name, the longest without an event first.

    Each event looks at two of them, so that none takes long. The time is that of the events, each by the clock of its producer. So that no
    wrong clock makes a key idle too early, two producers must agree: the time is the earlier of the last event's and of the last event of
    another producer (of the same one, where there is no other), until the events of one producer in a row span so much time that idle keys
    are idle by any clock.
    """

    __slots__ = ("_cells", "_last", "_other", "_producer", "_since", "_window_ms", "now")

    def __init__(self, window_ms: int) -> None:
        """Begins without cells. ``window_ms``: W, in milliseconds."""
        self._window_ms = window_ms
        self._cells: OrderedDict[str, int] = OrderedDict()  # finding the first entry of a dict is slow
        """When the last event of each cell was published, in milliseconds since 1970."""
        self._producer = ""
        self._last: int | None = None
        """When the producer's last event was published."""
        self._since = 0
        """When the first of the producer's events in a row was published, none of which is more than W after the one before."""
        self._other: int | None = None
        """When the last event of another producer was published; None: there was none."""
        self.now: int | None = None
        """The time, in milliseconds since 1970; None: there was no event."""

    def begin(self, cells: Iterable[tuple[str, int]], now: int) -> None:
        """Sets the time, and adds cells with the times of their last events, the longest without an event first."""
        self._cells.update(cells)
        self._last = self.now = now

    def __contains__(self, name: object) -> bool:
        return name in self._cells

    def remove(self, name: str) -> None:
        """Removes a cell that has nothing to be dropped, or whose next event stands in another partition."""
        self._cells.pop(name, None)

    def touch(self, name: str, at: int, producer: str) -> list[str]:
        """Notes an event of a cell. Returns the names of cells that are idle now; these are removed.

        Args:
            name: the cell's name.
            at: when the event was published, in milliseconds since 1970.
            producer: by which producer.
        """
        before = at if self._last is None else self._last
        if producer != self._producer or at - before > self._window_ms:
            self._since = at
        if producer != self._producer:
            self._producer, self._other = producer, self._last
        self._last = at
        idle_ms = WINDOWS * self._window_ms
        now = self.now = at if at - self._since > idle_ms else min(at, before if self._other is None else self._other)
        cells = self._cells
        cells[name] = at
        cells.move_to_end(name)
        idle: list[str] = []
        for _ in range(_AT_A_TIME):
            first, touched_at = next(iter(cells.items()))
            if touched_at < now - idle_ms:
                del cells[first]
                idle.append(first)
            elif touched_at > now + self._window_ms:  # from the future: others may be idle before it
                cells.move_to_end(first)
            else:
                break
        return idle


class Cells:
    """All cells of one view, in the order of their last change, oldest first."""

    __slots__ = ("__weakref__", "_cells", "_in_use", "_me", "recent")

    def __init__(self, window_ms: int, in_use: CellsInUse | None = None) -> None:
        """Begins without cells.

        Args:
            window_ms: W, in milliseconds.
            in_use: the cells in use of all views of the server; None: those of this view only.
        """
        self.share(CellsInUse() if in_use is None else in_use)
        self.recent: defaultdict[int, RecentCells] = defaultdict(lambda: RecentCells(window_ms))
        """The cells that had events lately, by partition, but for those at rest with a document and without leftovers."""
        self._cells: OrderedDict[str, Kept] = OrderedDict()

    def share(self, in_use: CellsInUse) -> None:
        """Sets the cells in use of all views of the server, to which this one's belong; none of them is in use yet."""
        self._in_use = in_use
        self._me = ref(self, in_use.leave)

    def __len__(self) -> int:
        return len(self._cells)

    def use(self, name: str) -> Cell | None:
        """Returns the cell of a name, for a caller that may change it; None: there is none."""
        kept = self._cells.get(name)
        if kept is None:
            return None
        if isinstance(kept, bytes):
            kept = self._cells[name] = wake(name, kept)
        in_use = self._in_use.cells
        in_use[kept] = self._me
        in_use.move_to_end(kept)
        return kept

    def kept(self, name: str) -> Kept | None:
        """Returns the cell of a name as it is, in use or at rest; None: there is none."""
        return self._cells.get(name)

    def add(self, key: PolicyKey, partition: int) -> Cell:
        """Adds and returns a cell without events, at the end of the order."""
        name = name_of(key)
        cell = self._cells[name] = Cell(key, name, partition, KeyState())
        self._in_use.cells[cell] = self._me
        return cell

    def restore(self, name: str, data: bytes) -> None:
        """Adds a cell at rest at the end of the order."""
        self._cells[name] = data

    def copy(self) -> tuple[list[str], list[bytes]]:
        """Returns the names of all cells, and the cells as bytes, in any order: bytes don't change, so this is a copy of one moment."""
        names, kept = list(dict.keys(self._cells)), list(dict.values(self._cells))  # in a tenth of the time that the order takes
        return names, [each if isinstance(each, bytes) else rest(each) for each in kept]

    def take_over(self, name: str, kept: bytes) -> None:
        """Replaces the cell of a name by one at rest, and moves it to the end of the order."""
        self._cells[name] = kept
        self._cells.move_to_end(name)

    def remove(self, name: str) -> None:
        """Removes a cell."""
        del self._cells[name]

    def move_to_end(self, name: str) -> None:
        """Moves a cell that has changed to the end of the order."""
        self._cells.move_to_end(name)

    def items(self) -> list[tuple[str, Kept]]:
        """Returns the names of all cells, and the cells as they are, in order, as of now."""
        return list(self._cells.items())  # a copy, because another thread may call this

    def heads(self) -> Iterator[Head]:
        """Yields all heads in order."""
        for name, kept in self._cells.items():
            head = self.head_of(name, kept)
            if head is not None:
                yield head

    def traces(self) -> Iterator[Trace]:
        """Yields the traces of all heads, the newest change first."""
        for name, kept in reversed(self._cells.items()):
            found = kept if isinstance(kept, bytes) else kept.head
            if found is not None and (trace := Trace.of(name, found)).number:
                yield trace

    def head_of(self, name: str, kept: Kept | Head) -> Head | None:
        """Returns the head of a name's cell, or the head itself; the cell may be an old one. A cell at rest stays so."""
        if isinstance(kept, bytes):
            return wake_head(name, kept)
        return kept if isinstance(kept, Head) else kept.head

    def peek(self, name: str) -> Head | None:
        """Returns the head of a name; None: there is none. A cell at rest stays so."""
        kept = self._cells.get(name)
        return self.head_of(name, kept) if kept is not None else None

    def state_of(self, name: str, kept: Kept) -> KeyState:
        """Returns the state of a name's cell. A cell at rest stays so: then the state is a copy."""
        return wake(name, kept).state if isinstance(kept, bytes) else kept.state

    def joined(self, since: int) -> Iterator[KeyState]:
        """Yields the states of keys with events since a time (milliseconds since 1970) whose history was not seen from its beginning."""
        for name, kept in self._cells.items():
            if last_event(kept)[1] <= since or (isinstance(kept, bytes) and not has_leftovers(kept)):
                continue
            if (state := self.state_of(name, kept)).joined not in (None, ALONE):
                yield state

    def trim(self, name: str, now: int, window_ms: int) -> None:
        """Drops what an idle cell keeps only for a while (``KeyState.trim``)."""
        kept = self._cells[name]
        if isinstance(kept, bytes) and not is_owed(kept):
            self._cells[name] = without_leftovers(kept)
        elif (cell := self.use(name)) is not None:
            cell.state.trim(now, window_ms)

    def is_forgettable(self, name: str) -> bool:
        """Returns whether the idle cell of an absent document may be removed: no repair is due, and no event of it is still expected."""
        kept = self._cells[name]
        if isinstance(kept, bytes):
            return not is_due(kept) and not has_leftovers(kept)
        state = kept.state
        return not state.due and state.owed is None and (state.joined is None or state.joined is ALONE)

    def renumber(self, by: int) -> None:
        """Makes the numbers of all heads greater."""
        for name, kept in self._cells.items():
            if isinstance(kept, bytes):
                if number := number_of(kept):
                    self._cells[name] = renumbered(kept, number + by)
            elif kept.head is not None:
                kept.head.number += by

    def limit(self) -> None:
        """Puts the cells to rest, of this view or of others, that are too many in use."""
        in_use = self._in_use.cells
        while len(in_use) > self._in_use.most:
            cell, owner = in_use.popitem(last=False)
            cells = owner()
            if cells is not None:
                cells.rest(cell)

    def rest(self, cell: Cell) -> None:
        """Puts a cell to rest."""
        if self._cells.get(cell.name) is not cell:
            return
        data = self._cells[cell.name] = rest(cell)
        if document_size(data) is not None and not has_leftovers(data):
            self.recent[cell.partition].remove(cell.name)


def is_same(kept: Kept | None, other: Kept | None) -> bool:
    """Returns whether two cells are both at rest, and equal but for their heads' numbers. If not, they may still have equal heads."""
    if not isinstance(kept, bytes) or not isinstance(other, bytes) or len(kept) != len(other):
        return False
    return renumbered(kept, 0) == renumbered(other, 0) and number_of(kept) > 0
