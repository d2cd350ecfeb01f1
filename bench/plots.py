"""The plots of ``docs/benchmarks.md``, drawn from the tables on that page, so that the two never disagree.

python3 dev.py bench plots              draws them anew, and puts them behind the figures that they show
python3 dev.py bench plots --check      lists those that differ from the page
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.blocks import DOCUMENT, bodies, with_body
from topicpolicies_spark.plots import PALETTE, Bar, Line, bars, lines

FOLDER = "plots"
"""The folder of the plots, beside the page."""
_MISSED, _REACHED = PALETTE[1:3]
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


Table = Sequence[Mapping[str, str]]
"""The rows of a table that a command printed, as text by column."""


class Plot(NamedTuple):
    """One plot, of the first table of a command's block that has these columns."""

    file: str
    command: str
    title: str
    columns: tuple[str, ...]
    draw: Callable[[str, Table], str]


def _reached(title: str, table: Table) -> str:
    rows = []
    for row in table:
        wanted = row["wanted"]
        told = row["ours" if wanted.split()[2:] else "ratio"]  # a bound with a unit applies to our own figure, not to the ratio
        bound, value = _number(wanted), _number(told)
        if bound is None:
            continue
        if not bound or not value or row["reached"] == "not measured":
            rows.append(Bar(row["figure"], [], "not measured"))
        else:
            reach = value / bound if wanted.startswith(">=") else bound / value
            median, _, _ = told.partition(" \N{PLUS-MINUS SIGN}")
            rows.append(Bar(row["figure"], [(reach, _REACHED if row["reached"] == "reached" else _MISSED)], f"{median} ({wanted})"))
    return bars(title, rows, target="what is wanted")


def _over(x: str, y: str, names: Mapping[str, str]) -> Callable[[str, Table], str]:
    """Returns a function that draws curves of some columns over another one."""
    return lambda title, table: _curves(title, x, y, ((name, row[x], row[column]) for column, name in names.items() for row in table))


def _in_flight(title: str, table: Table) -> str:
    def name(whom: str, topics: str) -> str:
        return f"{whom}, {topics} topic{'s' if topics != '1' else ''}" if topics else whom

    points = ((name(row["whom"], row["topics"]), row["in flight"], row["calls/s"]) for row in table)
    return _curves(title, "calls in flight", "calls a second", points)


def _by_keys(title: str, table: Table) -> str:
    points = ((row["what"], keys, cell) for row in table for keys, cell in row.items() if keys != "what")
    return _curves(title, "keys of the namespace", "microseconds", points)


def _curves(title: str, x_title: str, y_title: str, points: Iterable[tuple[str, str, str]]) -> str:
    """Draws curves of the names, x and y of points; cells without a number are none."""
    series: dict[str, list[tuple[float, float]]] = {}
    for name, *cells in points:
        x, y = map(_number, cells)
        if x and y:
            series.setdefault(name, []).append((x, y))
    many = len(PALETTE)
    curves = [Line(name, found, PALETTE[at % many], dashed=at >= many) for at, (name, found) in enumerate(series.items())]
    return lines(title, curves, x_title, y_title, "log", "log")


PLOTS = (
    Plot(
        "figures.svg",
        "python3 dev.py bench figures",
        "How much of what is wanted was reached",
        ("figure", "ours", "ratio", "wanted", "reached"),
        _reached,
    ),
    Plot(
        "in-flight.svg", "python3 dev.py bench", "Calls a second, by how many are in flight", ("whom", "in flight", "calls/s"), _in_flight
    ),
    Plot(
        "batching.svg",
        "python3 dev.py bench batching",
        "Processor time of the server for an update, by updates a call",
        ("a call", "echo us", "updates us"),
        _over("a call", "microseconds", {"updates us": "an update", "echo us": "the echo of one"}),
    ),
    Plot(
        "deliveries.svg",
        "python3 dev.py bench deliveries",
        "Deliveries a second, by watchers",
        ("watchers", "told /s", "broadcast /s"),
        _over("watchers", "deliveries a second", {"told /s": "changes", "broadcast /s": "a raw broadcast of the same bytes"}),
    ),
    Plot("keys.svg", "python3 dev.py bench keys", "What reading costs, by the number of keys", ("what",), _by_keys),
)


def drawn(page: Path) -> dict[Path, str]:
    """Returns what a page and its plots should be: each plot that there are figures for, and the page with the plots behind the figures."""
    document, plots = page.read_text(), {}
    for plot in PLOTS:
        found = _tables(bodies(document).get(plot.command, ""))
        table = next((table for table in found if table and table[0].keys() >= set(plot.columns)), None)
        if table is not None:
            plots[page.parent / FOLDER / plot.file] = plot.draw(plot.title, table)
            link = f"![{plot.title}]({FOLDER}/{plot.file})\n"
            if link not in document:
                document = with_body(document, plot.command, f"{bodies(document)[plot.command]}\n{link}")
    return {page: document, **plots}


def write(page: Path) -> None:
    """Draws all plots of a page, and puts them into it; removes plots without figures."""
    made = drawn(page)
    for path, text in made.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    for old in {*(page.parent / FOLDER).glob("*.svg")} - made.keys():
        old.unlink()


def stale(page: Path) -> list[str]:
    """Returns the names of plots that differ from the page's figures or have none, and of the page if it does not show a plot."""
    made = drawn(page)
    there = {page, *(page.parent / FOLDER).glob("*.svg")}
    return sorted(path.name for path in made.keys() | there if path not in there or path.read_text() != made.get(path))


def _tables(text: str) -> list[list[dict[str, str]]]:
    """Returns all tables of a text, in order. A table's head is between heavy lines, its rows between light ones."""
    found: list[list[dict[str, str]]] = []
    columns: list[str] = []
    for line in text.splitlines():
        if line.startswith("┃"):
            columns = [cell.strip() for cell in line.strip("┃").split("┃")]
            found.append([])
        elif line.startswith("│") and found:
            # Leading spaces of the first cell mark a row that belongs to the one before; they are not part of its name.
            found[-1].append(dict(zip(columns, (cell.strip() for cell in line.strip("│").split("│")), strict=True)))
    return found


def _number(cell: str) -> float | None:
    """Returns the first number of a cell; None if it has none."""
    match = _NUMBER.search(cell)
    return None if match is None else float(match[0].replace(",", ""))


def main() -> int:
    """Draws, or checks. Returns 1 if a plot differs from the page."""
    parser = argparse.ArgumentParser(
        prog="python3 dev.py bench plots", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="draw nothing")
    options = parser.parse_args()
    if not options.check:
        write(DOCUMENT)
    left = stale(DOCUMENT)
    print("\n".join(f"{name} is not what the page says" for name in left) or "All plots are what the page says.")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
