"""The documents of a namespace for people, each with its settings in one short line."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from topicpolicies.v1.policies_pb2 import PolicyDocument

from ...escaping import printable
from .fitting import brief
from .rendering import scope_name

_LEAST_ROOM = 40
"""The least width for settings in a table; with less room they stand below their topic."""
_HEADERS = ("topic", "scope", "version")


def listed(documents: Sequence[PolicyDocument], terminal: Console) -> None:
    """Prints documents: as a table, if the console is wide enough for one."""
    rows = [(printable(each.topic), scope_name(each), each.version) for each in documents]
    columns = zip(_HEADERS, *rows, strict=True)
    room = terminal.width - sum(max(map(cell_len, cells)) + 3 for cells in columns) - 4
    shown = [
        brief(each.policies, room if room >= _LEAST_ROOM else terminal.width - 4) if each.HasField("policies") else "" for each in documents
    ]
    if room < _LEAST_ROOM:
        for (topic, scope, version), settings in zip(rows, shown, strict=True):
            terminal.print(Text(f"{topic}  {scope}  version {version}", style="bold"), soft_wrap=True)
            terminal.print(Text(f"    {settings}"), soft_wrap=True)
    elif rows:
        table = Table(*_HEADERS, "settings")
        for row, settings in zip(rows, shown, strict=True):
            table.add_row(*(Text(cell, overflow="fold") for cell in (*row, settings)))
        terminal.print(table)
