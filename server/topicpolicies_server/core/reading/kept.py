"""What of a view is kept for another process, and how one goes on with it there (``checkpoints``)."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ..names import PolicyKey, Scope
from ..policies.events import Position
from .heads import Cell
from .lately import Lately
from .order import Order


class Kept:
    """A part of ``View``."""

    __slots__ = ("_absent", "_cells", "_complete", "_forgotten", "_heads", "_lately", "_number", "_orders")

    _absent: OrderedDict[Cell, None]
    _cells: OrderedDict[PolicyKey, Cell]
    _complete: Sequence[Position | None]
    _forgotten: dict[int, Position]
    _heads: int
    _lately: defaultdict[int, Lately]
    _number: int
    _orders: Mapping[Scope, Order]

    @property
    def complete(self) -> Sequence[Position | None]:
        """Behind which position of each partition nothing was compacted away, as far as was known as the log was read."""
        return self._complete

    @property
    def times(self) -> dict[int, int]:
        """The time of each partition by its events, in milliseconds since 1970."""
        return {partition: lately.now for partition, lately in self._lately.items() if lately.now is not None}

    def keys(self) -> Iterable[PolicyKey]:
        """The keys of all cells."""
        return self._cells.keys()

    def cell(self, key: PolicyKey) -> Cell | None:
        """All there is of a key; None: nothing. Only ``View.take`` changes it."""
        return self._cells.get(key)

    def go_on(self, cells: Iterable[Cell], *, number: int, forgotten: Mapping[int, Position], times: Mapping[int, int]) -> None:
        """Makes an empty view what another one was.

        Args:
            cells: of all its keys.
            number: of its last change.
            forgotten: up to where it had forgotten deletions, by partition.
            times: the time of each partition by its events, in milliseconds since 1970.
        """
        assert not self._cells, "empty"
        self._number = number
        self._forgotten = dict(forgotten)
        for cell in sorted(cells, key=_last_change):
            self._cells[cell.key] = cell
            if cell.head is not None:
                self._heads += 1
            if cell.document is None:
                self._absent[cell] = None
        for scope, order in self._orders.items():
            order.fill(sorted(key for key, cell in self._cells.items() if key.scope is scope and cell.document is not None))
        lately: defaultdict[int, list[Cell]] = defaultdict(list)
        for cell in sorted((cell for cell in self._cells.values() if cell.lately), key=_touched_at):
            lately[cell.partition].append(cell)
        for partition, now in times.items():
            self._lately[partition].begin(lately[partition], now)


def _last_change(cell: Cell) -> int:
    return cell.head.number if cell.head is not None else 0


def _touched_at(cell: Cell) -> int:
    return cell.touched_at
