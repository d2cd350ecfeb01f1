"""Columns without frames, on a terminal folded to its width."""

from __future__ import annotations

import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

import typer

from ..declared.rendering import UNSET, Difference, printable_path
from .globals import WIDE

_COLOURS = {"+": "green", "-": "red", "~": "yellow"}


def columns(rows: Iterable[Sequence[str]], room: int = 0) -> Iterator[str]:
    """Yields rows as text in which the cells of a column begin alike.

    ``room``: the width to which the last cell is folded; below the others, if those take more than half of it. 0: nothing is folded.
    """
    whole = list(rows)
    widths = [max(map(_width, cells)) for cells in zip(*(row[:-1] for row in whole), strict=True)]
    for row in whole:
        first = "".join(cell + " " * (width - _width(cell) + 2) for cell, width in zip(row[:-1], widths, strict=True))
        indent = _width(first)
        if not room or indent + _width(row[-1]) <= room:
            yield (first + row[-1]).rstrip()
            continue
        below = indent > room // 2
        margin = " " * (4 if below else indent)
        folded = textwrap.wrap(row[-1], max(1, room - len(margin)), break_long_words=False, break_on_hyphens=False)
        yield f"\n{margin}".join([first.rstrip(), *folded] if below else [(first + "".join(folded[:1])).rstrip(), *folded[1:]])


def show_columns(rows: Iterable[Sequence[str]]) -> None:
    """Prints rows in columns, on a terminal folded to its width."""
    for line in columns(rows, terminal_width()):
        typer.echo(line)


def show_folded(line: str) -> None:
    """Prints a line, on a terminal folded to its width; the lines below the first are indented."""
    room = terminal_width()
    typer.echo(textwrap.fill(line, room, subsequent_indent=" " * 6, break_long_words=False, break_on_hyphens=False) if room else line)


def terminal_width() -> int:
    """Returns the width of the terminal to which text is printed; 0: it is none, or nothing is to be folded."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() and not WIDE.get() else 0


def _width(text: str) -> int:
    """Returns how many columns a text takes: a character of Chinese, for example, takes two."""
    return sum(0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF") for each in text)


def show_differences(differences: Sequence[Difference]) -> None:
    """Prints differences, one line each, with the values before and after; in colours on a terminal."""
    rows = [(each.sign, printable_path(each.path), f"{each.before or UNSET} -> {each.after or UNSET}") for each in differences]
    for line in columns(rows, terminal_width()):
        typer.secho(line, fg=_COLOURS[line[0]])
