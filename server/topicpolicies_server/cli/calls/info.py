"""The info command: the server's log, features and limits."""

from __future__ import annotations

import typer
from rich.table import Table
from rich.text import Text

from topicpolicies import LogKind, ServerFeature, ServerInfo, WriterMode

from ...escaping import printable
from ..exits import reporting
from ..settings import settings
from ..showing import json_forms
from ..showing.rendering import console
from ..showing.waiting import waiting

_LOGS = {
    LogKind.EMBEDDED: "embedded, in a file of the server",
    LogKind.PULSAR: "Pulsar, in each namespace's __change_events",
    LogKind.MEMORY: "in memory: lost when the server ends",
    LogKind.UNSPECIFIED: "unknown",
}
_WRITERS = {
    WriterMode.SOLE: "sole: only this server writes",
    WriterMode.SHARED: "shared: brokers and other servers write too",
    WriterMode.EXCLUSIVE: "exclusive: one server at a time",
    WriterMode.READ_ONLY: "read-only: this server writes nothing",
    WriterMode.UNSPECIFIED: "unknown",
}
_FEATURES = {
    ServerFeature.HISTORY: "keeps a history",
    ServerFeature.EFFECTIVE: "reports the values in force (effective)",
    ServerFeature.RULES: "applies the rules of Pulsar's admin API to updates",
    ServerFeature.SECRETS: "shows the credentials of object storages",
}


def info(context: typer.Context) -> None:
    """Show the server's version, log, features and limits.

    \b
    Examples:
      topicpolicies info
      topicpolicies info --server sidecar:6680 --output json
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with reporting(chosen.output, chosen.server), chosen.client() as client, waiting(chosen):
        found = client.server_info()
    if chosen.json:
        json_forms.write(json_forms.of_server_info(found))
    else:
        console().print(_table(found))


def _table(found: ServerInfo) -> Table:
    table = Table(show_header=False)
    limits = found.limits
    for name, value in (
        ("version", found.version),
        ("log", _LOGS[found.log]),
        ("cluster", found.cluster or "none, or not known yet"),
        ("writers", _WRITERS[found.writer_mode]),
        ("features", "\n".join(_FEATURES[feature] for feature in sorted(found.features)) or "none"),
        ("largest message in bytes", f"{limits.message_bytes:,}"),
        ("most unanswered changes of a stream", f"{limits.changes_per_stream:,}"),
        ("most topics and namespaces of a watch", f"{limits.watch_selectors:,}"),
        ("most watches", f"{limits.watches:,}"),
        ("longest time of an update", f"{limits.update_timeout_seconds:g} s"),
    ):
        told = "\n".join(map(printable, value.split("\n")))
        table.add_row(name, Text(told, overflow="fold"))
    return table
