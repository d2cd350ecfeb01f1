"""Events of the history for people: when, which document, what kind, by whom and why, what changed. Also gaps of the history."""

from __future__ import annotations

from datetime import UTC

from google.protobuf.timestamp_pb2 import Timestamp
from rich.cells import cell_len
from rich.text import Text

from topicpolicies.v1.events_pb2 import ActorStanding
from topicpolicies.v1.history_pb2 import HistoryEntry, HistoryGap, HistoryGapReason, HistoryKind, HistoryOutcome
from topicpolicies.values import enum_name

from ...escaping import printable
from .fitting import broken
from .rendering import compact, console, differences, policies_of, scope_name

_KINDS = {
    HistoryKind.HISTORY_KIND_UPDATE: "update",
    HistoryKind.HISTORY_KIND_DELETE: "delete",
    HistoryKind.HISTORY_KIND_BROKER: "a broker's event",
    HistoryKind.HISTORY_KIND_REPAIR: "repair",
    HistoryKind.HISTORY_KIND_TOMBSTONE: "tombstone",
    HistoryKind.HISTORY_KIND_UNREADABLE: "unreadable",
}
_RESTATED = {
    HistoryKind.HISTORY_KIND_REPAIR: "repair: restates the document, and changes nothing",
    HistoryKind.HISTORY_KIND_TOMBSTONE: "tombstone: restates that the document is deleted, and changes nothing",
}
"""Events that a sidecar writes without a request: they restate a change, whose own event says who requested it."""
_WHY = {
    HistoryGapReason.HISTORY_GAP_REASON_COMPACTED: "the log was compacted while the server did not follow it",
    HistoryGapReason.HISTORY_GAP_REASON_LOG_REPLACED: "the log was replaced while the server did not follow it",
    HistoryGapReason.HISTORY_GAP_REASON_OVERRUN: "more events came than could be written",
    HistoryGapReason.HISTORY_GAP_REASON_TRIMMED: "older events were deleted",
}


_CHANGED = (HistoryOutcome.HISTORY_OUTCOME_APPLIED, HistoryOutcome.HISTORY_OUTCOME_RESTATED)


def show_entry(entry: HistoryEntry) -> None:
    """Prints an event in two or three lines; on a terminal that is too narrow in more, which are indented alike."""
    what = _KINDS.get(entry.kind, "unknown")
    restated = _RESTATED.get(entry.kind) if entry.outcome == HistoryOutcome.HISTORY_OUTCOME_RESTATED else None
    if entry.outcome not in _CHANGED:
        what = f"{what}, {enum_name(HistoryOutcome.DESCRIPTOR, entry.outcome).lower()}"
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
    begin = _time(gap.start_time) if gap.HasField("start_time") else "the beginning of the log"
    why = _WHY.get(gap.reason, "for a reason that this program does not know")
    return f"Gap: events may be missing from {begin} to {_time(gap.end_time)}: {why}."


def _where(entry: HistoryEntry) -> tuple[str, str]:
    """Returns the topic of an event, and its scope and version."""
    if not entry.HasField("document"):
        return "an entry that can't be read", ""
    return printable(entry.document.topic), f"{scope_name(entry.document)}  version {entry.document.version}"


def _who(entry: HistoryEntry) -> str:
    origin = entry.origin
    claimed = origin.actor_standing == ActorStanding.ACTOR_STANDING_UNAUTHENTICATED
    who = f"{origin.actor} (not authenticated)" if claimed else origin.actor or "UNKNOWN"
    who = f"{who}, for whom {origin.principal} called" if origin.principal not in ("", origin.actor) else who
    who = f'{who}, who claimed to be "{origin.claimed_actor}"' if origin.claimed_actor else who
    who = f"{who}, producer {origin.producer_name}" if origin.producer_name else who
    return printable(f"{who}, why: {origin.reason}" if origin.reason else who)


def _change(entry: HistoryEntry) -> str:
    """Returns what an event changed, in one line; empty: nothing. Of an unreadable entry returns the problem."""
    if not entry.HasField("document"):
        return printable(entry.problem)
    after = policies_of(entry.document)
    if not entry.HasField("previous"):
        return f"now: {compact(after)}" if after is not None else "now: no document"
    before = policies_of(entry.previous)
    if after is None:
        return "" if before is None else f"deleted: {compact(before)}"
    if before is None:
        return f"created: {compact(after)}"
    if before == after:
        return f"a secret in {', '.join(map(printable, entry.changed.paths))} changed" if entry.changed.paths else ""
    return differences(before, after)


def _time(moment: Timestamp) -> str:
    return moment.ToDatetime(UTC).astimezone().isoformat(sep=" ", timespec="milliseconds")
