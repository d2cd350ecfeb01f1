"""The command about what holds for a topic."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from topicpolicies import EffectivePolicies, PolicySource
from topicpolicies.masks import format_path, parse_path
from topicpolicies.v1 import service_pb2

from . import json_forms
from .exits import reporting
from .policies import OneScope, Topic
from .rendering import console, lines, printable
from .settings import ScopeName, settings

_SOURCES = {
    PolicySource.TOPIC_LOCAL: "topic, local",
    PolicySource.TOPIC_GLOBAL: "topic, global",
    PolicySource.NAMESPACE: "namespace",
    PolicySource.BROKER: "broker",
}


def effective(
    context: typer.Context,
    topic: Topic,
    applied: Annotated[bool, typer.Option("--applied", help="What the brokers' admin API answers with applied=true, instead.")] = False,
    scope: OneScope = ScopeName.LOCAL,
) -> None:
    """Show what holds for one topic, and which level says so.

    Per setting the first of the topic's local and global documents, the namespace and the broker that says something. --scope goes with
    --applied, which looks at one document only.

    \b
    Examples:
      topicpolicies effective persistent://public/default/orders
      topicpolicies effective public/default/orders --applied --scope global --output json
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with reporting(chosen.output, chosen.server), chosen.client() as client:
        found = client.effective(topic, applied=applied, scope=scope.scope)
    if chosen.json:
        message = service_pb2.GetPolicyResponse(
            topic=found.topic,
            exists=True,
            policies=found.policies,
            version=found.local_version,
            global_version=found.global_version,
            disabled=found.disabled,
        )
        for path, source in found.sources.items():
            message.sources.add(path=path, source=service_pb2.PolicySource.ValueType(source))
        json_forms.write(json_forms.of_message(message))
        return
    disabled = "  its own policies are disabled" if found.disabled else ""
    typer.echo(f"{printable(found.topic)}  local version {found.local_version}, global version {found.global_version}{disabled}")
    console().print(_table(found))


def _table(found: EffectivePolicies) -> Table:
    table = Table("setting", "value", "source")
    sources = {parse_path(path): source for path, source in found.sources.items()}
    for path, value in lines(found.policies):
        named = next((path[:length] for length in range(len(path), 0, -1) if path[:length] in sources), None)
        told = _SOURCES.get(sources[named], "") if named is not None else ""
        table.add_row(*(Text(cell, overflow="fold") for cell in (format_path(path), value, told)))
    return table
