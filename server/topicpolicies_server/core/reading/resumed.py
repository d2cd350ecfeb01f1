"""What of a view is kept for another process, and how one goes on with it there (``checkpoints``)."""

from __future__ import annotations

import struct
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..policies.events import Position
from .cells import Cells, Kept
from .frozen import HEAD, NUMBERS, SHOWN
from .pages import Pages

_BEGINNING = struct.Struct(NUMBERS.format[: len(">BIQHHIq")])
"""What frozen bytes begin with, up to when the last event was published."""


class Held(NamedTuple):
    """What there is of one key."""

    name: str
    """The key in one text (``cells.name_of``)."""
    kept: Kept
    """As it is: frozen, or live."""
    lately: bool
    """Whether it had events lately (``lately``)."""


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

    def go_on(self, keys: Iterable[Held], *, number: int, forgotten: Mapping[int, Position], times: Mapping[int, int]) -> None:
        """Makes an empty view what another one was.

        Args:
            keys: all of its keys.
            number: of its last change.
            forgotten: up to where it had forgotten deletions, by partition.
            times: the time of each partition by its events, in milliseconds since 1970.
        """
        self._number, self._forgotten = number, dict(forgotten)
        found: list[tuple[int, str, Kept]] = []
        shown: list[str] = []
        absent: set[str] = set()
        lately: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
        numbers = _BEGINNING.unpack_from
        for name, kept, is_lately in keys:
            if isinstance(kept, bytes):
                _, flags, last, partition, _, _, touched_at = numbers(kept)
                has_head, there = flags & HEAD, flags >> SHOWN & 3
            else:
                last, partition, touched_at = kept.head.number if kept.head is not None else 0, kept.partition, kept.touched_at
                has_head, there = kept.head is not None, kept.document is not None
            found.append((last, name, kept))
            if there:
                shown.append(name)
            else:
                absent.add(name)
            if has_head:
                self._heads += 1
            if is_lately:
                lately[partition].append((name, touched_at))
        found.sort(key=_number)
        self._cells.go_on((name, kept) for _, name, kept in found)
        self._absent.update((name, None) for _, name, _ in found if name in absent)
        self._pages.fill(shown)
        for partition, now in times.items():
            self._cells.lately[partition].begin(sorted(lately[partition], key=_touched_at), now)


def _number(found: tuple[int, str, Kept]) -> int:
    return found[0]


def _touched_at(lately: tuple[str, int]) -> int:
    return lately[1]
