"""The commands about what was: history, and the difference between two moments of a topic."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from topicpolicies import (
    ActorStanding,
    Document,
    HistoryEntry,
    HistoryGap,
    HistoryGapReason,
    HistoryKind,
    HistoryOutcome,
    HistoryPage,
)

from . import json_forms
from .differences import Difference, between, show
from .exits import ExitCode, reporting
from .moments import parse_moment, parse_time
from .policies import OneScope, Topic
from .rendering import compact, console, differences, printable
from .settings import ScopeName, ScopeNames, settings
from .watch import sort_targets

_WHY = {
    HistoryGapReason.COMPACTED: "the log was compacted while the server did not follow it",
    HistoryGapReason.LOG_REPLACED: "the log was replaced while the server did not follow it",
    HistoryGapReason.OVERRUN: "more events came than could be written",
    HistoryGapReason.TRIMMED: "what was older has been dropped",
    HistoryGapReason.UNSPECIFIED: "for a reason that this program does not know",
}


def history(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="TOPIC_OR_NAMESPACE", help="A topic, or a namespace as tenant/namespace.")],
    scope: Annotated[ScopeNames, typer.Option("--scope", help="Which documents.")] = ScopeNames.BOTH,
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="Only what happened then or later.")] = "",
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="Only what happened before.")] = "",
    by: Annotated[
        str | None, typer.Option("--by", metavar="ACTOR", help="Only this actor's; empty: only those of which nobody said whose they are.")
    ] = None,
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="In the order in which it happened.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000_000, help="Show so many events at most.")] = 50,
) -> None:
    """Show who changed what, and when: the newest first.

    It is what the server that answers has recorded; where that may miss events, it says so. Times are as 2026-03-01T12:00 (local, or with
    a zone), 2h-ago, 7d-ago.

    \b
    Examples:
      topicpolicies history persistent://public/default/orders
      topicpolicies history public/default --since 2h-ago --by retention-bot
      topicpolicies history public/default --oldest-first --limit 100000 --output json
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    topics, namespaces = sort_targets([target])
    start = parse_time(since, "--since") if since else None
    end = parse_time(until, "--until") if until else None
    gaps: list[HistoryGap] = []
    shown = 0
    with reporting(chosen.output, chosen.server), chosen.client() as client:
        pages = client.history_pages(
            topic="".join(topics),
            namespace="".join(namespaces),
            scopes=scope.scopes if scope is not ScopeNames.BOTH else (),
            start=start,
            end=end,
            actor=by,
            oldest_first=oldest_first,
            page_size=min(limit, 1_000),
        )
        following = True
        for page in _whole(pages, limit):
            gaps, following = gaps or list(page.gaps), page.following
            for entry in page.entries:
                shown += 1
                if chosen.json:
                    json_forms.write(json_forms.of_history_entry(entry))
                else:
                    _show(entry)
    if chosen.json:
        for gap in gaps:
            json_forms.write(json_forms.of_history_gap(gap))
        return
    for gap in gaps:
        begin = "the beginning of the log" if gap.start is None else _time(gap.start)
        typer.echo(f"Gap: events may be missing from {begin} to {_time(gap.end)}: {_WHY[gap.reason]}.", err=True)
    if not following:
        typer.echo("The server can't read the log now: the newest events may be missing.", err=True)
    typer.echo(f"{shown} event{'' if shown == 1 else 's'}", err=True)


def diff(
    context: typer.Context,
    topic: Topic,
    one: Annotated[str, typer.Argument(metavar="A", help="A time, or a version.")],
    other: Annotated[str, typer.Argument(metavar="B", help="The same; by default now.")] = "now",
    scope: OneScope = ScopeName.LOCAL,
) -> None:
    """Show in which settings two moments of a topic differ.

    Ends with exit code 7 if they do. Moments are versions, as history and get tell them, or times as 2026-03-01T12:00, 2h-ago, now.

    \b
    Examples:
      topicpolicies diff persistent://public/default/orders 1d-ago
      topicpolicies diff public/default/orders 2026-03-01T12:00 2026-03-02T12:00
      topicpolicies diff public/default/orders 15 16 --output json
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    moments = [parse_moment(one, "A"), parse_moment(other, "B")]
    with reporting(chosen.output, chosen.server), chosen.client() as client:
        first, second = (client.get_as_of(topic, moment, scope=scope.scope) for moment in moments)
    found = between(first.policies, second.policies)
    if chosen.json:
        told = {"a": json_forms.of_document(first), "b": json_forms.of_document(second)}
        json_forms.write(told | {"differences": [difference.json() for difference in found]})
    else:
        typer.echo(f"{printable(first.topic)}  {first.scope.name}  {_name(first)} -> {_name(second)}")
        _show_differences(first, second, found)
    if found or first.exists is not second.exists:
        raise typer.Exit(ExitCode.DIFFERENT)


def _show_differences(first: Document, second: Document, found: list[Difference]) -> None:
    if first.exists is not second.exists:
        typer.echo("the document was " + ("made" if second.exists else "deleted"))
    elif not found:
        typer.echo("no differences", err=True)
    if found:
        console().print(show(found))


def _name(document: Document) -> str:
    return f"version {document.version}" + ("" if document.exists else " (no document)")


def _whole(pages: Iterator[HistoryPage], limit: int) -> Iterator[HistoryPage]:
    """The pages until there are enough entries, the last one cut."""
    left = limit
    for page in pages:
        yield HistoryPage(tuple(islice(page.entries, left)), page.gaps, page.following, page.next_page_token)
        left -= len(page.entries)
        if left <= 0:
            return


def _show(entry: HistoryEntry) -> None:
    what = _KINDS[entry.kind]
    if entry.outcome not in (HistoryOutcome.APPLIED, HistoryOutcome.RESTATED):
        what = f"{what}, {entry.outcome.name.lower()}"
    lines = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    scope = "" if entry.scope is None else entry.scope.name
    where = printable(entry.topic) or "an entry that can't be read"
    console().print(Text(f"{_time(entry.time)}  {where}  {scope}  version {entry.version}", style="bold"))
    lines.add_row("", Text(what), Text(f"by {_who(entry)}"))
    console().print(lines)
    told = _change(entry)
    if told:
        console().print(Text(f"    {told}"))


def _who(entry: HistoryEntry) -> str:
    claimed = entry.actor_standing is ActorStanding.UNAUTHENTICATED
    who = f"{entry.actor} (not authenticated)" if claimed else entry.actor or "UNKNOWN"
    return printable(f"{who}, producer {entry.producer_name}" if entry.producer_name else who)


def _change(entry: HistoryEntry) -> str:
    """What an event did, in one line; empty if it did nothing."""
    if not entry.before_known:
        return f"now: {compact(entry.after)}" if entry.after is not None else "now: no document"
    if entry.after is None:
        return "" if entry.before is None else f"deleted: {compact(entry.before)}"
    if entry.before is None:
        return f"made: {compact(entry.after)}"
    if entry.before == entry.after:
        return f"a secret in {', '.join(entry.changed)} changed" if entry.changed else ""
    return differences(entry.before, entry.after)


_KINDS = {
    HistoryKind.UPDATE: "update",
    HistoryKind.DELETE: "delete",
    HistoryKind.BROKER: "a broker's event",
    HistoryKind.REPAIR: "repair",
    HistoryKind.TOMBSTONE: "tombstone",
    HistoryKind.UNREADABLE: "unreadable",
    HistoryKind.UNSPECIFIED: "unknown",
}


def _time(moment: datetime) -> str:
    return moment.astimezone().isoformat(sep=" ", timespec="milliseconds")
