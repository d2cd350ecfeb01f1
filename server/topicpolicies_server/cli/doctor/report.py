"""The results of checks, in lines for people and as JSON for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import typer

from ...escaping import printable
from ..showing.rendering import console
from .checks import Check, Level, Result

_MARKS = {Level.OK: "√", Level.WARNING: "‼", Level.FAILED: "\u00d7", Level.SKIPPED: "-"}
_ASCII = {Level.OK: "[ok]", Level.WARNING: "[warning]", Level.FAILED: "[failed]", Level.SKIPPED: "[skipped]"}
WIDTH = 80


def lines(result: Result, *, marks: bool = True) -> Iterator[str]:
    """Yields a result in lines that fit a terminal of 80 columns; ``marks``: whether the terminal can show the marks of ``_MARKS``."""
    mark = (_MARKS if marks else _ASCII)[result.finding.level]
    told = f": {result.finding.told}" if result.finding.told else ""
    yield from _wrapped(f"{mark} ", f"{result.check.holds}{told}")
    if result.remedy:
        yield from _wrapped("    remedy: ", result.remedy)
        yield from _wrapped("    why:    ", result.check.why)


def left_out(results: Sequence[Result], *, marks: bool = True) -> list[str]:
    """Returns the lines of results that were skipped for the same reason: of one as of any other, of several only their names."""
    if len(results) == 1:
        return list(lines(results[0], marks=marks))
    names = ", ".join(result.check.name for result in results)
    return _wrapped(f"{(_MARKS if marks else _ASCII)[Level.SKIPPED]} ", f"{names}: {results[0].finding.told}")


class Silent:
    """Shows nothing while checks run: for ``--output json``, which is printed at the end."""

    def begins(self, check: Check) -> None:
        """Called when a check begins."""

    def ended(self, result: Result) -> None:
        """Called when a check has ended."""

    def close(self) -> None:
        """Called after the last check."""


class Screen(Silent):
    """Shows each result as it comes; on a terminal also the check that is running."""

    def __init__(self) -> None:
        shown = console()
        self._marks = "utf" in (shown.encoding or "").lower()
        self._status = shown.status("") if shown.is_terminal else None
        self._group = ""
        self._skipped: list[Result] = []
        """Results of one group that were skipped for the same reason, and are not shown yet."""

    def begins(self, check: Check) -> None:
        """Shows the check as running."""
        if self._status is not None:
            self._status.update(f"{textwrap.shorten(printable(check.holds), WIDTH - 10, placeholder='')} ...")
            self._status.start()

    def ended(self, result: Result) -> None:
        """Shows the result, or keeps it, if it was skipped, to be shown with others."""
        skipped = result.finding.level is Level.SKIPPED
        before = self._skipped[0] if self._skipped else None
        if before is not None and not (skipped and result.check.group == self._group and result.finding.told == before.finding.told):
            self._show_skipped()
        if self._status is not None:
            self._status.stop()
        if result.check.group != self._group:
            typer.echo(("\n" if self._group else "") + heading(result.check.group))
            self._group = result.check.group
        if skipped:
            self._skipped.append(result)
            return
        for line in lines(result, marks=self._marks):
            typer.echo(line)

    def close(self) -> None:
        """Shows the results that were kept."""
        self._show_skipped()

    def _show_skipped(self) -> None:
        if self._status is not None:
            self._status.stop()
        if self._skipped:
            for line in left_out(self._skipped, marks=self._marks):
                typer.echo(line)
            self._skipped = []


def _wrapped(first: str, text: str) -> list[str]:
    wrapper = textwrap.TextWrapper(WIDTH - 1, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False)
    return wrapper.wrap(printable(text)) or [first.rstrip()]


def heading(group: str) -> str:
    """Returns the heading of a group."""
    return f"{group}\n{'-' * len(group)}"


def count(results: Sequence[Result], level: Level) -> int:
    """Returns how many findings are of a level."""
    return sum(result.finding.level is level for result in results)


def summary(results: Sequence[Result]) -> str:
    """Returns the numbers of results in a sentence."""
    bad, warned, left = (count(results, level) for level in (Level.FAILED, Level.WARNING, Level.SKIPPED))
    checks, warnings = ("" if number == 1 else "s" for number in (len(results), warned))
    return f"{len(results)} check{checks}: {bad} failed, {warned} warning{warnings}, {left} skipped."


def of_results(results: Sequence[Result], left_over: str = "") -> dict[str, Any]:
    """Returns the results as JSON."""
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
