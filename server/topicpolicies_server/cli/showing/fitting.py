"""Fits settings to the width of a terminal: tables whose paths are broken only at dots, and documents in one short line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.table import Table
from rich.text import Text

from topicpolicies.masks import Path
from topicpolicies.v1.policies_pb2 import TopicPolicies

from .paths import printable_path
from .rendering import lines

WIDEST_LINE = 100
"""The most columns that a document's settings have in one line, on any terminal."""
_WIDEST_VALUE = 24
"""The most characters that a value has in such a line."""
_INDENT = "  "
_BESIDE_A_CELL = 3
"""The columns that a cell takes beside its text: one border, and a blank at each side. The table has one more border."""
_LEAST_CELL = 10
_WIDEST_CHARACTER = 2
"""The columns of a character of Chinese, for example. Room is counted in columns, not in characters."""


class Row(NamedTuple):
    """A setting in a table."""

    path: Path
    cells: Sequence[str]
    """The columns behind the path."""
    sign: str | None = None
    """The column before the path; None: there is none."""
    style: str = ""


def settings_rows(headers: Sequence[str], rows: Iterable[Row], terminal: Console) -> Table:
    """Returns a table of settings. Where paths are too long for the console, their common part stands once, above them.

    Args:
        headers: the headers of the paths and of the cells; the column of signs has none.
        rows: the settings.
        terminal: the console on which the table will be printed.
    """
    all_rows = list(rows)
    signed = any(row.sign is not None for row in all_rows)
    room = terminal.width - 1 - _BESIDE_A_CELL - (_BESIDE_A_CELL + 1) * signed - sum(_widths(headers[1:], all_rows, terminal.width))
    table = Table(show_header=True)
    for header in [""] * signed + [headers[0]]:
        table.add_column(header, no_wrap=True)
    for header in headers[1:]:
        table.add_column(header, overflow="fold")
    above: list[str] = []
    for row in all_rows:
        *heading, last = _broken(row.path, room)
        if heading and heading == above:
            path = [last]
        elif cell_len(printable_path(row.path)) <= room:
            path, above = [printable_path(row.path)], []
        else:
            path, above = [*heading, last], heading
        blank = "\n" * (len(path) - 1)
        before = [] if row.sign is None else [Text(blank + row.sign)]
        table.add_row(*before, Text("\n".join(path)), *(Text(blank + cell, overflow="fold") for cell in row.cells), style=row.style)
    return table


def _widths(headers: Sequence[str], rows: Sequence[Row], width: int) -> list[int]:
    """Returns the widths of the columns behind the paths: as wide as their cells, but together about half of ``width`` at most."""
    most = max(_LEAST_CELL, width // 2 // max(1, len(headers)) - _BESIDE_A_CELL)
    return [
        min(most, max(map(cell_len, (header, *(row.cells[number] for row in rows))))) + _BESIDE_A_CELL
        for number, header in enumerate(headers)
    ]


def _broken(path: Path, room: int) -> list[str]:
    """Returns a path in lines, with its last segment alone in the last line. A segment that is longer than ``room`` is broken anywhere."""
    whole = [printable_path(path[:length]) for length in range(1, len(path) + 1)]
    segments = whole[:1] + [longer.removeprefix(shorter) for shorter, longer in itertools.pairwise(whole)]
    found = [segments[0]]
    for at, segment in enumerate(segments[1:], 1):
        last = at == len(segments) - 1
        if not last and cell_len(found[-1] + segment) <= room:
            found[-1] += segment
        else:
            found.append(_INDENT + segment)
    return [part for line in found for part in chop_cells(line, max(_WIDEST_CHARACTER, room))]


def broken(text: str, width: int) -> list[str]:
    """Returns a text in lines of ``width`` columns: broken at blanks, a word that is too long before a dot, or else anywhere."""
    found = [""]
    for word in re.split(r"(?<= )(?=[^ ])", text):
        for piece in [word] if cell_len(word.rstrip()) <= width else re.split(r"(?=\.[^\d.])", word):
            if found[-1] and cell_len(found[-1] + piece.rstrip()) > width:
                found.append("")
            rest = piece
            while cell_len(rest.rstrip()) > width:
                fitting = next((at for at in range(len(rest), 1, -1) if cell_len(rest[:at]) <= width), 1)
                found[-1:] = [rest[:fitting], ""]
                rest = rest[fitting:]
            found[-1] += rest
    return [line.rstrip() for line in found]


def brief(policies: TopicPolicies, room: int) -> str:
    """Returns a document in one short line: its first settings, and how many more there are."""
    room = min(room, WIDEST_LINE)
    parts = [f"{printable_path(path)}={_short(value)}" for path, value in lines(policies)]
    if not parts:
        return "no settings"
    for count in range(len(parts), 0, -1):
        more = f" and {len(parts) - count} more" if count < len(parts) else ""
        told = ", ".join(parts[:count]) + more
        if cell_len(told) <= room:
            return told
    return f"{len(parts)} setting{'' if len(parts) == 1 else 's'}"


def _short(value: str) -> str:
    return value if len(value) <= _WIDEST_VALUE else f"{value[: _WIDEST_VALUE - 1]}…"
