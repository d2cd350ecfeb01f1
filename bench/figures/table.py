"""The result of a run: a table for people, a JSON document for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from .conditions import Conditions
from .figure import Result, State, Want, all_reached

_STYLES = {State.REACHED: "green", State.MISSED: "red", State.UNMEASURED: "red"}


COLUMNS = ("figure", "beside", "ours", "limit", "ratio", "wanted", "reached")
WIDTH = 190
"""The width of a line if the output is not a terminal: a row is one line then."""


def show(results: Sequence[Result], conditions: Conditions, console: Console, *, quick: bool = False) -> None:
    """Prints the table, and below it the notes of the figures."""
    console.print(conditions.line)
    if quick:
        console.print("QUICK: too little was measured for figures that say anything.")
    table = Table(title="Every figure beside its limit: medians over the rounds, and how far the farthest round is from them")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in ("figure", "beside", "reached") else "right")
    for result in results:
        figure, unit = result.figure, result.figure.unit
        style = _STYLES.get(result.state, "")
        table.add_row(
            figure.what,
            figure.beside,
            told(result.measured.ours, result.ours, unit),
            told(result.measured.limit, result.limit, unit),
            told(result.ratios, _ratio(result), ""),
            wanted(figure.want, unit),
            f"[{style}]{result.state.value}[/]" if style else result.state.value,
        )
    console.print(table)
    for result in results:
        remark = "; ".join(filter(None, (result.measured.missing, result.measured.note)))
        if remark:
            console.print(f"{result.figure.what}: {remark}", markup=False)


def told(values: Sequence[float], median: float | None, unit: str) -> str:
    """Returns a median, and how far the farthest round is from it, as text."""
    if median is None:
        return ""
    text = f"{number(median)} {unit}".strip()
    if len(values) < 2 or not median:
        return text
    return f"{text} \N{PLUS-MINUS SIGN}{max(abs(value - median) for value in values) / abs(median):.0%}"


def number(value: float) -> str:
    """Returns a number with its significant digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def wanted(want: Want, unit: str) -> str:
    """Returns the target of a figure, as text."""
    if want.bound is None:
        return ""
    sign = "<=" if want.at_least is None else ">="
    return f"{sign} {want.bound:g}" if want.of_limit else f"{sign} {want.bound:,g} {unit}"


def _ratio(result: Result) -> float | None:
    values = sorted(result.ratios)
    return None if not values else (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def as_json(results: Sequence[Result], conditions: Conditions, *, quick: bool = False) -> str:
    """Returns one JSON document, for programs."""
    return json.dumps(
        {
            "conditions": {**conditions._asdict(), "quiet": conditions.quiet, "quick": quick},
            "all_reached": all_reached(results),
            "figures": [_document(result) for result in results],
        },
        indent=2,
    )


def _document(result: Result) -> dict[str, object]:
    figure, measured = result.figure, result.measured
    return {
        "name": figure.name,
        "what": figure.what,
        "beside": figure.beside,
        "unit": figure.unit,
        "ours": result.ours,
        "limit": result.limit,
        "ratio": _ratio(result),
        "wanted": figure.want._asdict() if figure.want.bound is not None else None,
        "reach": result.reach,
        "state": result.state.name.lower(),
        "or_else": figure.or_else,
        "rounds": {"ours": list(measured.ours), "limit": list(measured.limit)},
        "note": measured.note,
        "missing": measured.missing,
    }
