"""What the doctor found, for people and for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from ..showing.rendering import printable
from .checks import Level, Result

_MARKS = {Level.OK: "√", Level.WARNING: "‼", Level.FAILED: "\u00d7", Level.SKIPPED: "-"}
_ASCII = {Level.OK: "[ok]", Level.WARNING: "[warning]", Level.FAILED: "[failed]", Level.SKIPPED: "[skipped]"}
WIDTH = 80


def lines(result: Result, *, marks: bool = True) -> Iterator[str]:
    """A result in lines that fit a terminal of 80 columns; ``marks``: whether its characters can be shown."""
    mark = (_MARKS if marks else _ASCII)[result.finding.level]
    told = f": {result.finding.told}" if result.finding.told else ""
    yield from _wrapped(f"{mark} ", f"{result.check.holds}{told}")
    if result.remedy:
        yield from _wrapped("    hint: ", result.remedy)
        yield from _wrapped("    why:  ", result.check.why)


def _wrapped(first: str, text: str) -> list[str]:
    return textwrap.wrap(printable(text), WIDTH - 1, initial_indent=first, subsequent_indent=" " * len(first)) or [first.rstrip()]


def heading(group: str) -> str:
    """What stands above a group."""
    return f"{group}\n{'-' * len(group)}"


def count(results: Sequence[Result], level: Level) -> int:
    """How many findings are of a level."""
    return sum(result.finding.level is level for result in results)


def summary(results: Sequence[Result]) -> str:
    """All of it in a sentence."""
    bad, warned, left = (count(results, level) for level in (Level.FAILED, Level.WARNING, Level.SKIPPED))
    return f"{len(results)} checks: {bad} failed, {warned} warnings, {left} not looked at."


def of_results(results: Sequence[Result], left_over: str = "") -> dict[str, Any]:
    """All of it as JSON."""
    told = [
        {
            "check": result.check.name,
            "group": result.check.group,
            "level": result.finding.level.value,
            "holds": result.check.holds,
            "told": result.finding.told,
            "remedy": result.remedy,
            "why": result.check.why,
            "seconds": round(result.seconds, 3),
        }
        for result in results
    ]
    counts = {level.value: count(results, level) for level in Level}
    return {"well": counts["failed"] == 0, "counts": counts, "checks": told, **({"left_over": left_over} if left_over else {})}
