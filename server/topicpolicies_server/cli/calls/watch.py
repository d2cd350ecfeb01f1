"""The watch command: documents and their changes, as they happen."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from topicpolicies import WatchEvent, WatchMode

from ..exits import reporting
from ..settings import ScopeNames, settings
from ..showing import json_forms
from ..showing.watch_lines import line
from .resuming import ResumeFile, follow
from .targets import check_topics, sort_targets


class ModeName(enum.Enum):
    """The choices of ``--mode``."""

    LATEST = "latest"
    EVERY = "every"


def watch(
    context: typer.Context,
    targets: Annotated[list[str], typer.Argument(metavar="TOPIC_OR_NAMESPACE...", help="Topics, and namespaces as tenant/namespace.")],
    mode: Annotated[ModeName, typer.Option("--mode", help="The newest states, or every change.")] = ModeName.LATEST,
    scope: Annotated[ScopeNames, typer.Option("--scope", help="Which documents.")] = ScopeNames.BOTH,
    resume_file: Annotated[
        Path | None,
        typer.Option("--resume-file", dir_okay=False, help="The file of the place to continue from; kept up to date, need not exist."),
    ] = None,
    until_synced: Annotated[bool, typer.Option("--until-synced", help="End once everything that exists now is shown.")] = False,
    include_previous: Annotated[bool, typer.Option("--include-previous", help="Show the document before each change too.")] = False,
) -> None:
    """Follow topics and namespaces: their documents, then changes.

    First it shows the documents that exist, then every change. It continues by itself when the connection breaks. With --output json each
    line is one JSON document. Interrupt it with Ctrl-C.

    \b
    Examples:
      topicpolicies watch public/default
      topicpolicies watch persistent://public/default/orders public/payments \\
          --output json
      topicpolicies watch public/default \\
          --mode every --resume-file changes.token --output json >> changes.jsonl
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    topics, namespaces = sort_targets(targets)
    place = ResumeFile(resume_file)
    with reporting(chosen.output, chosen.server), chosen.client() as client:
        check_topics(topics)
        tokens = place.load()
        synced = set(tokens)

        def show(event: WatchEvent) -> None:
            snapshot = event.namespace not in synced
            if chosen.json:
                told = json_forms.of_message(event)
                if event.HasField("change"):
                    told["change"]["snapshot"] = snapshot
                json_forms.write(told)
            elif (said := line(event, snapshot=snapshot)) is not None:
                typer.echo(said)
            if event.bookmark.synced:
                synced.add(event.namespace)
            elif event.HasField("reset"):
                synced.discard(event.namespace)

        watched = client.watch(
            topics=topics,
            namespaces=namespaces,
            scopes=scope.scopes,
            mode=WatchMode.Value(f"WATCH_MODE_{mode.name}"),
            resume_tokens=tokens,
            until_synced=until_synced,
            include_previous=include_previous or not chosen.json,
            patience=chosen.timeout_seconds,
        )
        follow(watched, place, show)
