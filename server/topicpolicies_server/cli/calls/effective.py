"""The effective command: the values that brokers enforce for a topic, and the level that sets each."""

from __future__ import annotations

import enum
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from topicpolicies import EffectivePolicies, EffectiveView, PolicySource
from topicpolicies.masks import parse_path

from ...escaping import printable
from ..exits import reporting
from ..settings import settings
from ..showing import json_forms
from ..showing.fitting import Row, settings_rows
from ..showing.freshness import report_unconfirmed
from ..showing.rendering import console, lines
from ..showing.waiting import waiting
from .policies import Topic

_SOURCES = {
    PolicySource.TOPIC_LOCAL: "topic, local",
    PolicySource.TOPIC_GLOBAL: "topic, global",
    PolicySource.NAMESPACE: "namespace",
    PolicySource.BROKER: "broker",
}


class ViewName(enum.Enum):
    """The choices of ``--view``."""

    ENFORCED = "enforced"
    APPLIED_LOCAL = "applied-local"
    APPLIED_GLOBAL = "applied-global"


def effective(
    context: typer.Context,
    topic: Topic,
    view: Annotated[
        ViewName, typer.Option("--view", help="What brokers enforce, or what their admin API returns with applied=true.")
    ] = ViewName.ENFORCED,
) -> None:
    """Show the values in force for a topic, and the level of each.

    A setting is taken from the first of these that sets it: the topic's local document, its global one, the namespace, the broker. The
    views applied-local and applied-global look at one document only, as the admin API does without and with isGlobal=true.

    \b
    Examples:
      topicpolicies effective persistent://public/default/orders
      topicpolicies effective public/default/orders \\
          --view applied-global --output json
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with reporting(chosen.output, chosen.server), chosen.client() as client, waiting(chosen):
        found = client.effective(topic, view=EffectiveView[view.name])
    report_unconfirmed([found.unconfirmed_since], json=chosen.json)
    if chosen.json:
        json_forms.write(json_forms.of_effective(found))
        return
    disabled = "  its own policies are disabled" if found.disabled else ""
    typer.echo(f"{printable(found.topic)}  local version {found.local_version}, global version {found.global_version}{disabled}")
    terminal = console()
    terminal.print(_table(found, terminal))


def _table(found: EffectivePolicies, terminal: Console) -> Table:
    rows: list[Row] = []
    sources = {parse_path(path): source for path, source in found.sources.items()}
    for path, value in lines(found.policies):
        named = next((path[:length] for length in range(len(path), 0, -1) if path[:length] in sources), None)
        rows.append(Row(path, (value, _SOURCES.get(sources[named], "") if named is not None else "")))
    return settings_rows(("setting", "value", "source"), rows, terminal)
