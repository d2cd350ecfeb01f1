"""The watch command: documents and their changes, as they happen."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from topicpolicies import Bookmark, Entry, Mirror, Synced, Violation, Watch, WatchEvent, WatchMode

from ..exits import reporting
from ..files import wrong
from ..interrupts import interruptible, uninterrupted
from ..settings import ScopeNames, Settings, settings
from ..showing import json_forms
from ..showing.entries import show_entry
from ..showing.watch_lines import line
from .resuming import ResumeFile
from .targets import check_topics, sort_targets


class ModeName(enum.Enum):
    """The choices of ``--mode``."""

    LATEST = "latest"
    EVERY = "every"
    ENTRIES = "entries"


def watch(
    context: typer.Context,
    targets: Annotated[list[str], typer.Argument(metavar="TOPIC_OR_NAMESPACE...", help="Topics, and namespaces as tenant/namespace.")],
    mode: Annotated[
        ModeName, typer.Option("--mode", help="The newest states, every change, or every event of the history.")
    ] = ModeName.LATEST,
    scope: Annotated[ScopeNames, typer.Option("--scope", help="Which documents.")] = ScopeNames.BOTH,
    resume_file: Annotated[
        Path | None,
        typer.Option("--resume-file", dir_okay=False, help="The file of the place to continue from; kept up to date, need not exist."),
    ] = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Begin with the first change in the history; with --mode every.")
    ] = False,
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
          --mode every --from-beginning --until-synced
      topicpolicies watch public/default \\
          --mode entries --resume-file audit.token --output json >> audit.jsonl
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    topics, namespaces = sort_targets(targets)
    place = ResumeFile(resume_file)
    with reporting(chosen.output, chosen.server), chosen.client() as client:
        check_topics(topics)
        if from_beginning and mode is ModeName.LATEST:
            told = "The newest states have no beginning: say --mode every too."
            raise wrong("CONTRADICTION", Violation("--from-beginning", "CONTRADICTION", told))
        opened = client.watch(
            topics=topics,
            namespaces=namespaces,
            scopes=scope.scopes,
            mode=WatchMode[mode.name],
            token=place.load(),
            from_beginning=from_beginning,
            end_when_synced=until_synced,
            include_previous=include_previous,
            patience=chosen.timeout_seconds,
        )
        with opened as events:
            try:
                with interruptible():
                    _follow(events, chosen, place)
            except KeyboardInterrupt:
                raise typer.Exit from None
            finally:
                with uninterrupted():
                    place.save()


def _follow(events: Watch, chosen: Settings, place: ResumeFile) -> None:
    known = Mirror(events.namespaces)
    for event in events:
        with uninterrupted():
            _show(event, chosen, known)
            place.reached(events.token)
            if isinstance(event, (Synced, Bookmark)):
                place.save()


def _show(event: WatchEvent, chosen: Settings, known: Mirror) -> None:
    """Prints an event and flushes the output, then adds the event to ``known``."""
    if chosen.json:
        json_forms.write(json_forms.of_event(event))
        return
    if isinstance(event, Entry):
        show_entry(event.entry)
    elif (told := line(event, known)) is not None:
        typer.echo(told)
    known.apply(event)
