"""Differences between documents, leaf by leaf: for people in colours, for programs as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from topicpolicies import TopicPolicies
from topicpolicies.masks import Path, format_path

from .rendering import UNSET, changes

_ADDED, _REMOVED, _CHANGED = "green", "red", "yellow"


class Difference(NamedTuple):
    """One leaf that differs."""

    path: Path
    before: str | None
    """As it is shown; None: it is not set."""
    after: str | None

    @property
    def sign(self) -> str:
        """``+`` added, ``-`` removed, ``~`` changed."""
        if self.before is None:
            return "+"
        return "-" if self.after is None else "~"

    def json(self) -> dict[str, str | None]:
        """For programs."""
        return {"path": format_path(self.path), "before": self.before, "after": self.after}


def between(before: TopicPolicies | None, after: TopicPolicies | None) -> list[Difference]:
    """The leaves in which two documents differ (``rendering.changes``)."""
    return [Difference(*each) for each in changes(before, after)]


def show(differences: Iterable[Difference]) -> Table:
    """Differences for people: one row each."""
    table = Table("", "setting", "before", "after", show_header=True)
    styles = {"+": _ADDED, "-": _REMOVED, "~": _CHANGED}
    for each in differences:
        cells = (each.sign, format_path(each.path), each.before or UNSET, each.after or UNSET)
        table.add_row(*(Text(cell, overflow="fold") for cell in cells), style=styles[each.sign])
    return table
