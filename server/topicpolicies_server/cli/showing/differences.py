"""Differences between documents, leaf by leaf: for people in colours, for programs as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from topicpolicies import TopicPolicies
from topicpolicies.masks import Path, format_path, parse_path, paths_between

from .rendering import UNSET, lines

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
    """The leaves in which two documents differ, in the definition's order; an absent document has none."""
    old = before if before is not None else TopicPolicies()
    new = after if after is not None else TopicPolicies()
    was, is_ = dict(lines(old)), dict(lines(new))
    found: dict[Path, Difference] = {}
    for text in paths_between(old, new):
        path = parse_path(text)
        for leaf in dict.fromkeys(leaf for leaf in [*was, *is_] if leaf[: len(path)] == path):
            if was.get(leaf) != is_.get(leaf) or leaf == path:
                found[leaf] = Difference(leaf, was.get(leaf), is_.get(leaf))
    return [found[leaf] for leaf in sorted(found)]


def show(differences: Iterable[Difference]) -> Table:
    """Differences for people: one row each."""
    table = Table("", "setting", "before", "after", show_header=True)
    styles = {"+": _ADDED, "-": _REMOVED, "~": _CHANGED}
    for each in differences:
        cells = (each.sign, format_path(each.path), each.before or UNSET, each.after or UNSET)
        table.add_row(*(Text(cell, overflow="fold") for cell in cells), style=styles[each.sign])
    return table
