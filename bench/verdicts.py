"""Prints whether a target was reached."""

from __future__ import annotations

from rich.console import Console


def print_verdict(console: Console, target: str, ratio: float, bound: str, *, reached: bool) -> None:
    """One line: of which target, what was measured, and what was demanded, such as ``>= 3``."""
    mark = "[green]reached[/]" if reached else "[red]not reached[/]"
    console.print(f"{mark}: {target}: {ratio:.2f} ({bound})")
