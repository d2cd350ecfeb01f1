"""Bars and curves as SVG: plain text, the same for the same figures, readable on light and on dark pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH = 860
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 250, 56, 48
_HEIGHT = 380
_ROW = 24
_LABELS = 400
"""The width for the names of bars."""
_COLOURS = (("#0072b2", "#56b4e9"), ("#d55e00", "#ff9e4a"), ("#009e73", "#3ddc97"), ("#b3437e", "#e69fc6"), ("#7a6a00", "#f0e442"))
"""For light pages, and for dark ones; colours that most colour-blind readers can distinguish."""
_DASHES = ("", "7 4", "2 3")
"""The styles of curves if there are more curves than colours."""


class Bar(NamedTuple):
    """One bar."""

    name: str
    value: float | None
    """The value in units of the target; None: there is no value, and ``text`` says why."""
    text: str
    reached: bool = False


def _style() -> str:
    return (
        "<style>text{font:12px system-ui,sans-serif;fill:#24292f}.title{font-size:15px;font-weight:600}.quiet{fill:#57606a}"
        ".grid{stroke:#d0d7de;stroke-width:1}.target{stroke:#24292f;stroke-width:1.5;stroke-dasharray:5 4}"
        f".curve{{fill:none;stroke-width:2}}.lead{{stroke-width:.7}}{_coloured(0)}"
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.quiet{fill:#9da7b3}.grid{stroke:#3d444d}.target{stroke:#e6edf3}"
        f"{_coloured(1)}}}</style>"
    )


def _coloured(page: int) -> str:
    """Returns the colours for light pages (0) or for dark ones (1); without CSS variables, which only browsers support."""
    return "".join(f".curve.c{number}{{stroke:{pair[page]}}}.full.c{number}{{fill:{pair[page]}}}" for number, pair in enumerate(_COLOURS))


def _document(height: int, title: str, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">'
    lines = [head, f"<title>{escape(title)}</title>", _style(), _text(16, 26, title, "title"), *parts, "</svg>"]
    return "\n".join(lines) + "\n"


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    placed = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{named}{placed}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def bars(title: str, rows: Sequence[Bar], target: str) -> str:
    """Draws bars below each other, and a line at the target, which is 1; bars far beyond it are cut at 2.

    Args:
        title: what the bars show.
        rows: the bars, from the top.
        target: the label of the line.
    """
    most = 2.0
    right = WIDTH - 170
    scale = (right - _LABELS) / most
    bottom = _TOP + _ROW * len(rows)
    parts = []
    for tick in (0.0, 0.5, 1.0, 1.5, 2.0):
        x = _LABELS + tick * scale
        parts.append(_line(x, _TOP, x, bottom, "target" if tick == 1 else "grid"))
        parts.append(_text(x, bottom + 18, f"{tick:g}" if tick < most else f"{tick:g} or more", "quiet", "middle"))
    parts.append(_text(_LABELS + scale, _TOP - 8, target, "quiet", "middle"))
    for number, (name, value, text, reached) in enumerate(rows):
        top = _TOP + _ROW * number
        parts.append(_text(_LABELS - 8, top + 16, name, "", "end"))
        length = min(value or 0.0, most) * scale
        if value is not None:
            colour = 2 if reached else 1
            parts.append(f'<rect x="{_LABELS}" y="{top + 5}" width="{length:.1f}" height="{_ROW - 10}" class="bar full c{colour}"/>')
        parts.append(_text(right + 8, top + 16, text, "quiet"))
    return _document(bottom + 34, title, parts)


def curves(title: str, x_name: str, y_name: str, series: Mapping[str, Sequence[tuple[float, float]]], *, from_zero: bool = False) -> str:
    """Draws curves over a logarithmic scale, each with its name at its end.

    Args:
        title: what the curves show.
        x_name: the name of the horizontal scale.
        y_name: the name of the vertical scale, which is logarithmic too.
        series: the points of each curve, all positive.
        from_zero: whether the vertical scale is linear and begins with 0.

    Raises:
        ValueError: there is no point.
    """
    points = [point for each in series.values() for point in each]
    if not points:
        raise ValueError(f"{title}: nothing to draw")
    xs, ys = [x for x, _ in points], [y for _, y in points]
    right, bottom = WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    x_low, x_high = math.log10(min(xs)), math.log10(max(xs))
    y_ticks = _linear_ticks(max(ys)) if from_zero else _ticks(min(ys), max(ys))

    def x_of(value: float) -> float:
        return _LEFT + (math.log10(value) - x_low) / ((x_high - x_low) or 1) * (right - _LEFT)

    def y_of(value: float) -> float:
        low, high, at = y_ticks[0], y_ticks[-1], value
        if not from_zero:
            low, high, at = math.log10(low), math.log10(high), math.log10(value)
        return bottom - (at - low) / (high - low) * (bottom - _TOP)

    parts = [_line(_LEFT, y_of(tick), right, y_of(tick), "grid") for tick in y_ticks]
    parts += [_text(_LEFT - 8, y_of(tick) + 4, _short(tick), "quiet", "end") for tick in y_ticks]
    for tick in sorted(set(xs)):
        parts += [
            _line(x_of(tick), bottom, x_of(tick), bottom + 5, "grid"),
            _text(x_of(tick), bottom + 18, _short(tick), "quiet", "middle"),
        ]
    parts.append(_text((_LEFT + right) / 2, _HEIGHT - 10, x_name, "quiet", "middle"))
    parts.append(_text(16, _TOP - 12, y_name, "quiet"))
    ends = []
    for number, (name, line) in enumerate(series.items()):
        colour, dash = number % len(_COLOURS), _DASHES[number // len(_COLOURS) % len(_DASHES)]
        path = " ".join(f"{'L' if at else 'M'}{x_of(x):.1f} {y_of(y):.1f}" for at, (x, y) in enumerate(line))
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        parts.append(f'<path d="{path}" class="curve c{colour}"{dashed}/>')
        parts += [f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3" class="full c{colour}"/>' for x, y in line]
        ends.append((y_of(line[-1][1]), x_of(line[-1][0]), name, colour))
    parts += _names(ends, right)
    return _document(_HEIGHT, title, parts)


def _names(ends: Sequence[tuple[float, float, str, int]], right: float) -> list[str]:
    """Returns the names of curves at their ends, so that none overlaps another."""
    parts, free = [], 0.0
    for y, x, name, colour in sorted(ends):
        at = max(y, free)
        free = at + 15
        parts.append(f'<path d="M{x + 4:.1f} {y:.1f} L{right + 18:.1f} {at:.1f}" class="curve lead c{colour}"/>')
        parts.append(_text(right + 22, at + 4, name))
    return parts


def _ticks(low: float, high: float) -> list[float]:
    """Returns 1, 2 and 5 times the powers of ten, from below the lowest to above the highest; for a wide range only the powers."""
    begin, end = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1.0,) if end - begin > 3 else (1.0, 2.0, 5.0)
    every = [step * 10.0**power for power in range(begin, end + 1) for step in steps]
    first = max((each for each in every if each <= low), default=every[0])
    last = min((each for each in every if each >= high and each > first), default=every[-1] * 10)
    return [each for each in every if first <= each <= last] if last in every else [*every, last]


def _linear_ticks(high: float) -> list[float]:
    step = 10.0 ** math.floor(math.log10(high))
    step = next(each for each in (step / 5, step / 2, step, 2 * step) if high / each <= 6)
    return [number * step for number in range(math.ceil(high / step) + 1)]


def _short(value: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
