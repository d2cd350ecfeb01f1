"""The cells of a view, in the order of their last change. Cells in use are *live* objects; the others are *frozen* to bytes.

A frozen cell is one bytes object (``frozen``), a fourth to a tenth as large, and nothing that the garbage collector must visit. Live
cells stand in a line (a clock algorithm), and with each event of the view two of them have their turn:

=========  ===============================  ========================================================================================
state      event                            next
=========  ===============================  ========================================================================================
(none)     ``add``                          LIVE, at the end of the line
LIVE       its turn; it was found since it  LIVE, at the end of the line
           went to the end of the line
LIVE       its turn; its key isn't settled  LIVE, at the end of the line
LIVE       its turn otherwise               FROZEN
FROZEN     ``find``, ``change``             LIVE, at the end of the line
FROZEN     an iteration over all heads      FROZEN: the caller gets a head of its own
any        ``remove``                       (none)
=========  ===============================  ========================================================================================

A cell that is found twice for one event, just before the event is taken and while it is, counts as found once.

While no more cells are live than the line has room for, events give no turns. The room adapts: a cell that has to be thawed was frozen too
early, and adds room for two more, so that keys that change in turn stay live, while keys that are only loaded are soon frozen. ``settle``
gives turns in any case, for views without events; after a whole line of turns it halves the room, but leaves room for the cells that are
live still because they are found again and again.

``find`` is for callers that do not change the cell: it keeps the frozen bytes, so that the cell need not be serialized again.

A head that other objects keep as well (the ring of recent changes, for its ``before``) stays one object: a thawed cell gets it back.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias
from weakref import WeakValueDictionary

from ..fold.fold import KeyState, repair_due
from ..fold.keystate import ALONE
from ..names import PolicyKey, Scope
from ..policies.events import Position
from . import frozen_fields
from .frozen import freeze, thaw, thaw_head
from .frozen_fields import document_size, glance, has_leftovers, number_of, once_all_seen, renumbered, trimmed
from .heads import Cell, Head, without_requests
from .recent_cells import RecentCells

WARM = 256
"""How many cells may be live before any is frozen, by default."""
_LONGER = 16
"""How many times its initial room the line's room may become."""
_TURNS = 2
"""How many turns each event gives."""
_GLOBAL = "\x02"
"""Begins the names of GLOBAL keys; no topic begins with it."""
LOCAL_FROM = "\x03"
"""Less than all names of LOCAL keys, and greater than all names of GLOBAL keys."""

Kept: TypeAlias = "Cell | bytes"


def name_of(key: PolicyKey) -> str:
    """Returns a key as one string, its name. The names of one scope's keys are in the order of the keys."""
    return key.topic if key.scope is Scope.LOCAL else _GLOBAL + key.topic


def key_of(name: str) -> PolicyKey:
    """Returns the key of a name."""
    return PolicyKey(name[1:], Scope.GLOBAL) if name.startswith(_GLOBAL) else PolicyKey(name, Scope.LOCAL)


class Trace(NamedTuple):
    """Number and place of a head, by which a caller selects heads without thawing them."""

    number: int
    partition: int
    place: Position
    placed: bool
    """Whether an event made the head."""
    name: str
    kept: Head | bytes

    @classmethod
    def of(cls, name: str, kept: Head | bytes) -> Trace:
        """Returns the trace of a head, or of that of a frozen cell."""
        if isinstance(kept, bytes):
            return cls(*glance(kept), name, kept)
        return cls(kept.number, kept.partition, kept.place, kept.placed is not None, name, kept)

    @property
    def key(self) -> PolicyKey:
        """The head's policy key."""
        return key_of(self.name)


