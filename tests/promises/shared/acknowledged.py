"""The answers to writers: of each topic and setting the newest number that was acknowledged, and the newest that was tried."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from .settings import Owned


class Cell(NamedTuple):
    """One setting of one topic."""

    topic: str
    """The full name."""
    owned: Owned

    def __str__(self) -> str:
        return f"{self.topic} {self.owned.setting}"


class Acknowledged:
    """Numbers by cell. Each cell has one writer, which tries one number after the other."""

    def __init__(self) -> None:
        self.newest: dict[Cell, int] = {}
        """The newest number that was acknowledged."""
        self.tried: dict[Cell, int] = defaultdict(int)
        """The newest number that was tried. Numbers that were not acknowledged may be there or not."""
        self.changes: Counter[str] = Counter()
        """Acknowledged changes, by kind of writer."""
        self.errors: Counter[str] = Counter()
        """The number of changes that were not acknowledged, by error."""

    def next(self, cell: Cell) -> int:
        """Returns the next number to try."""
        self.tried[cell] += 1
        return self.tried[cell]

    def acknowledge(self, cell: Cell, number: int, writer: str) -> None:
        """Notes that a change was acknowledged."""
        self.newest[cell] = number
        self.changes[writer] += 1

    @property
    def total(self) -> int:
        """The number of acknowledged changes."""
        return sum(self.changes.values())

    def holds(self, cell: Cell, number: int) -> bool:
        """Whether a cell may have this number once no request is open."""
        return self.newest.get(cell, 0) <= number <= self.tried[cell]

    def cells(self) -> Iterator[Cell]:
        """Returns the cells with an acknowledged change."""
        return iter(self.newest)
