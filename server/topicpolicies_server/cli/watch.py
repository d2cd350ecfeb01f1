"""The watch command: documents and their changes, as they happen. Its place is kept in the file of ``--resume-file``."""

from __future__ import annotations

import enum
import json
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Thread
from typing import Annotated, Any

import typer

from topicpolicies import Violation, Watch, WatchEvent, WatchMode

from ..core.names import full_topic
from ..declared.files import name_of, read_text, wrong
from . import forms
from .calls import calling
from .documents import Scopes
from .events import line
from .exits import deferring
from .rendering import show_folded
from .settings import ScopeNames, settings


class ModeName(enum.Enum):
    """The choices of ``--mode``."""

    LATEST = "latest"
    EVERY = "every"


_RESUME = "The file of the place to continue from; kept up to date, need not exist."
ResumeOption = Annotated[Path | None, typer.Option("--resume-file", metavar="FILE", dir_okay=False, help=_RESUME)]
UntilSynced = Annotated[bool, typer.Option("--until-synced", help="End once everything that exists now is shown.")]


def watch(
    context: typer.Context,
    targets: Annotated[list[str], typer.Argument(metavar="TOPIC_OR_NAMESPACE", help="Topics, and namespaces as tenant/namespace.")],
    mode: Annotated[ModeName, typer.Option("--mode", help="The newest states, or every change.")] = ModeName.LATEST,
    scope: Scopes = ScopeNames.BOTH,
    resume_file: ResumeOption = None,
    until_synced: UntilSynced = False,
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
    with calling(chosen) as client:
        tokens = place.load()
        synced = set(tokens)

        def show(event: WatchEvent) -> None:
            snapshot = event.namespace not in synced
            if chosen.for_programs:
                told = forms.of_message(event)
                if event.HasField("change"):
                    told["change"]["snapshot"] = snapshot
                chosen.show(told)
            elif (said := line(event, snapshot=snapshot)) is not None:
                show_folded(said)
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
            include_previous=include_previous or not chosen.for_programs,
            patience=chosen.timeout_seconds,
        )
        follow(watched, place, show)


def sort_targets(targets: Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns the topics and the namespaces among targets: a namespace has two parts and no domain. A name alone is a topic's."""
    topics: list[str] = []
    namespaces: list[str] = []
    for target in targets:
        (namespaces if "://" not in target and target.count("/") == 1 else topics).append(full_topic(target))
    return topics, namespaces


class ResumeFile:
    """Keeps the place of a watch in a file; without a path it keeps nothing."""

    def __init__(self, path: Path | None) -> None:
        """Checks that the directory can be written, so that no watch begins whose place can't be kept."""
        self._path = path
        if path is not None:
            try:
                self._replace(None)
            except OSError as error:
                raise typer.BadParameter(f"{path} can't be written: {error.strerror}.", param_hint="--resume-file") from None

    def load(self) -> dict[str, str]:
        """Returns the tokens from which to continue, by namespace; none: the watch begins anew."""
        if self._path is None or not self._path.exists():
            return {}
        text = read_text(self._path)
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not all(isinstance(token, str) for token in found.values()):
            told = "The file has no place of a watch: name another one, or remove it to begin with the present documents."
            raise wrong(Violation(name_of(self._path), "MALFORMED_TOKEN", told))
        return found

    def save(self, tokens: dict[str, str]) -> None:
        """Writes the place up to which all output is written and flushed, if there is one."""
        if self._path is not None and tokens:
            self._replace(json.dumps(tokens) + "\n")

    def _replace(self, text: str | None) -> None:
        """Replaces the file atomically: a reader finds the old token or the new one. ``None``: only checks that files can be made there."""
        assert self._path is not None
        handle, name = tempfile.mkstemp(dir=self._path.absolute().parent, prefix=f".{self._path.name}.")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(text or "")
                file.flush()
                os.fsync(file.fileno())
            if text is not None:
                Path(name).replace(self._path)
        finally:
            Path(name).unlink(missing_ok=True)


def follow(watch: Watch[Any], place: ResumeFile, show: Callable[[Any], object]) -> None:
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
                    place.save(reached)
        finally:
            place.save(reached)
    if interrupted():
        raise typer.Exit