class Cells:
    """All cells of one view, in the order of their last change, oldest first."""

    __slots__ = ("_cells", "_least", "_live", "_most", "_shared", "_taken", "_unsettled", "recent_cells")

    def __init__(self, window_ms: int, most: int = WARM) -> None:
        """Begins without cells.

        Args:
            window_ms: W, in milliseconds.
            most: how many cells may be live before any is frozen; the room grows to some times that where keys change in turn.
        """
        self._least = self._most = most
        self._unsettled = 0
        """How many turns ``settle`` has still to give before it takes room back."""
        self._taken = 0
        """Counts the events that were taken; each ``settle`` counts as two."""
        self.recent_cells: defaultdict[int, RecentCells] = defaultdict(lambda: RecentCells(window_ms))
        """The cells that had events lately, by partition, but for frozen cells with a document and without leftovers."""
        self._cells: OrderedDict[str, Kept] = OrderedDict()
        self._live: deque[Cell] = deque()
        """The line; it may still have cells that were removed."""
        self._shared: WeakValueDictionary[str, Head] = WeakValueDictionary()
        """The heads of frozen cells that other objects may still keep."""

    def __len__(self) -> int:
        return len(self._cells)

    @property
    def warm(self) -> int:
        """How many cells are live."""
        return len(self._live)

    def find(self, name: str) -> Cell | None:
        """Returns the cell of a name, live, for a caller that does not change it; None: there is none."""
        kept = self._cells.get(name)
        if kept is None:
            return None
        if isinstance(kept, bytes):
            kept = self._thawed(name, kept)
            self._cells[name] = kept
            self._line_up(kept)
            if self._most < _LONGER * self._least:
                self._most += _TURNS
        kept.touched = self._taken
        return kept

    def change(self, name: str) -> Cell | None:
        """Returns the cell of a name, live, for a caller that may change it; None: there is none."""
        cell = self.find(name)
        if cell is not None and cell.frozen is not None:
            cell.frozen_head, cell.frozen = cell.frozen, None
        return cell

    def kept(self, name: str) -> Kept | None:
        """Returns the cell of a name as it is, live or frozen; None: there is none."""
        return self._cells.get(name)

    def has(self, topic: str) -> bool:
        """Returns whether there is a cell of a topic in any scope."""
        return topic in self._cells or _GLOBAL + topic in self._cells

    def joined(self, now: int, window_ms: int) -> Iterator[KeyState]:
        """Yields the states, made live, of keys with a ``joined``; of frozen keys only if they need it (``joining.check_all_seen``)."""
        for name, kept in self.items():
            if isinstance(kept, bytes) and (rest := once_all_seen(kept, now, window_ms)) is not None:
                if rest is not kept:
                    self._cells[name] = rest
                continue
            if self.state_of(name, kept).joined not in (None, ALONE):
                cell = self.change(name)
                assert cell is not None, "it is there"
                yield cell.state

    def add(self, key: PolicyKey, partition: int) -> Cell:
        """Adds and returns a live cell without events, at the end of the order."""
        name = name_of(key)
        cell = self._cells[name] = Cell(key, name, partition, KeyState())
        self._line_up(cell)
        return cell

    def restore(self, name: str, kept: Kept) -> None:
        """Adds a cell as it is, live or frozen, at the end of the order; a live one goes to the line."""
        self._cells[name] = kept
        if not isinstance(kept, bytes):
            self._line_up(kept)

    def copy(self) -> tuple[list[str], list[Kept]]:
        """Returns the names of all cells, and the cells as they are, in any order, in a tenth of the time of ``items``."""
        return list(dict.keys(self._cells)), list(dict.values(self._cells))

    def take_over(self, name: str, kept: Kept) -> None:
        """Replaces the cell of a name by a frozen one, and moves it to the end of the order."""
        assert isinstance(kept, bytes), "frozen"
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

    def number(self, name: str) -> int:
        """Returns the number of the head of a name; 0: there is none."""
        kept = self._cells.get(name)
        if isinstance(kept, bytes):
            return number_of(kept)
        return kept.head.number if kept is not None and kept.head is not None else 0

    def head_of(self, name: str, kept: Kept | Head) -> Head | None:
        """Returns the head of a name's cell, live or frozen, or the head itself; the cell may be an old one. A frozen cell stays frozen."""
        if not isinstance(kept, bytes):
            return kept if isinstance(kept, Head) else kept.head
        return self._shared_head(name, kept) or thaw_head(key_of(name), kept)

    def peek(self, name: str) -> Head | None:
        """Returns the head of a name; None: there is none. A frozen cell stays frozen."""
        kept = self._cells.get(name)
        return self.head_of(name, kept) if kept is not None else None

    def state_of(self, name: str, kept: Kept) -> KeyState:
        """Returns the state of a name's cell. A frozen cell stays frozen: then the state is a copy."""
        return thaw(key_of(name), kept).state if isinstance(kept, bytes) else kept.state

    def trim(self, name: str, now: int, window_ms: int) -> None:
        """Drops the leftovers of a cell that has become idle (``KeyState.trim``)."""
        kept = self._cells[name]
        if not isinstance(kept, bytes):
            kept.frozen = None
            kept.state.trim(now, window_ms)
        elif (rest := trimmed(kept, now, window_ms)) is not None:
            self._cells[name] = rest
        elif (cell := self.change(name)) is not None:
            cell.state.trim(now, window_ms)

    def is_forgettable(self, name: str) -> bool:
        """Returns whether the idle cell of an absent document may be removed: no repair is due, and no event of it is still expected."""
        kept = self._cells[name]
        if isinstance(kept, bytes) and not has_leftovers(kept):
            return not is_due(kept)
        state = self.state_of(name, kept)
        return not state.due and state.owed is None and (state.joined is None or state.joined is ALONE)

    def renumber(self, by: int) -> None:
        """Makes the numbers of all heads greater."""
        self._shared.clear()
        for name, kept in self._cells.items():
            if isinstance(kept, bytes):
                if number := glance(kept).number:
                    self._cells[name] = renumbered(kept, number + by)
            elif kept.head is not None:
                kept.frozen = kept.frozen_head = None
                kept.head.number += by

    def taken(self) -> None:
        """Notes that an event has been taken and its listeners notified; gives turns if there are more live cells than room."""
        self._taken += 1
        if len(self._live) > self._most:
            self._turn(_TURNS)

    def settle(self, turns: int) -> int:
        """Gives so many turns, at most one to each live cell. Returns how many."""
        turns = min(turns, len(self._live))
        self._turn(turns)
        self._taken += 2
        self._unsettled -= turns
        if self._unsettled <= 0:
            self._most = max(self._most // 2, min(self._most, len(self._live)), self._least)
            self._unsettled = len(self._live)
        return turns

    def _turn(self, turns: int) -> None:
        live = self._live
        for _ in range(min(turns, len(live))):
            cell = live.popleft()
            if self._cells.get(cell.name) is not cell:
                continue
            if cell.touched > cell.lined_up + 1 or not self._freeze(cell):
                self._line_up(cell)

    def _line_up(self, cell: Cell) -> None:
        cell.touched = cell.lined_up = self._taken
        self._live.append(cell)

    def _freeze(self, cell: Cell) -> bool:
        data = cell.frozen or freeze(cell.state, cell.head, cell.partition, cell.touched_at)
        if data is None:
            return False
        head = cell.head
        if head is not None and head.before is not None:
            if head.placed is not None:
                head.placed = without_requests(head.placed)
            self._shared[cell.name] = head
        self._cells[cell.name] = data
        if document_size(data) is not None and not has_leftovers(data):
            self.recent_cells[cell.partition].rest(cell.name)
        return True

    def _thawed(self, name: str, data: bytes) -> Cell:
        key = key_of(name)
        state, head, partition, touched_at = thaw(key, data)
        cell = Cell(key, name, partition, state)
        cell.head = self._shared_head(name, data) or head
        cell.touched_at = touched_at
        cell.frozen = data
        return cell

    def _shared_head(self, name: str, data: bytes) -> Head | None:
        if not self._shared:
            return None
        head = self._shared.get(name)
        return head if head is not None and head.number == glance(data).number else None


def is_due(kept: Kept) -> bool:
    """Returns whether a repair of a cell's key is due."""
    return frozen_fields.is_due(kept) if isinstance(kept, bytes) else repair_due(kept.state)


def is_same(kept: Kept | None, other: Kept | None) -> bool:
    """Returns whether two cells are both frozen, and equal but for their heads' numbers. If not, they may still have equal heads."""
    if not isinstance(kept, bytes) or not isinstance(other, bytes) or len(kept) != len(other):
        return False
    return renumbered(kept, 0) == renumbered(other, 0) and glance(kept).number > 0


def partition_of(kept: Kept) -> int:
    """Returns the partition of the last event of a cell's key."""
    return frozen_fields.partition_of(kept) if isinstance(kept, bytes) else kept.partition
