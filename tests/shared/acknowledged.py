"""What writers were told: of each topic and setting the newest number that was acknowledged, and the newest that was tried."""

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
    """Numbers by cell. Each cell has one writer, who tries one number after the other."""

    def __init__(self) -> None:
        self.newest: dict[Cell, int] = {}
        """The newest number that was acknowledged."""
        self.tried: dict[Cell, int] = defaultdict(int)
        """The newest that was tried: what was not acknowledged may be there or not."""
        self.changes: Counter[str] = Counter()
        """Acknowledged changes, by kind of writer."""
        self.errors: Counter[str] = Counter()
        """What was not acknowledged, by what was said instead."""

    def next(self, cell: Cell) -> int:
        """The next number to try."""
        self.tried[cell] += 1
        return self.tried[cell]

    def acknowledge(self, cell: Cell, number: int, writer: str) -> None:
        """A change was acknowledged."""
        self.newest[cell] = number
        self.changes[writer] += 1

    @property
    def total(self) -> int:
        """All acknowledged changes."""
        return sum(self.changes.values())

    def holds(self, cell: Cell, number: int) -> bool:
        """Whether a cell may have this number now, when all is quiet."""
        return self.newest.get(cell, 0) <= number <= self.tried[cell]

    def cells(self) -> Iterator[Cell]:
        """The cells in which something was acknowledged."""
        return iter(self.newest)
