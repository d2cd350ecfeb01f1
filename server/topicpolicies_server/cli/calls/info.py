"""The info command: the server's version, log and writers."""

from __future__ import annotations

import typer
from rich.table import Table
from rich.text import Text

from topicpolicies.v1.service_pb2 import LogKind, WriterMode

from ...escaping import printable
from ..exits import reporting
from ..settings import settings
from ..showing import json_forms
from ..showing.rendering import console
from ..showing.waiting import waiting

_LOGS = {
    LogKind.LOG_KIND_EMBEDDED: "embedded, in a file of the server",
    LogKind.LOG_KIND_PULSAR: "Pulsar, in each namespace's __change_events",
    LogKind.LOG_KIND_MEMORY: "in memory: lost when the server ends",
}
_WRITERS = {
    WriterMode.WRITER_MODE_SOLE: "sole: only this server writes",
    WriterMode.WRITER_MODE_SHARED: "shared: brokers and other servers write too",
    WriterMode.WRITER_MODE_EXCLUSIVE: "exclusive: one server at a time",
    WriterMode.WRITER_MODE_READ_ONLY: "read-only: this server writes nothing",
}


def info(context: typer.Context) -> None:
    """Show the server's version, log and writers.

    \b
    Examples:
      topicpolicies info
      topicpolicies info --server sidecar:6680 --output json
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with reporting(chosen.output, chosen.server), chosen.client() as client, waiting(chosen):
        found = client.server_info()
    if chosen.json:
        json_forms.write(json_forms.of_message(found))
        return
    table = Table(show_header=False)
    for name, value in (
        ("version", found.version),
        ("log", _LOGS.get(found.log, "unknown")),
        ("cluster", found.cluster or "none, or not known yet"),
        ("writers", _WRITERS.get(found.writer_mode, "unknown")),
    ):
        table.add_row(name, Text(printable(value), overflow="fold"))
    console().print(table)
