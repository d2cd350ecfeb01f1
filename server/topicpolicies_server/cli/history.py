"""The past: moments as people type them, and the commands history, and diff, which compares a topic at two moments."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated, TypeAlias

import typer

from topicpolicies import Client, InvalidArgument, OutOfRange, PolicyDocument, Scope
from topicpolicies.v1.history_pb2 import HistoryGap

from ..declared.values import between, policies_of, scope_name
from ..escaping import printable
from .calls import calling
from .exits import ExitCode
from .globals import Globals, OneScope, Scopes, Topic, scope_of, scopes_of, sort_targets
from .rendering import entry_line, gap_line, of_message, show_differences, show_folded

Moment: TypeAlias = datetime | str | None
"""A time, a version, or None: now."""
_AGO = re.compile(r"(\d{1,9})\s*([smhdw])[\s-]+ago", re.IGNORECASE)
_VERSION = re.compile(r"(?=.*[0-9])(?![0-9]+[smhw]$)[0-9A-Za-z]+", re.ASCII)
"""What may be a version: letters and digits, but not letters alone, nor a time before now without its "ago", such as 2h."""
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_time(text: str, option: str) -> datetime:
    """Parses a time: ``now``, one before now (``2h-ago``), or an ISO 8601 time; one without a zone is local."""
    now = datetime.now().astimezone()
    if text.lower() == "now":
        return now
    try:
        if ago := _AGO.fullmatch(text.strip()):
            return now - timedelta(**{_UNITS[ago[2].lower()]: int(ago[1])})
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        forms = "a time (2026-03-01T12:00, with a zone or local), a time before now (2h-ago, 30m-ago, 7d-ago) or now"
        raise typer.BadParameter(f'"{text}" is not a time: write {forms}.', param_hint=option) from None


def parse_moment(text: str, option: str) -> Moment:
    """Parses a time or a version. ``now`` becomes None, not a time, which would be in the future for a server whose clock is behind."""
    if text.lower() == "now":
        return None
    return text if _VERSION.fullmatch(text) else parse_time(text, option)


def read_at(client: Client, topic: str, scope: Scope.ValueType, moment: Moment) -> PolicyDocument:
    """Reads a document as it was at a moment, or as it is now. If there is no such version, the error says how a time is written."""
    if moment is None:
        return client.get(topic, scope=scope)
    try:
        return client.as_of(topic, moment, scope=scope)
    except (InvalidArgument, OutOfRange) as error:
        if isinstance(moment, str):
            error.message += f" {moment} was taken as a version; a time is written as 2026-03-01T12:00, 2h-ago or 7d-ago."
        raise


def history(
    chosen: Globals,
    target: Annotated[str, typer.Argument(metavar="TOPIC_OR_NAMESPACE", help="A topic, or a namespace as tenant/namespace.")],
    scope: Scopes = "both",
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="Only events at this time or later.")] = "",
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="Only events before this time.")] = "",
    by: Annotated[
        str | None, typer.Option("--by", metavar="ACTOR", help="Only changes of this actor; an empty text: only changes without an actor.")
    ] = None,
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="Show the oldest event first.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000_000, metavar="N", help="The most events to show.")] = 50,
) -> None:
    """Show who changed what, and when: the newest event first.

    The events are those that this server has recorded; the output says where events may be missing. Times are written as
    2026-03-01T12:00 (local, or with a zone), 2h-ago, 7d-ago.
    watch --mode history shows every event of a namespace, from the first one on.

    \b
    Examples:
      topicpolicies history persistent://public/default/orders
      topicpolicies history public/default --since 2h-ago --by retention-bot
      topicpolicies history public/default \\
          --oldest-first --limit 100000 --output json
    """  # noqa: D301 - "\b" keeps the lines
    topics, namespaces = sort_targets([target])
    start = parse_time(since, "--since") if since else None
    end = parse_time(until, "--until") if until else None
    gaps: list[HistoryGap] = []
    shown = 0
    with calling(chosen) as client:
        pages = client.history_pages(
            topic="".join(topics),
            namespace="".join(namespaces),
            scopes=scopes_of(scope) if scope != "both" else (),
            start=start,
            end=end,
            actor=by,
            oldest_first=oldest_first,
            page_size=min(limit, 1_000),
        )
        following = True
        for page in pages:
            gaps, following = gaps or list(page.gaps), page.following
            for entry in page.entries[: limit - shown]:
                shown += 1
                if not chosen.shown({"entry": of_message(entry)}):
                    show_folded(entry_line(entry))
            if shown == limit:
                break
    if chosen.for_programs:
        for gap in gaps:
            chosen.show({"gap": of_message(gap)})
        return
    for gap in gaps:
        typer.echo(gap_line(gap), err=True)
    if not following:
        typer.echo(
            "The server does not follow the log now, because it can't or because topic policies are disabled: events may be missing.",
            err=True,
        )
    more = "; there may be more: --limit" if shown == limit else ""
    of = "" if shown else f" of {printable(''.join([*topics, *namespaces]))}"
    typer.echo(f"{shown} event{'' if shown == 1 else 's'}{of}{more}", err=True)


def diff(
    chosen: Globals,
    topic: Topic,
    one: Annotated[str, typer.Argument(metavar="A", help="A time or a version.")],
    other: Annotated[str, typer.Argument(metavar="B", help="Another time or version; by default now.")] = "now",
    scope: OneScope = "local",
) -> None:
    """Show the settings in which a topic differs between two moments.

    Ends with exit code 7 if there are any (2 with --detailed-exitcode). A moment is a version, as history and get show them, or a time:
    2026-03-01T12:00, 2h-ago, now.

    \b
    Examples:
      topicpolicies diff persistent://public/default/orders 1d-ago
      topicpolicies diff public/default/orders 2026-03-01T12:00 2026-03-02T12:00
      topicpolicies diff public/default/orders 15 16 --output json
    """  # noqa: D301 - "\b" keeps the lines
    moments = [parse_moment(one, "A"), parse_moment(other, "B")]
    with calling(chosen) as client:
        first, second = (read_at(client, topic, scope_of(scope), moment) for moment in moments)
    found = between(policies_of(first), policies_of(second))
    appeared = first.HasField("policies") is not second.HasField("policies")
    told = {"a": of_message(first), "b": of_message(second), "differences": [each.json() for each in found]}
    if not chosen.shown(told):
        typer.echo(f"{printable(first.topic)}  {scope_name(first)}  {_name(first)} -> {_name(second)}")
        if not found and not appeared:
            typer.echo("no differences", err=True)
        show_differences(found)
    if found or appeared:
        raise typer.Exit(ExitCode.DIFFERENT)


def _name(document: PolicyDocument) -> str:
    return f"version {document.version}" + ("" if document.HasField("policies") else " (no document)")
