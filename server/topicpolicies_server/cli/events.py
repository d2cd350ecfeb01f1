"""Events of watches and of the history for people, one line each: when, which document, by whom and why, and what changed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from topicpolicies.v1.events_pb2 import ActorStanding, ChangeOrigin
from topicpolicies.v1.history_pb2 import HistoryEntry, HistoryGap, HistoryGapReason, HistoryKind, HistoryOutcome
from topicpolicies.v1.service_pb2 import NamespaceState, PolicyChange
from topicpolicies.values import enum_name

from ..declared.rendering import compact, one_line, policies_of, scope_name
from ..escaping import printable


def line(event: Any, *, snapshot: bool = False) -> str | None:
    """Returns the line of a ``WatchEvent`` or a ``WatchHistoryEvent``; None: it is not shown.

    ``snapshot``: whether a change is a document of the snapshot.
    """
    match event.WhichOneof("content"):
        case "change" if snapshot:
            change, policies = event.change, policies_of(event.change.document)
            sign, what = ("-", "no document") if policies is None else ("=", compact(policies))
            return f"{_of(change, change.origin.publish_time, sign)}{_by(change.origin) if change.origin.actor else ''}  {what}"
        case "change":
            return _changed(event.change, event.change.origin.publish_time)
        case "entry":
            return entry_line(event.entry)
        case "gap":
            return f"{event.namespace}: {gap_line(event.gap)}"
        case "bookmark" if event.bookmark.synced:
            return f"{_time()}  # {event.namespace} is complete"
        case "reset":
            return f"{_time()}  # {printable(event.reset.message) or f'{event.namespace} begins anew'}"
        case "status":
            state = enum_name(NamespaceState.DESCRIPTOR, event.status.state).lower()
            return f"{_time()}  # {printable(event.status.message) or f'{event.namespace}: {state}'}"
        case _:
            return None


def entry_line(entry: HistoryEntry) -> str:
    """Returns the line of an event of the history. A repair or a tombstone restates a change, whose own event says who requested it."""
    kind, outcome = enum_name(HistoryKind.DESCRIPTOR, entry.kind).lower(), enum_name(HistoryOutcome.DESCRIPTOR, entry.outcome).lower()
    if not entry.HasField("document"):
        return f"{_time(entry.time)}  # {kind}: {printable(entry.problem)}"
    if entry.outcome == HistoryOutcome.HISTORY_OUTCOME_APPLIED:
        return _changed(entry, entry.time, kind)
    if entry.outcome == HistoryOutcome.HISTORY_OUTCOME_RESTATED:
        return f"{_of(entry, entry.time, '=')} {kind}: restates the document, and changes nothing"
    return f"{_of(entry, entry.time, '#')} {kind}, {outcome}{_by(entry.origin)}"


def gap_line(gap: HistoryGap) -> str:
    """Returns a line that says in which period events may be missing, and why."""
    begin = _time(gap.start_time) if gap.HasField("start_time") else "the beginning of the log"
    why = enum_name(HistoryGapReason.DESCRIPTOR, gap.reason).lower().replace("_", " ")
    return f"Gap: events may be missing from {begin} to {_time(gap.end_time)}: {why}"


def _of(change: PolicyChange | HistoryEntry, time: Timestamp, sign: str) -> str:
    document = change.document
    return f"{_time(time)}  {sign} {printable(document.topic)} {scope_name(document)} {document.version}"


def _changed(change: PolicyChange | HistoryEntry, time: Timestamp, kind: str = "") -> str:
    before, after = policies_of(change.previous), policies_of(change.document)
    if after is None:
        sign, what = "-", "deleted" if before is None else f"deleted: {compact(before)}"
    elif before is not None:
        sign, what = "~", one_line(before, after)
    else:
        sign, what = ("+", "created: ") if change.HasField("previous") else ("~", "now: ")
        what += compact(after)
    if isinstance(change, HistoryEntry) and before is not None and before == after:  # secrets look the same
        what = f"changed: {', '.join(map(printable, change.changed.paths))}"
    return f"{_of(change, time, sign)}{kind and f' {kind}'}{_by(change.origin)}  {what}"


def _by(origin: ChangeOrigin) -> str:
    claimed = origin.actor_standing == ActorStanding.ACTOR_STANDING_UNAUTHENTICATED
    parts = [
        f" by {origin.actor or 'UNKNOWN'}{' (not authenticated)' if claimed else ''}",
        f"for whom {origin.principal} called" if origin.principal not in ("", origin.actor) else "",
        f'who named "{origin.claimed_actor}" as the actor' if origin.claimed_actor else "",
        f"producer {origin.producer_name}" if origin.producer_name else "",
        f"as {origin.owner} declares" if origin.owner else "",
        f"why: {origin.reason}" if origin.reason else "",
    ]
    return printable(", ".join(filter(None, parts)))


def _time(moment: Timestamp | None = None) -> str:
    """Returns a moment, by default now, in local time."""
    found = moment.ToDatetime(UTC) if moment is not None and moment.ToNanoseconds() else datetime.now(UTC)
    return f"{found.astimezone():%Y-%m-%d %H:%M:%S.%f}"[:-3]
