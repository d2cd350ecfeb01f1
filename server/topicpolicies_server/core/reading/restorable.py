"""The part of a view that checkpoints use: what is kept of a view for another process, and how a view there continues it."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from ..names import Scope
from ..policies.events import Position
from .cell import Kept, beginning, last_event
from .cells import Cells
from .pages import Pages

_RUN = 2_048
"""How many cells are sorted at a time, roughly: no other thread runs during a sort."""
_SPARSE = 4
"""With at most so many numbers for each key, a list with a slot for each number is not too long."""


class KeyCell(NamedTuple):
    """One key with its cell."""

    name: str
    """The key as one string (``cells.name_of``)."""
    kept: Kept
    """The key's cell as it is, frozen or live."""
    lately: bool
    """Whether the key had events lately (``recent``)."""


class KeyCells(NamedTuple):
    """Some keys with their cells, in columns: for a million keys, making a tuple each takes longer than all the rest."""

    names: Sequence[str]
    kept: Sequence[Kept]
    lately: Sequence[str]
    """The names of the keys that had events lately."""

    @classmethod
    def of(cls, keys: Iterable[KeyCell]) -> KeyCells:
        """Returns some keys in columns, in the order of their names."""
        found = sorted(keys, key=lambda cell: cell.name)
        return cls([cell.name for cell in found], [cell.kept for cell in found], [cell.name for cell in found if cell.lately])


class Restorable:
    """The part of ``View`` that copies its content to another process and back."""

    __slots__ = ("_absent", "_cells", "_complete", "_forgotten", "_heads", "_number", "_pages", "gone")

    _absent: OrderedDict[str, None]
    _cells: Cells
    _complete: Sequence[Position | None]
    _forgotten: dict[int, Position]
    _heads: int
    _number: int
    _pages: Pages
    gone: dict[str, None] | None
    """The names of keys that were forgotten since the keeper of checkpoints took them out; None: no keeper has set a dict."""

    @property
    def complete(self) -> Sequence[Position | None]:
        """By partition, the position after which nothing was compacted away; None where that was unknown when the log was loaded."""
        return self._complete

    @property
    def times(self) -> dict[int, int]:
        """The time of each partition by its events, in milliseconds since 1970."""
        return {partition: lately.now for partition, lately in self._cells.recent.items() if lately.now is not None}

    def names(self) -> list[str]:
        """Returns the names of all keys, as of now."""
        return [name for name, _ in self._cells.items()]

    def named(self, after: str, most: int) -> list[str]:
        """Returns the names of at most ``most`` keys with a document, in order, that are greater than ``after``."""
        return list(islice(self._pages.names(frozenset(Scope), after), most))

    def key_cell(self, name: str) -> KeyCell | None:
        """Returns a key with its cell, to be read only; None: there is none."""
        kept = self._cells.kept(name)
        return None if kept is None else KeyCell(name, kept, any(name in lately for lately in self._cells.recent.values()))

    def restore(self, pages: Iterable[KeyCells], *, number: int, forgotten: Mapping[int, Position], times: Mapping[int, int]) -> None:
        """Fills an empty view with the content of another one. Never blocks other threads for long.

        Args:
            pages: all keys of the other view, in the order of their names.
            number: the number of the other view's last change.
            forgotten: the position up to which it had forgotten deletions, by partition.
            times: the time of each partition by its events, in milliseconds since 1970.
        """
        self._number, self._forgotten = number, dict(forgotten)
        found: list[tuple[list[int], KeyCells]] = []
        lately: list[str] = []
        for page in pages:
            told = [beginning(kept) for kept in page.kept]
            found.append(([number for number, _ in told], page))
            self._heads += sum([1 for number, _ in told if number])
            shown = [name for name, (_, there) in zip(page.names, told, strict=True) if there]
            self._pages.fill(shown)
            if len(shown) < len(told):
                self._absent.update((name, None) for name, (_, there) in zip(page.names, told, strict=True) if not there)
            lately += page.lately
        for run in _in_order(found):
            self._cells.restore(run)
        for name in sorted(self._absent, key=self._number_of):
            self._absent.move_to_end(name)
        self._begin_times(lately, times)

    def _number_of(self, name: str) -> int:
        kept = self._cells.kept(name)
        assert kept is not None, "it is there"
        return beginning(kept)[0]

    def _begin_times(self, lately: Iterable[str], times: Mapping[int, int]) -> None:
        cells: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
        for name in lately:
            kept = self._cells.kept(name)
            if kept is not None:
                partition, touched_at = last_event(kept)
                cells[partition].append((name, touched_at))
        for partition, now in times.items():
            self._cells.recent[partition].begin(sorted(cells[partition], key=_touched_at), now)


def _in_order(found: Sequence[tuple[list[int], KeyCells]]) -> Iterator[Sequence[tuple[str, Kept]]]:
    """Yields names with their cells in the order of the heads' numbers, some at a time.

    No sort blocks other threads for long. Usually most numbers are those of some key: then each cell is put in the slot of its number,
    which takes a third of the time of sorting runs.
    """
    count = sum(len(numbers) for numbers, _ in found)
    highest = max((max(numbers) for numbers, _ in found), default=0)
    if highest <= _SPARSE * count:
        places: list[tuple[str, Kept] | None] = [None] * (highest + 1)
        for numbers, page in found:
            for number, each in zip(numbers, zip(page.names, page.kept, strict=True), strict=True):
                places[number] = each
        placed = [each for each in places if each is not None]
        if len(placed) == count:  # no two cells have the same number; cells without a head all have 0
            yield placed
            return
    sample = sorted(number for numbers, _ in found for number in numbers[:: _RUN // 16])
    borders = sample[15::16]
    runs: list[list[tuple[int, str, Kept]]] = [[] for _ in range(len(borders) + 1)]
    for numbers, page in found:
        for at in zip(numbers, page.names, page.kept, strict=True):
            runs[bisect_right(borders, at[0])].append(at)
    for run in runs:
        run.sort()  # names differ, so cells are never compared
        yield [(name, kept) for _, name, kept in run]
        run.clear()


def _touched_at(lately: tuple[str, int]) -> int:
    return lately[1]
