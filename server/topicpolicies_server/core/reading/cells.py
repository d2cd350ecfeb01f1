"""The cells of a view, in the order of their last change: live while somebody has to do with them, frozen otherwise.

A frozen cell is one value of bytes (``frozen``), a tenth to a hundredth as large, and nothing that the collector has to look at. Live ones
stand in a line, and with each event of the view the turn of two of them comes:

=========  ===============================  ========================================================================================
state      event                            next
=========  ===============================  ========================================================================================
(none)     ``add``                          LIVE, at the end of the line
LIVE       its turn comes, it was found     LIVE, at the end of the line
           since it went there
LIVE       its turn comes, not settled      LIVE, at the end of the line
LIVE       its turn comes otherwise         FROZEN
FROZEN     ``find``, ``change``             LIVE, at the end of the line
FROZEN     a walk over all heads            FROZEN: whoever walks gets a head of his own
any        ``remove``                       (none)
=========  ===============================  ========================================================================================

What is found for one and the same event, just before it is taken and while it is, was found once.

As long as no more than so many are live, no turn comes by itself. How many that are, the line finds out: a cell that has to be thawed was
frozen too early, and makes room for two more, so that keys that change in turn stay live, while those that are only loaded are soon frozen.
``settle`` has turns come all the same, for views without events; when those of a whole line have come, it takes half of the room back,
but not that of cells which are found again and again.

Who only looks at a cell (``find``) leaves it as it was: it need not be made bytes again.

A head that others keep as well (the ring of recent changes, for its ``before``) stays one and the same object: a thawed cell gets it back.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias
from weakref import WeakValueDictionary

from ..fold.fold import KeyState, repair_due
from ..fold.keystate import ALONE
from ..names import PolicyKey, Scope
from ..policies.events import Position
from . import unthawed
from .frozen import freeze, thaw, thaw_head
from .heads import Cell, Head, told_of
from .lately import Lately
from .unthawed import document_size, glance, has_leftovers, renumbered, sighted, trimmed

WARM = 256
"""As many cells are live before any is frozen, unless told otherwise."""
_LONGER = 16
"""So many times as long does the line become where its end comes too early."""
_TURNS = 2
"""Turns that come with each event."""
_GLOBAL = "\x02"
"""Begins the names of keys of all clusters; no topic begins so."""
LOCAL_FROM = "\x03"
"""In the order of names, those of keys of all clusters stand before this, and the others behind it."""

Kept: TypeAlias = "Cell | bytes"


def name_of(key: PolicyKey) -> str:
    """A key in one text; of one scope they are in the order of the keys."""
    return key.topic if key.scope is Scope.LOCAL else _GLOBAL + key.topic


def key_of(name: str) -> PolicyKey:
    """The key of a name."""
    return PolicyKey(name[1:], Scope.GLOBAL) if name.startswith(_GLOBAL) else PolicyKey(name, Scope.LOCAL)


class Trace(NamedTuple):
    """Where a head stands, for who looks for some of many; it need not be thawed for that."""

    number: int
    partition: int
    place: Position
    placed: bool
    """Whether an event made it."""
    name: str
    kept: Head | bytes

    @property
    def key(self) -> PolicyKey:
        """Whose head it is."""
        return key_of(self.name)

    @property
    def there(self) -> bool:
        """Whether it has a document."""
        return document_size(self.kept) is not None if isinstance(self.kept, bytes) else self.kept.document is not None


class Cells:
    """All cells of one view. The order is that of their last change, oldest first."""

    __slots__ = ("_cells", "_least", "_live", "_most", "_shared", "_taken", "_unsettled", "lately")

    def __init__(self, window_ms: int, most: int = WARM) -> None:
        """No cells.

        Args:
            window_ms: W, in milliseconds.
            most: as many are live before any is frozen; some times as many at most, where keys change in turn.
        """
        self._least = self._most = most
        self._unsettled = 0
        """Turns of ``settle`` that have still to come before it takes room back."""
        self._taken = 0
        """Counts the events that were taken; a round of turns without one counts as two."""
        self.lately: defaultdict[int, Lately] = defaultdict(lambda: Lately(window_ms))
        """Those that had events lately, by partition; without frozen documents that keep nothing for a while."""
        self._cells: OrderedDict[str, Kept] = OrderedDict()
        self._live: deque[Cell] = deque()
        """The line."""
        self._shared: WeakValueDictionary[str, Head] = WeakValueDictionary()
        """Heads of frozen cells that others keep."""

    def __len__(self) -> int:
        return len(self._cells)

    @property
    def warm(self) -> int:
        """How many are not frozen."""
        return len(self._live)

    def find(self, name: str) -> Cell | None:
        """The cell of a name, live, for who does not change it; None: there is none."""
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
        """The cell of a name, for who is about to change it; None: there is none."""
        cell = self.find(name)
        if cell is not None:
            cell.frozen = None
        return cell

    def kept(self, name: str) -> Kept | None:
        """What there is of a name, as it is; None: nothing."""
        return self._cells.get(name)

    def has(self, topic: str) -> bool:
        """Whether there is a cell of a topic in any scope."""
        return topic in self._cells or _GLOBAL + topic in self._cells

    def joined(self, now: int, window_ms: int) -> Iterator[KeyState]:
        """The states, live, of all keys of which something may be missing: of frozen ones only those of which something is, by ``now``."""
        for name, kept in self.items():
            if isinstance(kept, bytes) and (rest := sighted(kept, now, window_ms)) is not None:
                if rest is not kept:
                    self._cells[name] = rest
                continue
            if self.state_of(name, kept).joined not in (None, ALONE):
                cell = self.change(name)
                assert cell is not None, "it is there"
                yield cell.state

    def add(self, key: PolicyKey, partition: int) -> Cell:
        """A cell without events, live, at the end of the order."""
        name = name_of(key)
        cell = self._cells[name] = Cell(key, name, partition, KeyState())
        self._line_up(cell)
        return cell

    def go_on(self, some: Iterable[tuple[str, Kept]]) -> None:
        """Takes over cells as they are, behind those that there are, the oldest change first; those not frozen stand in the line."""
        before = self._cells
        for name, kept in some:
            before[name] = kept
            if not isinstance(kept, bytes):
                self._line_up(kept)

    def take_over(self, name: str, kept: Kept) -> None:
        """Has a frozen cell, at the end of the order, in place of what there is of its name."""
        assert isinstance(kept, bytes), "frozen"
        self._cells[name] = kept
        self._cells.move_to_end(name)

    def remove(self, name: str) -> None:
        """Forgets a cell."""
        del self._cells[name]

    def move_to_end(self, name: str) -> None:
        """A cell has changed."""
        self._cells.move_to_end(name)

    def items(self) -> list[tuple[str, Kept]]:
        """All of them as they are, in order, as of now."""
        return list(self._cells.items())  # another thread may ask

    def heads(self) -> Iterator[Head]:
        """All heads in order."""
        for name, kept in self._cells.items():
            head = self.head_of(name, kept)
            if head is not None:
                yield head

    def traces(self) -> Iterator[Trace]:
        """Where all heads stand, the newest change first."""
        for name, kept in reversed(self._cells.items()):
            if isinstance(kept, bytes):
                number, partition, place, placed = glance(kept)
                if number:
                    yield Trace(number, partition, place, placed, name, kept)
            elif (head := kept.head) is not None:
                yield Trace(head.number, head.partition, head.place, head.placed is not None, name, head)

    def number(self, name: str) -> int:
        """The number of the head of a name; 0: there is none."""
        kept = self._cells.get(name)
        if kept is None:
            return 0
        if isinstance(kept, bytes):
            return glance(kept).number
        return kept.head.number if kept.head is not None else 0

    def head_of(self, name: str, kept: Kept | Head) -> Head | None:
        """The head of what there is, or was, of a name. It stays frozen if it is."""
        if not isinstance(kept, bytes):
            return kept if isinstance(kept, Head) else kept.head
        return self._shared_head(name, kept) or thaw_head(key_of(name), kept)

    def peek(self, name: str) -> Head | None:
        """The head of a name; None: there is none. It stays frozen if it is."""
        kept = self._cells.get(name)
        return self.head_of(name, kept) if kept is not None else None

    def state_of(self, name: str, kept: Kept) -> KeyState:
        """The state of what there is of a name. It stays frozen if it is: then nobody else has it."""
        return thaw(key_of(name), kept).state if isinstance(kept, bytes) else kept.state

    def trim(self, name: str, now: int, window_ms: int) -> None:
        """Drops what is of no use any more of a cell that has become idle (``KeyState.trim``)."""
        kept = self._cells[name]
        if not isinstance(kept, bytes):
            kept.frozen = None
            kept.state.trim(now, window_ms)
        elif (rest := trimmed(kept, now, window_ms)) is not None:
            self._cells[name] = rest
        elif (cell := self.change(name)) is not None:
            cell.state.trim(now, window_ms)

    def is_forgettable(self, name: str) -> bool:
        """Whether nothing is due of an absence that is idle, and nothing of it may come any more."""
        kept = self._cells[name]
        if isinstance(kept, bytes) and not has_leftovers(kept):
            return not is_due(kept)
        state = self.state_of(name, kept)
        return not state.due and state.owed is None and (state.joined is None or state.joined is ALONE)

    def renumber(self, by: int) -> None:
        """All heads have greater numbers."""
        self._shared.clear()
        for name, kept in self._cells.items():
            if isinstance(kept, bytes):
                if number := glance(kept).number:
                    self._cells[name] = renumbered(kept, number + by)
            elif kept.head is not None:
                kept.frozen = None
                kept.head.number += by

    def taken(self) -> None:
        """An event has been taken, and whoever is told of it has been told."""
        self._taken += 1
        if len(self._live) > self._most:
            self._turn(_TURNS)

    def settle(self, turns: int) -> int:
        """So many turns come, or one of each live cell. Returns how many came."""
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
                head.placed = told_of(head.placed)
            self._shared[cell.name] = head
        self._cells[cell.name] = data
        if document_size(data) is not None and not has_leftovers(data):
            self.lately[cell.partition].rest(cell.name)
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
    """Whether a repair is due of what there is of a key."""
    return unthawed.is_due(kept) if isinstance(kept, bytes) else repair_due(kept.state)


def is_same(kept: Kept | None, other: Kept | None) -> bool:
    """Whether two views have the same frozen, but for the numbers. If not, it may be the same all the same."""
    if not isinstance(kept, bytes) or not isinstance(other, bytes) or len(kept) != len(other):
        return False
    return renumbered(kept, 0) == renumbered(other, 0) and glance(kept).number > 0


def partition_of(kept: Kept) -> int:
    """In which partition the last event of a key stands."""
    return unthawed.partition_of(kept) if isinstance(kept, bytes) else kept.partition
