"""Plots as SVG, drawn by matplotlib: the same text for the same figures, without scripts, fonts or other files."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import accumulate
from typing import NamedTuple

from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from topicpolicies_server.escaping import printable

from .page import Html

PALETTE = [to_hex(colormaps["tab10"](number)) for number in range(10) if number != 7]
"""The colours of what is named; number 7 is a grey."""
OTHERS = "#a0a0a0"
"""The colour of all that has no colour of its own."""
_LONGEST = 34
_settings = rc_context(
    {
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
)


class Bar(NamedTuple):
    """One bar, of one or more parts: the length and the colour of each."""

    name: str
    parts: Sequence[tuple[float, str]]
    text: str


@_settings
def bars(title: str, rows: Sequence[Bar], legend: Sequence[tuple[str, str]] = (), target: str = "") -> Html:
    """Draws horizontal bars, the first one at the top, and a legend of names and their colours. Returns nothing if there are no bars.

    ``target`` says what the length 1 means: a line is drawn there, and longer bars are cut at 2.
    """
    if not rows:
        return Html()
    height = max(len(rows), 3 * len(legend) // 4)
    axes = _axes(title, 0.6 + 0.26 * height)
    most = 2.0 if target else max(sum(length for length, _ in row.parts) for row in rows) or 1
    for number, row in enumerate(rows):
        ends = [min(end, most) for end in accumulate((length for length, _ in row.parts), initial=0.0)]
        for left, right, (_, colour) in zip(ends, ends[1:], row.parts, strict=False):
            if right > left:
                axes.barh(number, right - left, left=left, height=0.7, color=colour)
        axes.annotate(row.text, (most if target else ends[-1], number), (4, 0), textcoords="offset points", va="center")
    axes.set(xlim=(0, most), ylim=(height - 0.4, -0.6))
    axes.set_yticks(range(len(rows)), [row.name if target else _short(row.name) for row in rows])
    axes.set_xticks([0, 0.5, 1, 1.5, 2] if target else [], ["0", "0.5", target, "1.5", "2 or more"] if target else [])
    axes.tick_params(length=0)
    axes.spines[["bottom", "left"]].set_visible(False)
    if target:
        axes.axvline(1, color="black", linestyle="--", linewidth=1)
    return _svg(axes, [(name, Patch(color=colour)) for name, colour in legend])


@_settings
def over_time(title: str, edges: Sequence[datetime], counts: Iterable[Sequence[int]], legend: Sequence[tuple[str, str]]) -> Html:
    """Draws what happened in periods of time as columns.

    Args:
        title: what is counted.
        edges: when each period begins, and when the last one ends.
        counts: the counts of each period, one for each entry of the legend.
        legend: names and their colours, the lowest part of a column first.
    """
    axes = _axes(title)
    at = [float(date2num(each)) for each in edges]
    tops = zip(*(list(accumulate(each, initial=0)) for each in counts), strict=True)
    below = next(tops)
    for (_, colour), top in zip(legend, tops, strict=True):
        axes.stairs(top, at, baseline=below, fill=True, color=colour)
        below = top
    locator = AutoDateLocator(tz=UTC)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
    axes.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.9g}"))
    axes.grid(axis="y")
    axes.set(xlim=(at[0], at[-1]), ylim=(0, None), xlabel="UTC", ylabel="changes")
    return _svg(axes, [(name, Patch(color=colour)) for name, colour in legend])


def _axes(title: str, height: float = 3.6) -> Axes:
    axes = Figure((9.6, height), layout="constrained").subplots()
    axes.set_title(title)
    return axes


def _svg(axes: Axes, legend: Sequence[tuple[str, Patch]]) -> Html:
    figure, title, file = axes.get_figure(root=True), axes.get_title("left"), io.StringIO()
    assert figure is not None
    with rc_context({"svg.hashsalt": title}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # the reader's fonts count, not those that texts are measured with
        if legend:
            figure.legend([handle for _, handle in legend], [_short(name) for name, _ in legend], loc="outside right upper")
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    drawn = re.sub(r'<g id="[^"]*"', "<g", file.getvalue())  # a page has several plots, and ids must be unique
    return Html(f'<svg role="img" aria-label="{escape(title)}"{drawn.partition("<svg")[2]}')


def _short(name: str) -> str:
    """Returns a name for a label; of a long one the beginning and the end, for many names differ only at one of them."""
    text, half = printable(name), _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]}\N{HORIZONTAL ELLIPSIS}{text[-half:]}"
