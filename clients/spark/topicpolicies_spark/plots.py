"""Plots as inline SVG: lines over a linear or logarithmic axis, and bars. They need no scripts, fonts or other files."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

_WIDTH, _HEIGHT = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 12, 44
COLOURS = ("#2a6fbb", "#c8553d", "#3a8f5c", "#8a5fb0", "#b8860b", "#4a4a4a")


class Line(NamedTuple):
    """One curve."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


class Bar(NamedTuple):
    """One bar."""

    name: str
    value: float
    text: str


def lines(
    curves: Sequence[Line], x_title: str, y_title: str, *, log_y: bool = False, x_labels: Callable[[float], str] | None = None
) -> str:
    """Draws curves over common axes; returns an empty string if there is no point to draw."""
    points = [point for curve in curves for point in curve.points]
    if not points:
        return ""
    low_x, high_x = min(x for x, _ in points), max(x for x, _ in points)
    ys = [y for _, y in points if y > 0 or not log_y]
    if not ys:
        return ""
    ticks = _decades(min(ys), max(ys)) if log_y else _steps(0, max(*ys, 1e-9))
    bottom, top = ticks[0], ticks[-1]

    def x_at(x: float) -> float:
        return _LEFT + (x - low_x) / ((high_x - low_x) or 1) * (_WIDTH - _LEFT - _RIGHT)

    def y_at(y: float) -> float:
        share = (math.log10(max(y, bottom)) - math.log10(bottom)) / ((math.log10(top) - math.log10(bottom)) or 1) if log_y else y / top
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    parts = [_grid(y_at(tick), f"{tick:,g}") for tick in ticks]
    for tick in _steps(low_x, high_x) if x_labels is None else sorted({x for x, _ in points}):
        if low_x <= tick <= high_x:
            label = x_labels(tick) if x_labels is not None else f"{tick:,g}"
            parts.append(f'<text x="{x_at(tick):.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{escape(label)}</text>')
    for number, curve in enumerate(curves):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x_at(x):.1f},{y_at(y):.1f}" for x, y in curve.points)
        dash = ' stroke-dasharray="5 4"' if curve.dashed else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        if len(curve.points) == 1:  # a line of one point is not seen
            x, y = curve.points[0]
            parts.append(f'<circle cx="{x_at(x):.1f}" cy="{y_at(y):.1f}" r="4" fill="{colour}"/>')
    return _svg(parts, x_title, y_title) + _legend([curve.name for curve in curves])


def bars(values: Sequence[Bar], title: str) -> str:
    """Draws horizontal bars with their texts."""
    most = max((bar.value for bar in values), default=0) or 1
    height = 30
    parts = []
    for number, bar in enumerate(values):
        y = number * height + 8
        width = bar.value / most * (_WIDTH - 420)
        parts.append(f'<text x="220" y="{y + 13}" text-anchor="end">{escape(bar.name)}</text>')
        parts.append(f'<rect x="230" y="{y}" width="{width:.1f}" height="18" fill="{COLOURS[number % len(COLOURS)]}"/>')
        parts.append(f'<text x="{236 + width:.1f}" y="{y + 13}">{escape(bar.text)}</text>')
    size = len(values) * height + 12
    return f'<svg viewBox="0 0 {_WIDTH} {size}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'


def _svg(parts: list[str], x_title: str, y_title: str) -> str:
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    titles = (
        f'<text x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(x_title)}</text>'
        f'<text transform="translate(14 {(_HEIGHT - _BOTTOM) / 2}) rotate(-90)" text-anchor="middle">{escape(y_title)}</text>'
    )
    label = escape(f"{y_title} over {x_title}")
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}{titles}</svg>'


def _grid(y: float, label: str) -> str:
    return (
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>'
    )


def _legend(names: Sequence[str]) -> str:
    entries = "".join(
        f'<span><i style="background:{COLOURS[number % len(COLOURS)]}"></i>{escape(name)}</span>' for number, name in enumerate(names)
    )
    return f'<p class="legend">{entries}</p>'


def _steps(low: float, high: float) -> list[float]:
    """Returns round numbers at equal distances, from at most ``low`` to at least ``high``."""
    span = (high - low) or abs(high) or 1.0
    size = 10 ** math.floor(math.log10(span / 5))
    step = next(size * factor for factor in (1, 2, 5, 10) if span / (size * factor) <= 6)
    first = math.floor(low / step)
    return [step * number for number in range(first, math.ceil(high / step - 1e-9) + 1)]


def _decades(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]
