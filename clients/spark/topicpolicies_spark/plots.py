"""Plots as SVG, drawn by matplotlib: the same text for the same figures, without scripts, fonts or other files."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import NamedTuple

from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from topicpolicies_server.escaping import printable

PALETTE = [to_hex(colormaps["tab10"](number)) for number in range(10) if number != 7]
"""The colours of what is named; number 7 is a grey."""
OTHERS = "#a0a0a0"
"""The colour of all that has no colour of its own."""
_WIDTH, _HEIGHT = 9.6, 3.6
"""In inches."""
_LONGEST = 34
_MOST_MARKERS = 40
"""A line of one point, or of a few far apart, is hardly seen without."""
_SETTINGS: dict[str, object] = {
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "font.sans-serif": ["DejaVu Sans"],  # which comes with matplotlib; a reader without it sees another one
    "font.size": 9,
    "grid.color": "#e4e4e4",
    "legend.frameon": False,
    "svg.fonttype": "none",
    "text.parse_math": False,  # a name may contain dollars
}


class Bar(NamedTuple):
    """One bar, of one or more parts: the length and the colour of each."""

    name: str
    parts: Sequence[tuple[float, str]]
    text: str


class Layer(NamedTuple):
    """What one name has of columns that consist of several."""

    name: str
    colour: str
    counts: list[int]


class Line(NamedTuple):
    """One curve."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str
    dashed: bool = False


def bars(title: str, rows: Sequence[Bar], legend: Sequence[tuple[str, str]] = (), target: str = "") -> str:
    """Draws horizontal bars with their texts.

    Args:
        title: what the bars show.
        rows: the bars, from the top.
        legend: names, and their colours.
        target: what the length 1 means; there is a line at it, and longer bars are cut at 2.
    """
    height = max(len(rows), len(legend))
    most = 2.0 if target else max((sum(length for length, _ in row.parts) for row in rows), default=0) or 1

    def draw(axes: Axes) -> None:
        for number, row in enumerate(rows):
            left = 0.0
            for length, colour in row.parts:
                if length:
                    axes.barh(number, min(length, most - left), left=left, height=0.7, color=colour)
                left = min(left + length, most)
            axes.annotate(row.text, (most if target else left, number), (4, 0), textcoords="offset points", va="center")
        axes.set(xlim=(0, most), ylim=(height - 0.4, -0.6))
        axes.set_yticks(range(len(rows)), [_short(row.name) if not target else row.name for row in rows])
        axes.tick_params(length=0)
        axes.spines[["bottom", "left"]].set_visible(False)
        axes.xaxis.set_major_locator(FixedLocator([0, 0.5, 1, 1.5, 2] if target else []))
        if target:
            axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: target if x == 1 else f"{x:g} or more" if x == most else f"{x:g}"))
            axes.axvline(1, color="black", linestyle="--", linewidth=1)
        _legend(axes, [(name, Patch(color=colour)) for name, colour in legend])

    return _svg(title, 0.6 + 0.26 * height, draw) if rows else ""


def lines(
    title: str,
    curves: Sequence[Line],
    x_title: str,
    y_title: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    x_ticks: Mapping[float, str] | None = None,
) -> str:
    """Draws curves over common axes. Returns an empty string if there is no point to draw; a logarithmic axis has none for 0.

    Args:
        title: what the curves show.
        curves: the curves.
        x_title: the title of the horizontal axis.
        y_title: the title of the vertical axis.
        log_x: whether the horizontal axis is logarithmic.
        log_y: whether the vertical axis is; if not, it begins with 0.
        x_ticks: the labels of the horizontal axis; by default round numbers.
    """
    shown = [each._replace(points=[(x, y) for x, y in each.points if y > 0 or not log_y]) for each in curves]
    heights = [y for each in shown for _, y in each.points]

    def draw(axes: Axes) -> None:
        drawn = []
        for each in shown:
            style = ("o" if len(each.points) <= _MOST_MARKERS else "") + ("--" if each.dashed else "-")
            drawn += axes.plot(*zip(*each.points, strict=True), style, color=each.colour, markersize=3, clip_on=False)
        axes.grid(axis="y")
        axes.set(xlabel=x_title, ylabel=y_title, xscale="log" if log_x else "linear", yscale="log" if log_y else "linear")
        if x_ticks is not None:
            axes.set_xticks(list(x_ticks), list(x_ticks.values()))
            axes.xaxis.set_minor_locator(NullLocator())
        if log_y:
            low, high = _round(min(heights), max(heights))
            axes.set_ylim(low, high)
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 1_000 else (1,)))
            axes.yaxis.set_minor_locator(NullLocator())
        else:
            axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.9g}"))
        _legend(axes, [(each.name, line) for each, line in zip(shown, drawn, strict=True)])

    shown = [each for each in shown if each.points]
    return _svg(title, _HEIGHT, draw) if shown else ""


def over_time(title: str, edges: Sequence[datetime], layers: Sequence[Layer]) -> str:
    """Draws counts in periods of time as columns.

    Args:
        title: what is counted.
        edges: when each period begins, and when the last one ends.
        layers: the counts of each name, one for each period; the first one is at the bottom.
    """

    def draw(axes: Axes) -> None:
        at = [float(date2num(each)) for each in edges]
        bottom = [0] * (len(edges) - 1)
        for layer in layers:
            top = [low + count for low, count in zip(bottom, layer.counts, strict=True)]
            axes.stairs(top, at, baseline=bottom, fill=True, color=layer.colour)
            bottom = top
        locator = AutoDateLocator(tz=UTC)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
        axes.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.9g}"))
        axes.grid(axis="y")
        axes.set(xlim=(at[0], at[-1]), ylim=(0, None), xlabel="UTC", ylabel="changes")
        _legend(axes, [(layer.name, Patch(color=layer.colour)) for layer in layers])

    return _svg(title, _HEIGHT, draw)


def _svg(title: str, height: float, draw: Callable[[Axes], None]) -> str:
    file = io.StringIO()
    with rc_context({**_SETTINGS, "svg.hashsalt": title}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # the reader's fonts count, not those that texts are measured with
        figure = Figure((_WIDTH, height), layout="constrained")
        axes = figure.subplots()
        axes.set_title(title)
        draw(axes)
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    drawn = re.sub(r'<g id="[^"]*"', "<g", file.getvalue())  # a page has several plots, and ids must be unique
    return f'<svg role="img" aria-label="{escape(title)}"{drawn.partition("<svg")[2]}'


def _legend(axes: Axes, entries: Sequence[tuple[str, Patch | Line2D]]) -> None:
    if entries:
        labels = [_short(name) for name, _ in entries]
        axes.figure.legend([handle for _, handle in entries], labels, loc="outside right upper")


def _short(name: str) -> str:
    """Returns a name for a label; of a long one the beginning and the end, for many names differ only at one of them."""
    text = printable(name)
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]}\N{HORIZONTAL ELLIPSIS}{text[-half:]}"


def _round(low: float, high: float) -> tuple[float, float]:
    """Returns the numbers around a range that are 1, 2 or 5 times a power of ten."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = [step * 10.0**power for power in powers for step in (1, 2, 5)]
    return max(each for each in steps if each <= low), min(each for each in steps if each > high)
