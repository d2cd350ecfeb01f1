"""A sidecar's history as rows: it keeps events that compaction has removed from the log since.

There is a row for every event that the sidecar has read, with the document after the event. A row with the action ``GAP`` says from when to
when events may be missing, and why.
"""

from __future__ import annotations

from collections.abc import Iterator

from topicpolicies import HistoryEntry, HistoryGap, HistoryKind, HistoryOutcome
from topicpolicies_server.logs.pulsar.ids import message_id_of

from . import documents
from .copying import Copy
from .options import Options, microseconds
from .rows import Change
from .sidecars import connected

_APPLIED = (HistoryOutcome.APPLIED, HistoryOutcome.RESTATED)


def read_history(options: Options, namespace: str) -> Iterator[Change]:
    """Yields the rows of a namespace's history in the order of its log; the rows of gaps come last.

    Raises:
        TopicPoliciesError: the sidecar can't be reached, keeps no history, or refuses the call.
    """
    with connected(options) as client, Copy(client, namespace, None) as copy:
        for entry in copy:
            if selects_entry(options, entry):
                yield change_of(namespace, entry, copy.log)
        for gap, log in dict.fromkeys(copy.gaps):
            if selects_gap(options, gap):
                yield gap_of(namespace, gap, log)


def selects_entry(options: Options, entry: HistoryEntry) -> bool:
    """Returns whether the options select an entry."""
    topic = entry.document.topic if entry.document is not None else ""
    return options.published(microseconds(entry.time)) and (not options.topics or topic in options.topics)


def selects_gap(options: Options, gap: HistoryGap) -> bool:
    """Returns whether events that the options select may be missing in a gap."""
    if options.since is not None and microseconds(gap.end) <= options.since:
        return False
    return options.until is None or gap.start is None or microseconds(gap.start) < options.until


def change_of(namespace: str, entry: HistoryEntry, log: str) -> Change:
    """Returns the row of an entry. ``log``: the identity of its log."""
    try:
        place = message_id_of(entry.position)
    except ValueError:
        place = None  # the embedded log's positions are row numbers
    document, origin = entry.document, entry.origin
    return Change(
        namespace=namespace,
        topic=document.topic if document is not None else None,
        scope=document.scope.name if document is not None else None,
        partition=entry.partition,
        position=entry.position,
        ledger=place.ledger if place is not None else None,
        entry=place.entry if place is not None else None,
        published=microseconds(entry.time),
        action=_action(entry),
        origin=entry.kind.name.lower(),
        producer=origin.producer_name,
        actor=origin.actor or None,
        request_id=origin.request_id or None,
        event_id=None,
        mask=list(origin.update_mask) if origin.update_mask is not None else None,
        base=None,
        policies=documents.value_of(document.policies) if document is not None and document.policies is not None else None,
        problem=entry.problem or None,
        log=log or None,
    )


def _action(entry: HistoryEntry) -> str:
    """Returns the action of an event, in the words of the log: NONE for an event that did not count."""
    if entry.kind in (HistoryKind.UNREADABLE, HistoryKind.TOMBSTONE):
        return entry.kind.name
    if entry.outcome not in _APPLIED:
        return "NONE"
    return "UPDATE" if entry.document is not None and entry.document.exists else "DELETE"


def gap_of(namespace: str, gap: HistoryGap, log: str) -> Change:
    """Returns the row of a gap. ``log``: the identity of the log that follows, if the log was replaced; else empty."""
    reason = gap.reason.name.lower().replace("_", " ")
    begin = gap.start.isoformat(timespec="milliseconds") if gap.start is not None else "the beginning"
    end = gap.end.isoformat(timespec="milliseconds")
    return Change(
        namespace=namespace, topic=None, scope=None, partition=0, position="", ledger=None, entry=None,
        published=microseconds(gap.end), action="GAP", origin="history", producer="", actor=None, request_id=None, event_id=None,
        mask=None, base=None, policies=None, problem=f"events may be missing from {begin} to {end}: {reason}", log=log or None,
    )  # fmt: skip
