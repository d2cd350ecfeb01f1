"""Events of the history for people: when, which document, what kind, by whom and why, what changed. Also gaps of the history."""

from __future__ import annotations

from datetime import datetime

from rich.text import Text

from topicpolicies import ActorStanding, HistoryEntry, HistoryGap, HistoryGapReason, HistoryKind, HistoryOutcome

from ..escaping import printable
from .rendering import compact, console, differences

_KINDS = {
    HistoryKind.UPDATE: "update",
    HistoryKind.DELETE: "delete",
    HistoryKind.BROKER: "a broker's event",
    HistoryKind.REPAIR: "repair",
    HistoryKind.TOMBSTONE: "tombstone",
    HistoryKind.UNREADABLE: "unreadable",
    HistoryKind.UNSPECIFIED: "unknown",
}
_RESTATED = {
    HistoryKind.REPAIR: "repair: restates the document, and changes nothing",
    HistoryKind.TOMBSTONE: "tombstone: restates that the document is deleted, and changes nothing",
}
"""Events that a sidecar writes without a request: they restate a change, whose own event says who requested it."""
_WHY = {
    HistoryGapReason.COMPACTED: "the log was compacted while the server did not follow it",
    HistoryGapReason.LOG_REPLACED: "the log was replaced while the server did not follow it",
    HistoryGapReason.OVERRUN: "more events came than could be written",
    HistoryGapReason.TRIMMED: "older events were deleted",
    HistoryGapReason.UNSPECIFIED: "for a reason that this program does not know",
}


def show_entry(entry: HistoryEntry) -> None:
    """Prints an event in two or three lines."""
    what = _KINDS[entry.kind]
    restated = _RESTATED.get(entry.kind) if entry.outcome is HistoryOutcome.RESTATED else None
    if entry.outcome not in (HistoryOutcome.APPLIED, HistoryOutcome.RESTATED):
        what = f"{what}, {entry.outcome.name.lower()}"
    console().print(Text(f"{_time(entry.time)}  {_where(entry)}", style="bold"))
    console().print(Text(f"  {restated or f'{what}  by {_who(entry)}'}"))
    told = _change(entry)
    if told:
        console().print(Text(f"    {told}"))


def gap_line(gap: HistoryGap) -> str:
    """Returns a line that says in which period events may be missing, and why."""
    begin = "the beginning of the log" if gap.start is None else _time(gap.start)
    return f"Gap: events may be missing from {begin} to {_time(gap.end)}: {_WHY[gap.reason]}."


def _where(entry: HistoryEntry) -> str:
    if entry.document is None:
        return "an entry that can't be read"
    return f"{printable(entry.document.topic)}  {entry.document.scope.name}  version {entry.document.version}"


def _who(entry: HistoryEntry) -> str:
    origin = entry.origin
    claimed = origin.actor_standing is ActorStanding.UNAUTHENTICATED
    who = f"{origin.actor} (not authenticated)" if claimed else origin.actor or "UNKNOWN"
    who = f"{who}, for whom {origin.principal} called" if origin.principal not in ("", origin.actor) else who
    who = f'{who}, who claimed to be "{origin.claimed_actor}"' if origin.claimed_actor else who
    who = f"{who}, producer {origin.producer_name}" if origin.producer_name else who
    return printable(f"{who}, why: {origin.reason}" if origin.reason else who)


def _change(entry: HistoryEntry) -> str:
    """Returns what an event changed, in one line; empty: nothing. Of an unreadable entry returns the problem."""
    if entry.document is None:
        return printable(entry.problem)
    after = entry.document.policies
    if entry.previous is None:
        return f"now: {compact(after)}" if after is not None else "now: no document"
    before = entry.previous.policies
    if after is None:
        return "" if before is None else f"deleted: {compact(before)}"
    if before is None:
        return f"created: {compact(after)}"
    if before == after:
        return f"a secret in {', '.join(map(printable, entry.changed))} changed" if entry.changed else ""
    return differences(before, after)


def _time(moment: datetime) -> str:
    return moment.astimezone().isoformat(sep=" ", timespec="milliseconds")
