"""The plots: which block of the page is drawn, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.blocks import bodies, with_body
from topicpolicies_spark.plots import PALETTE, Bar, Line, bars, lines

from .tables import Table, number, tables

FOLDER = "plots"
"""The folder of the plots, beside the page."""
_MISSED, _REACHED = PALETTE[1:3]


class Plot(NamedTuple):
    """One plot, of the first table of a command's block that has these columns."""

    file: str
    command: str
    title: str
    columns: tuple[str, ...]
    draw: Callable[[str, Table], str]


def _reached(title: str, table: Table) -> str:
    rows = []
    for name, ours, ratio, wanted, state in zip(*map(table.column, ("figure", "ours", "ratio", "wanted", "reached")), strict=True):
        told = ours if wanted.split()[2:] else ratio  # a bound with a unit applies to our own figure, not to the ratio
        bound, value = number(wanted), number(told)
        if bound is None:
            continue
        if not bound or not value or state == "not measured":
            rows.append(Bar(name, [], "not measured"))
        else:
            reach = value / bound if wanted.startswith(">=") else bound / value
            median, _, _ = told.partition(" \N{PLUS-MINUS SIGN}")
            rows.append(Bar(name, [(reach, _REACHED if state == "reached" else _MISSED)], f"{median} ({wanted})"))
    return bars(title, rows, target="what is wanted")


def _over(x: str, y: str, names: Mapping[str, str]) -> Callable[[str, Table], str]:
    """Returns a function that draws curves of some columns over another one."""

    def draw(title: str, table: Table) -> str:
        return _curves(title, x, y, {name: _points(table.column(x), table.column(column)) for column, name in names.items()})

    return draw


def _curves(title: str, x: str, y: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Draws curves over logarithmic axes; the labels of the horizontal one are where points are."""
    curves = [
        Line(name, points, PALETTE[number % len(PALETTE)], dashed=number >= len(PALETTE))
        for number, (name, points) in enumerate(series.items())
    ]
    ticks = {at: _short(at) for at in sorted({at for points in series.values() for at, _ in points})}
    return lines(title, curves, x, y, log_x=True, log_y=True, x_ticks=ticks)


def _short(value: float) -> str:
    return f"{value / 1e6:g}M" if value >= 1e6 else f"{value / 1e3:g}k" if value >= 1e3 else f"{value:g}"


def _points(xs: list[str], ys: list[str]) -> list[tuple[float, float]]:
    both = [(number(x), number(y)) for x, y in zip(xs, ys, strict=True)]
    return [(x, y) for x, y in both if x and y]


def _in_flight(title: str, table: Table) -> str:
    series: dict[str, list[tuple[float, float]]] = {}
    for whom, topics, many, rate in zip(*map(table.column, ("whom", "topics", "in flight", "calls/s")), strict=True):
        name = f"{whom}, {topics} topic{'s' if topics != '1' else ''}" if topics else whom
        series.setdefault(name, []).extend(_points([many], [rate]))
    return _curves(title, "calls in flight", "calls a second", series)


def _by_keys(title: str, table: Table) -> str:
    sizes = table.columns[1:]
    series = {row[0]: _points(sizes, row[1:]) for row in table.rows}
    return _curves(title, "keys of the namespace", "microseconds", series)


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


def drawings(document: str) -> dict[str, str]:
    """Returns the plots of a page by file; none for a block that was not measured yet."""
    found = {}
    for plot in PLOTS:
        table = _table(plot, document)
        if table is not None:
            found[plot.file] = plot.draw(plot.title, table)
    return found


def linked(document: str) -> str:
    """Returns the page with each plot that can be drawn placed behind the figures that it shows."""
    for plot in PLOTS:
        link = f"![{plot.title}]({FOLDER}/{plot.file})\n"
        if _table(plot, document) is not None and link not in document:
            document = with_body(document, plot.command, f"{bodies(document)[plot.command]}\n{link}")
    return document


def write(path: Path) -> None:
    """Draws all plots of a page, and puts them into it; removes plots without figures."""
    document = path.read_text()
    folder = path.parent / FOLDER
    made = drawings(document)
    if made:
        folder.mkdir(exist_ok=True)
    for old in folder.glob("*.svg"):
        if old.name not in made:
            old.unlink()
    for file, text in made.items():
        (folder / file).write_text(text)
    path.write_text(linked(document))


def stale(path: Path) -> list[str]:
    """Returns the plots that differ from the page's figures, or have none; and the page, if it does not show a plot."""
    document, folder = path.read_text(), path.parent / FOLDER
    made = drawings(document)
    there = {each.name: each.read_text() for each in folder.glob("*.svg")}
    differing = [file for file in sorted(made.keys() | there.keys()) if made.get(file) != there.get(file)]
    return differing + ([path.name] if linked(document) != document else [])


def _table(plot: Plot, document: str) -> Table | None:
    found = tables(bodies(document).get(plot.command, ""))
    return next((table for table in found if table.has(*plot.columns) and table.rows), None)
