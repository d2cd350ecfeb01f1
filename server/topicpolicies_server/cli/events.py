"""Events of watches and of the history for people: when, which document, by whom and why, and what changed. Also gaps of the history."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import typer
from google.protobuf.timestamp_pb2 import Timestamp

from topicpolicies.v1.events_pb2 import ActorStanding
from topicpolicies.v1.history_pb2 import HistoryEntry, HistoryGap, HistoryGapReason, HistoryKind, HistoryOutcome
from topicpolicies.v1.service_pb2 import NamespaceState, NamespaceStatus, PolicyChange
from topicpolicies.values import enum_name

from ..declared.rendering import compact, one_line, policies_of, scope_name
from ..escaping import printable
from .rendering import show_folded

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
_STATES = {
    NamespaceState.NAMESPACE_STATE_LOADING: "is being read",
    NamespaceState.NAMESPACE_STATE_READY: "is followed",
    NamespaceState.NAMESPACE_STATE_FAILED: "is unavailable",
    NamespaceState.NAMESPACE_STATE_DISABLED: "is disabled",
}
_CHANGED = (HistoryOutcome.HISTORY_OUTCOME_APPLIED, HistoryOutcome.HISTORY_OUTCOME_RESTATED)


def show_entry(entry: HistoryEntry) -> None:
    """Prints an event of the history in two or three lines, on a terminal folded to its width."""
    what = enum_name(HistoryKind.DESCRIPTOR, entry.kind).lower()
    restated = _RESTATED.get(entry.kind) if entry.outcome == HistoryOutcome.HISTORY_OUTCOME_RESTATED else None
    if entry.outcome not in _CHANGED:
        what = f"{what}, {enum_name(HistoryOutcome.DESCRIPTOR, entry.outcome).lower()}"
    where = "an entry that can't be read"
    if entry.HasField("document"):
        where = f"{printable(entry.document.topic)}  {scope_name(entry.document)}  version {entry.document.version}"
    typer.secho(f"{_stamp(entry.time)}  {where}", bold=True)
    show_folded(f"  {restated or f'{what}  by {_who(entry)}'}")
    if change := _change(entry):
        show_folded(f"    {change}")


def gap_line(gap: HistoryGap) -> str:
    """Returns a line that says in which period events may be missing, and why."""
    begin = _stamp(gap.start_time) if gap.HasField("start_time") else "the beginning of the log"
    why = _WHY.get(gap.reason, "for a reason that this program does not know")
    return f"Gap: events may be missing from {begin} to {_stamp(gap.end_time)}: {why}."


def _who(entry: HistoryEntry) -> str:
    origin = entry.origin
    claimed = origin.actor_standing == ActorStanding.ACTOR_STANDING_UNAUTHENTICATED
    who = f"{origin.actor} (not authenticated)" if claimed else origin.actor or "UNKNOWN"
    who = f"{who}, for whom {origin.principal} called" if origin.principal not in ("", origin.actor) else who
    who = f'{who}, who claimed to be "{origin.claimed_actor}"' if origin.claimed_actor else who
    who = f"{who}, producer {origin.producer_name}" if origin.producer_name else who
    who = f"{who}, as {origin.owner} declares" if origin.owner else who
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
    return one_line(before, after)


def line(event: Any, *, snapshot: bool = False) -> str | None:
    """Returns the line of a ``WatchEvent`` or a ``WatchHistoryEvent``; None: it is not shown.

    ``snapshot``: whether a change is a document of the snapshot.
    """
    match event.WhichOneof("content"):
        case "change":
            return _changed(event.change, snapshot=snapshot)
        case "gap":
            return f"{_now()}  # {event.namespace}: {gap_line(event.gap)}"
        case "bookmark" if event.bookmark.synced:
            return f"{_now()}  # {event.namespace} is complete"
        case "reset":
            return f"{_now()}  # {printable(event.reset.message) or f'{event.namespace} begins anew'}"
        case "status":
            return f"{_now()}  # {_status(event.namespace, event.status)}"
        case _:
            return None


def _status(namespace: str, status: NamespaceStatus) -> str:
    told = f"{namespace} {_STATES.get(status.state, 'is in a state that this program does not know')}"
    return f"{told}: {printable(status.message)}" if status.message.rstrip(".") not in ("", told) else told


def _changed(change: PolicyChange, *, snapshot: bool) -> str:
    document, before, origin = change.document, change.previous, change.origin
    by = f" by {origin.actor}" if origin.actor else ""
    why = f" ({origin.reason})" if origin.reason else ""
    who = printable(f"{document.topic} {scope_name(document)} {document.version}{by}{why}")
    when = _time(origin.publish_time.ToDatetime(UTC)) if origin.HasField("publish_time") else _now()
    if not document.HasField("policies"):
        return f"{when}  - {who}  {'no document' if snapshot else 'deleted'}"
    if snapshot:
        return f"{when}  = {who}  {compact(document.policies)}"
    known = change.HasField("previous") and before.HasField("policies")
    return f"{when}  ~ {who}  {one_line(before.policies, document.policies) if known else compact(document.policies)}"


def _now() -> str:
    return _time(datetime.now(UTC))


def _time(moment: datetime) -> str:
    here, now = moment.astimezone(), datetime.now().astimezone()
    return here.strftime("%H:%M:%S.%f" if here.date() == now.date() else "%Y-%m-%d %H:%M:%S.%f")[:-3]


def _stamp(moment: Timestamp) -> str:
    return moment.ToDatetime(UTC).astimezone().isoformat(sep=" ", timespec="milliseconds")
