"""Events of the history for people: when, which document, what kind, by whom and why, what changed. Also gaps of the history."""

from __future__ import annotations

from datetime import datetime

from rich.cells import cell_len
from rich.text import Text

from topicpolicies import ActorStanding, HistoryEntry, HistoryGap, HistoryGapReason, HistoryKind, HistoryOutcome

from ...escaping import printable
from .fitting import broken
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
    """Prints an event in two or three lines; on a terminal that is too narrow in more, which are indented alike."""
    what = _KINDS[entry.kind]
    restated = _RESTATED.get(entry.kind) if entry.outcome is HistoryOutcome.RESTATED else None
    if entry.outcome not in (HistoryOutcome.APPLIED, HistoryOutcome.RESTATED):
        what = f"{what}, {entry.outcome.name.lower()}"
    where, version = _where(entry)
    if cell_len(heading := f"{_time(entry.time)}  {where}{version and f'  {version}'}") <= console().width:
        _print(heading, 0, "bold")
    else:
        _print(f"{_time(entry.time)}  {where}", 0, "bold")
        _print(version, 2, "bold")
    _print(restated or f"{what}  by {_who(entry)}", 2)
    _print(_change(entry), 4)


def _print(text: str, indent: int, style: str = "") -> None:
    """Prints a text in lines that fit the console, all of them indented; an empty text not at all."""
    terminal = console()
    for line in broken(text, max(1, terminal.width - indent)) if text else ():
        terminal.print(Text(f"{' ' * indent}{line}", style=style), soft_wrap=True)


def gap_line(gap: HistoryGap) -> str:
    """Returns a line that says in which period events may be missing, and why."""
    begin = "the beginning of the log" if gap.start is None else _time(gap.start)
    return f"Gap: events may be missing from {begin} to {_time(gap.end)}: {_WHY[gap.reason]}."


def _where(entry: HistoryEntry) -> tuple[str, str]:
    """Returns the topic of an event, and its scope and version."""
    if entry.document is None:
        return "an entry that can't be read", ""
    return printable(entry.document.topic), f"{entry.document.scope.name}  version {entry.document.version}"


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
