"""The watch command: documents and their changes, as they happen. Its place is kept in the file of ``--resume-file``."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Annotated, Any, Literal

import typer

from topicpolicies import Violation, Watch, WatchMode

from ..declared.files import name_of, read_text, wrong
from .calls import calling
from .exits import deferring
from .globals import Globals, Scopes, scopes_of, sort_targets
from .rendering import line, of_message, show_folded


def watch(
    chosen: Globals,
    targets: Annotated[list[str], typer.Argument(metavar="TOPIC_OR_NAMESPACE...", help="Topics, and namespaces as tenant/namespace.")],
    mode: Annotated[
        Literal["latest", "every", "history"],
        typer.Option("--mode", help="The newest states, every change, or every event that the history of namespaces has."),
    ] = "latest",
    scope: Scopes = "both",
    resume_file: Annotated[
        Path | None,
        typer.Option(
            "--resume-file",
            metavar="FILE",
            dir_okay=False,
            help="The file of the place to continue from; kept up to date, need not exist.",
        ),
    ] = None,
    until_synced: Annotated[bool, typer.Option("--until-synced", help="End once everything that exists now is shown.")] = False,
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
      topicpolicies watch public/default \\
          --mode history --resume-file audit.token --output json >> audit.jsonl
    """  # noqa: D301 - "\b" keeps the lines
    topics, namespaces = sort_targets(targets)
    if mode == "history" and (topics or scope != "both"):
        raise typer.BadParameter("The history is that of namespaces, in both scopes.", param_hint="--mode")
    with calling(chosen) as client:
        client.server_info()  # a watch goes on trying, whatever --timeout says, while its first connection is being made
        tokens = _load(resume_file)
        _save(resume_file, tokens)  # so that no watch begins whose place can't be kept
        synced = set(tokens)

        def show(event: Any) -> None:
            snapshot = event.namespace not in synced
            content = event.WhichOneof("content")
            if chosen.for_programs:
                told = of_message(event)
                if content == "change":
                    told["change"]["snapshot"] = snapshot
                chosen.show(told)
            elif (said := line(event, snapshot=snapshot)) is not None:
                show_folded(said)
            if content == "bookmark" and event.bookmark.synced:
                synced.add(event.namespace)
            elif content == "reset":
                synced.discard(event.namespace)

        watched: Watch[Any]
        if mode == "history":
            watched = client.watch_history(namespaces, positions=tokens, until_synced=until_synced, patience=chosen.timeout_seconds)
        else:
            watched = client.watch(
                topics=topics,
                namespaces=namespaces,
                scopes=scopes_of(scope),
                mode=WatchMode.Value(f"WATCH_MODE_{mode.upper()}"),
                resume_tokens=tokens,
                until_synced=until_synced,
                include_previous=True,
                patience=chosen.timeout_seconds,
            )
        _follow(watched, resume_file, show)


def _load(path: Path | None) -> dict[str, str]:
    """Returns the tokens from which to continue, by namespace; none: the watch begins anew."""
    text = read_text(path) if path is not None and path.exists() else "{}"
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(token, str) for token in found.values()):
        told = "The file has no place of a watch: name another one, or remove it to begin with the present documents."
        raise wrong(Violation(name_of(path or Path()), "MALFORMED_TOKEN", told))
    return found


def _save(path: Path | None, tokens: dict[str, str]) -> None:
    """Writes the place up to which all output is written and flushed, atomically: a reader finds the old tokens or the new ones."""
    if path is None:
        return
    with tempfile.NamedTemporaryFile("w", dir=path.absolute().parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(json.dumps(tokens) + "\n")
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(path)
        except OSError:
            Path(file.name).unlink()
            raise


def _follow(watch: Watch[Any], place: Path | None, show: Callable[[Any], object]) -> None:
    """Shows the events of a watch until it ends, or until Ctrl-C, and keeps its place.

    An interrupt ends the stream and not this thread, which may be in the middle of gRPC's code.
    """
    with watch as events, deferring(Thread(target=watch.close, daemon=True).start) as interrupted:
        reached: dict[str, str] = {}
        try:
            for event in events:
                show(event)
                reached = events.resume_tokens
                if event.WhichOneof("content") == "bookmark":
                    _save(place, reached)
        finally:
            if reached:
                _save(place, reached)
    if interrupted():
        raise typer.Exit
