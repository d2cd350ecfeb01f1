"""The watch command: documents and their changes, as they happen."""

from __future__ import annotations

import enum
import os
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from topicpolicies import (
    Bookmark,
    Changed,
    Client,
    Deleted,
    Interrupted,
    NamespaceLoading,
    NamespaceUnavailable,
    PolicyCache,
    Restarted,
    ResumeToken,
    Synced,
    Watch,
    WatchEvent,
    WatchMode,
)

from . import json_forms
from .exits import reporting
from .rendering import compact, differences, printable
from .settings import ScopeNames, Settings, settings


class ModeName(enum.Enum):
    """A watch mode on the command line."""

    LATEST = "latest"
    EVERY = "every"


def watch(
    context: typer.Context,
    targets: Annotated[list[str], typer.Argument(metavar="TOPIC_OR_NAMESPACE...", help="Topics, and namespaces as tenant/namespace.")],
    mode: Annotated[ModeName, typer.Option("--mode", help="Whether states that newer ones supersede may be left out.")] = ModeName.LATEST,
    scope: Annotated[ScopeNames, typer.Option("--scope", help="Which documents.")] = ScopeNames.BOTH,
    resume_file: Annotated[
        Path | None, typer.Option("--resume-file", dir_okay=False, help="Where to go on, kept up to date; need not exist yet.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when everything is told that there is now.")] = False,
) -> None:
    """Follow topics and namespaces: first what there is, then every change.

    It goes on by itself when the connection breaks. With --output json each line is one JSON document. Interrupt it with Ctrl-C.

    \b
    Examples:
      topicpolicies watch public/default
      topicpolicies watch persistent://public/default/orders public/payments --output json
      topicpolicies watch public/default --mode every --resume-file audit.token --output json >> audit.jsonl
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    topics, namespaces = sort_targets(targets)
    with reporting(chosen.output, chosen.server), chosen.client() as client:
        token = _load(resume_file)
        with _open(client, chosen, topics, namespaces, scope, mode, token) as events:
            try:
                _follow(events, chosen, resume_file, until={*namespaces, *map(_namespace, topics)} if once else None)
            except KeyboardInterrupt:
                raise typer.Exit from None
            finally:
                _save(resume_file, events.token)


def sort_targets(targets: Iterable[str]) -> tuple[list[str], list[str]]:
    """Topics and namespaces apart: a namespace has two parts and no domain."""
    topics: list[str] = []
    namespaces: list[str] = []
    for target in targets:
        (namespaces if "://" not in target and target.count("/") == 1 else topics).append(target)
    return topics, namespaces


def _namespace(topic: str) -> str:
    return "/".join(topic.rpartition("://")[2].split("/")[:2])


def _open(
    client: Client, chosen: Settings, topics: list[str], namespaces: list[str], scope: ScopeNames, mode: ModeName, token: ResumeToken | None
) -> Watch:
    return client.watch(
        topics=topics,
        namespaces=namespaces,
        scopes=scope.scopes,
        mode=WatchMode[mode.name],
        token=token,
        patience=chosen.timeout_seconds,
    )


def _follow(events: Watch, chosen: Settings, resume_file: Path | None, until: set[str] | None) -> None:
    cache = PolicyCache()
    for event in events:
        if chosen.json:
            json_forms.write(json_forms.of_event(event))
        elif (line := _line(event, cache)) is not None:
            typer.echo(line)
        cache.apply(event)
        if isinstance(event, (Synced, Bookmark)):
            _save(resume_file, events.token)
        if until is not None and isinstance(event, Synced):
            until.discard(event.namespace)
            if not until:
                return


def _line(event: WatchEvent, cache: PolicyCache) -> str | None:
    """An event for people; None if it says nothing to them."""
    match event:
        case Changed():
            before = cache.get(event.topic, event.scope)
            known = None if event.snapshot or before is None else before.policies
            what = compact(event.policies) if known is None else differences(known, event.policies)
            return f"{_when(event)}  {'=' if event.snapshot else '~'} {_who(event)}  {what}"
        case Deleted():
            return f"{_when(event)}  - {_who(event)}  {'no document' if event.snapshot else 'deleted'}"
        case Synced():
            return f"{_now()}  # {event.namespace} is complete; changes follow"
        case Restarted():
            return f"{_now()}  # {event.reason}"
        case NamespaceLoading():
            return f"{_now()}  # {event.namespace} is being read"
        case NamespaceUnavailable():
            return f"{_now()}  # {event.namespace} is unavailable: {printable(event.message)}"
        case Interrupted():
            return f"{_now()}  # interrupted, again in {event.retry_in_seconds:.1f} s: {printable(event.error.message)}"
        case Bookmark():
            return None


def _when(event: Changed | Deleted) -> str:
    published = event.origin.publish_time
    return _now() if published is None else _time(published)


def _who(event: Changed | Deleted) -> str:
    actor = f" by {event.origin.actor}" if event.origin.actor else ""
    return printable(f"{event.topic} {event.scope.name} {event.version}{actor}")


def _now() -> str:
    return _time(datetime.now(UTC))


def _time(moment: datetime) -> str:
    return moment.astimezone().strftime("%H:%M:%S.%f")[:-3]


def _load(path: Path | None) -> ResumeToken | None:
    if path is None or not path.exists():
        return None
    return ResumeToken.loads(path.read_text())


def _save(path: Path | None, token: ResumeToken) -> None:
    """Replaces the file as a whole: whoever reads it finds the old token or the new one."""
    if path is None or not token.namespaces:
        return
    handle, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(token.dumps() + "\n")
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
