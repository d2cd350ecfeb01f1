"""The events of a watch for people: one line each."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from topicpolicies.v1.service_pb2 import NamespaceState, NamespaceStatus, PolicyChange

from ...escaping import printable
from .entries import gap_line
from .rendering import compact, differences, scope_name

_STATES = {
    NamespaceState.NAMESPACE_STATE_LOADING: "is being read",
    NamespaceState.NAMESPACE_STATE_READY: "is followed",
    NamespaceState.NAMESPACE_STATE_FAILED: "is unavailable",
    NamespaceState.NAMESPACE_STATE_DISABLED: "is disabled",
}


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
            return f"{_now()}  # {line_of_status(event.namespace, event.status)}"
        case _:
            return None


def line_of_status(namespace: str, status: NamespaceStatus) -> str:
    """Returns the state of a namespace, in a line without a time."""
    told = f"{namespace} {_STATES.get(status.state, 'is in a state that this program does not know')}"
    return f"{told}: {printable(status.message)}" if status.message.rstrip(".") not in ("", told) else told


def _changed(change: PolicyChange, *, snapshot: bool) -> str:
    document, before = change.document, change.previous
    if not document.HasField("policies"):
        return f"{_when(change)}  - {_who(change)}  {'no document' if snapshot else 'deleted'}"
    if snapshot:
        return f"{_when(change)}  = {_who(change)}  {compact(document.policies)}"
    known = change.HasField("previous") and before.HasField("policies")
    what = differences(before.policies, document.policies) if known else compact(document.policies)
    return f"{_when(change)}  ~ {_who(change)}  {what}"


def _when(change: PolicyChange) -> str:
    origin = change.origin
    return _time(origin.publish_time.ToDatetime(UTC)) if origin.HasField("publish_time") else _now()


def _who(change: PolicyChange) -> str:
    document, origin = change.document, change.origin
    actor = f" by {origin.actor}" if origin.actor else ""
    why = f" ({origin.reason})" if origin.reason else ""
    return printable(f"{document.topic} {scope_name(document)} {document.version}{actor}{why}")


def _now() -> str:
    return _time(datetime.now(UTC))


def _time(moment: datetime) -> str:
    here, now = moment.astimezone(), datetime.now().astimezone()
    return here.strftime("%H:%M:%S.%f" if here.date() == now.date() else "%Y-%m-%d %H:%M:%S.%f")[:-3]
