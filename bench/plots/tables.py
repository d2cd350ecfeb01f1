"""Reads the tables that a command printed back from the page that holds them."""

from __future__ import annotations

import re
from typing import NamedTuple

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


class Table(NamedTuple):
    """One table, as text."""

    columns: list[str]
    rows: list[list[str]]

    def column(self, name: str) -> list[str]:
        """Returns the cells of a column.

        Raises:
            ValueError: there is no such column.
        """
        at = self.columns.index(name)
        return [row[at] for row in self.rows]

    def has(self, *names: str) -> bool:
        """Returns whether the table has these columns."""
        return all(name in self.columns for name in names)


def tables(text: str) -> list[Table]:
    """Returns all tables of a text, in order. A table's head is between heavy lines, its rows between light ones."""
    found: list[Table] = []
    for line in text.splitlines():
        if line.startswith("┃"):
            found.append(Table([cell.strip() for cell in line.strip("┃").split("┃")], []))
        elif line.startswith("│") and found:
            # Leading spaces of the first cell mark a row that belongs to the one before; they are not part of its name.
            found[-1].rows.append([cell.strip() for cell in line.strip("│").split("│")])
    return found


def number(cell: str) -> float | None:
    """Returns the first number of a cell; None if it has none."""
    match = _NUMBER.search(cell)
    return None if match is None else float(match[0].replace(",", ""))
