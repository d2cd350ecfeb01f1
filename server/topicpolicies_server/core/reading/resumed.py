"""What of a view is kept for another process, and how one goes on with it there (``checkpoints``)."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..policies.events import Position
from .cells import Cells, Kept
from .frozen import HEAD, NUMBERS, SHOWN
from .heads import Cell
from .pages import Pages

_BEGINNING = struct.Struct(">xIQ").unpack_from
"""Flags and number of what is frozen (``frozen.NUMBERS``)."""
_LAST_EVENT = struct.Struct(NUMBERS.format[: len(">BIQHHIq")]).unpack_from
"""The same, up to when the last event was published."""
_RUN = 2_048
"""So many are sorted at a time, roughly: a sort keeps the interpreter."""
_SPARSE = 4
"""So many numbers for each key are not too many to have a place for each."""
_THERE = 3 << SHOWN
"""The flags that say that there is a document."""


class Held(NamedTuple):
    """What there is of one key."""

    name: str
    """The key in one text (``cells.name_of``)."""
    kept: Kept
    """As it is: frozen, or live."""
    lately: bool
    """Whether it had events lately (``lately``)."""


class Helds(NamedTuple):
    """What there is of some keys, in columns: of a million keys a tuple each takes longer than all the rest."""

    names: Sequence[str]
    kept: Sequence[Kept]
    lately: Sequence[str]
    """The names of those that had events lately."""

    @classmethod
    def of(cls, keys: Iterable[Held]) -> Helds:
        """The same of keys one by one, in the order of their names."""
        found = sorted(keys, key=lambda held: held.name)
        return cls([held.name for held in found], [held.kept for held in found], [held.name for held in found if held.lately])


class Resumed:
    """A part of ``View``."""

    __slots__ = ("_absent", "_cells", "_complete", "_forgotten", "_heads", "_number", "_pages", "gone")

    _absent: OrderedDict[str, None]
    _cells: Cells
    _complete: Sequence[Position | None]
    _forgotten: dict[int, Position]
    _heads: int
    _number: int
    _pages: Pages
    gone: dict[str, None] | None
    """The names of keys that were forgotten, for whoever takes them out, and has asked for them with an empty one."""

    @property
    def complete(self) -> Sequence[Position | None]:
        """Behind which position of each partition nothing was compacted away, as far as was known as the log was read."""
        return self._complete

    @property
    def times(self) -> dict[int, int]:
        """The time of each partition by its events, in milliseconds since 1970."""
        return {partition: lately.now for partition, lately in self._cells.lately.items() if lately.now is not None}

    def names(self) -> list[str]:
        """The names of all keys, as of now."""
        return [name for name, _ in self._cells.items()]

    def held(self, name: str) -> Held | None:
        """What there is of a key, to be looked at; None: nothing."""
        kept = self._cells.kept(name)
        return None if kept is None else Held(name, kept, any(name in lately for lately in self._cells.lately.values()))

    def go_on(self, pages: Iterable[Helds], *, number: int, forgotten: Mapping[int, Position], times: Mapping[int, int]) -> None:
        """Makes an empty view what another one was. Other threads have their turns meanwhile.

        Args:
            pages: all of its keys, in the order of their names.
            number: of its last change.
            forgotten: up to where it had forgotten deletions, by partition.
            times: the time of each partition by its events, in milliseconds since 1970.
        """
        self._number, self._forgotten = number, dict(forgotten)
        found: list[tuple[list[int], Helds]] = []
        lately: list[str] = []
        for page in pages:
            told = [_BEGINNING(kept) if isinstance(kept, bytes) else _beginning(kept) for kept in page.kept]
            found.append(([number for _, number in told], page))
            self._heads += sum([1 for flags, _ in told if flags & HEAD])
            shown = [name for name, (flags, _) in zip(page.names, told, strict=True) if flags & _THERE]
            self._pages.fill(shown)
            if len(shown) < len(told):
                self._absent.update((name, None) for name, (flags, _) in zip(page.names, told, strict=True) if not flags & _THERE)
            lately += page.lately
        for run in _in_order(found):
            self._cells.go_on(run)
        for name in sorted(self._absent, key=self._number_of):
            self._absent.move_to_end(name)
        self._begin_times(lately, times)

    def _number_of(self, name: str) -> int:
        kept = self._cells.kept(name)
        assert kept is not None, "it is there"
        return _BEGINNING(kept)[1] if isinstance(kept, bytes) else _beginning(kept)[1]

    def _begin_times(self, lately: Iterable[str], times: Mapping[int, int]) -> None:
        cells: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
        for name in lately:
            kept = self._cells.kept(name)
            if isinstance(kept, bytes):
                _, _, _, partition, _, _, touched_at = _LAST_EVENT(kept)
                cells[partition].append((name, touched_at))
            elif kept is not None:
                cells[kept.partition].append((name, kept.touched_at))
        for partition, now in times.items():
            self._cells.lately[partition].begin(sorted(cells[partition], key=_touched_at), now)


def _beginning(cell: Cell) -> tuple[int, int]:
    """Flags and number as what is frozen has them."""
    if cell.head is None:
        return 0, 0
    return HEAD | (_THERE if cell.document is not None else 0), cell.head.number


def _in_order(found: Sequence[tuple[list[int], Helds]]) -> Iterator[Sequence[tuple[str, Kept]]]:
    """Names with what there is of them, in the order of their numbers, some at a time.

    No sort keeps the interpreter for long. Mostly most numbers are those of some key: then each is put in its place, which takes a third
    of the time of sorting runs.
    """
    count = sum(len(numbers) for numbers, _ in found)
    highest = max((max(numbers) for numbers, _ in found), default=0)
    if highest <= _SPARSE * count:
        places: list[tuple[str, Kept] | None] = [None] * (highest + 1)
        for numbers, page in found:
            for number, each in zip(numbers, zip(page.names, page.kept, strict=True), strict=True):
                places[number] = each
        placed = [each for each in places if each is not None]
        if len(placed) == count:  # no two have the same, as those without a head have
            yield placed
            return
    sample = sorted(number for numbers, _ in found for number in numbers[:: _RUN // 16])
    borders = sample[15::16]
    runs: list[list[tuple[int, str, Kept]]] = [[] for _ in range(len(borders) + 1)]
    for numbers, page in found:
        for at in zip(numbers, page.names, page.kept, strict=True):
            runs[bisect_right(borders, at[0])].append(at)
    for run in runs:
        run.sort()  # no two have the same name
        yield [(name, kept) for _, name, kept in run]
        run.clear()


def _touched_at(lately: tuple[str, int]) -> int:
    return lately[1]
