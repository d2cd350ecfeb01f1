"""The effective command: the values that brokers enforce for a topic, and the level that sets each."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

from topicpolicies.masks import parse_path
from topicpolicies.v1.service_pb2 import EffectivePolicy, PolicySource

from ...escaping import printable
from ..exits import reporting
from ..settings import settings
from ..showing import json_forms
from ..showing.fitting import Row, settings_rows
from ..showing.freshness import note_unconfirmed
from ..showing.rendering import console, lines
from ..showing.waiting import waiting
from .policies import Topic

_SOURCES = {
    PolicySource.POLICY_SOURCE_TOPIC_LOCAL: "topic, local",
    PolicySource.POLICY_SOURCE_TOPIC_GLOBAL: "topic, global",
    PolicySource.POLICY_SOURCE_NAMESPACE: "namespace",
    PolicySource.POLICY_SOURCE_BROKER: "broker",
}


def effective(context: typer.Context, topic: Topic) -> None:
    """Show the values in force for a topic, and the level of each.

    A setting is taken from the first of these that sets it: the topic's local document, its global one, the namespace, the broker.

    \b
    Examples:
      topicpolicies effective persistent://public/default/orders
      topicpolicies effective public/default/orders --output json
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with reporting(chosen.output, chosen.server), chosen.client() as client, waiting(chosen):
        note_unconfirmed(client, json=chosen.json)
        found = client.effective(topic)
    if chosen.json:
        json_forms.write(json_forms.of_message(found))
        return
    disabled = "  its own policies are disabled" if found.disabled else ""
    typer.echo(f"{printable(found.topic)}  local version {found.local_version}, global version {found.global_version}{disabled}")
    terminal = console()
    terminal.print(_table(found, terminal))


def _table(found: EffectivePolicy, terminal: Console) -> Table:
    rows: list[Row] = []
    sources = {parse_path(each.path): each.source for each in found.sources}
    for path, value in lines(found.policies):
        named = next((path[:length] for length in range(len(path), 0, -1) if path[:length] in sources), None)
        rows.append(Row(path, (value, _SOURCES.get(sources[named], "") if named is not None else "")))
    return settings_rows(("setting", "value", "source"), rows, terminal)
