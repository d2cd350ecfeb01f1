"""Differences between documents, leaf by leaf: for people in colours, for programs as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from topicpolicies.masks import Path, format_path
from topicpolicies.v1.policies_pb2 import TopicPolicies

from .fitting import Row, settings_rows
from .rendering import UNSET, changes

_ADDED, _REMOVED, _CHANGED = "green", "red", "yellow"


class Difference(NamedTuple):
    """One leaf in which two documents differ."""

    path: Path
    before: str | None
    """The value as it is shown; None: the leaf is not set."""
    after: str | None

    @property
    def sign(self) -> str:
        """``+`` added, ``-`` removed, ``~`` changed."""
        if self.before is None:
            return "+"
        return "-" if self.after is None else "~"

    def json(self) -> dict[str, str | None]:
        """Returns the difference for programs."""
        return {"path": format_path(self.path), "before": self.before, "after": self.after}


def between(before: TopicPolicies | None, after: TopicPolicies | None) -> list[Difference]:
    """Returns the leaves in which two documents differ (``rendering.changes``)."""
    return [Difference(*each) for each in changes(before, after)]


def show(differences: Iterable[Difference], terminal: Console) -> Table:
    """Returns a table of differences for people, one row each, that fits the width of ``terminal``."""
    styles = {"+": _ADDED, "-": _REMOVED, "~": _CHANGED}
    rows = (Row(each.path, (each.before or UNSET, each.after or UNSET), each.sign, styles[each.sign]) for each in differences)
    return settings_rows(("setting", "before", "after"), rows, terminal)
