"""The events of a watch for people: one line each."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import unquote

from topicpolicies import Bookmark, Changed, Gap, Interrupted, Mirror, NamespaceState, Reset, Status, Synced

from ...escaping import printable
from .entries import gap_line
from .rendering import compact, differences

_STATES = {
    NamespaceState.LOADING: "is being read",
    NamespaceState.READY: "is followed",
    NamespaceState.FAILED: "is unavailable",
    NamespaceState.DISABLED: "is disabled",
    NamespaceState.UNSPECIFIED: "is in a state that this program does not know",
}


def line(event: Changed | Gap | Synced | Bookmark | Status | Reset | Interrupted, known: Mirror) -> str | None:
    """Returns the line of an event; None: it is not shown. ``known``: the documents before the event."""
    match event:
        case Changed():
            return _changed(event, known)
        case Gap():
            return f"{_now()}  # {event.namespace}: {gap_line(event.gap)}"
        case Synced():
            return f"{_now()}  # {event.namespace} is complete"
        case Reset():
            return f"{_now()}  # {printable(event.message) or f'{event.namespace} begins anew'}"
        case Status():
            return f"{_now()}  # {line_of_status(event)}"
        case Interrupted():
            return f"{_now()}  # interrupted, again in {event.retry_in_seconds:.1f} s: {printable(unquote(event.error.message))}"
        case Bookmark():
            return None


def line_of_status(event: Status) -> str:
    """Returns the state of a namespace, in a line without a time."""
    told = f"{event.namespace} {_STATES[event.state]}"
    return f"{told}: {printable(event.message)}" if event.message.rstrip(".") not in ("", told) else told


def _changed(event: Changed, known: Mirror) -> str:
    policies = event.document.policies
    if policies is None:
        return f"{_when(event)}  - {_who(event)}  {'no document' if event.snapshot else 'deleted'}"
    if event.snapshot:
        return f"{_when(event)}  = {_who(event)}  {compact(policies)}"
    before = event.previous or known.get(event.document.topic, event.document.scope)
    what = compact(policies) if before is None or before.policies is None else differences(before.policies, policies)
    return f"{_when(event)}  ~ {_who(event)}  {what}"


def _when(event: Changed) -> str:
    published = event.origin.publish_time if event.origin is not None else None
    return _now() if published is None else _time(published)


def _who(event: Changed) -> str:
    document, origin = event.document, event.origin
    actor = f" by {origin.actor}" if origin is not None and origin.actor else ""
    why = f" ({origin.reason})" if origin is not None and origin.reason else ""
    return printable(f"{document.topic} {document.scope.name} {document.version}{actor}{why}")


def _now() -> str:
    return _time(datetime.now(UTC))


def _time(moment: datetime) -> str:
    here, now = moment.astimezone(), datetime.now().astimezone()
    return here.strftime("%H:%M:%S.%f" if here.date() == now.date() else "%Y-%m-%d %H:%M:%S.%f")[:-3]
