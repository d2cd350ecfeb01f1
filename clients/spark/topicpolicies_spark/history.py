"""A sidecar's history as rows: it keeps events that compaction has removed from the log since.

There is a row for every event that the sidecar has read, with the document after the event. A row with the action ``GAP`` says from when to
when events may be missing, and why.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC

from grpc import StatusCode

from topicpolicies import Unavailable
from topicpolicies.v1.history_pb2 import HistoryEntry, HistoryGap, HistoryGapReason, HistoryKind, HistoryOutcome
from topicpolicies.v1.policies_pb2 import Scope
from topicpolicies.values import enum_name

from . import documents
from .copying import copied
from .options import Options
from .rows import Change
from .sidecars import connected

_APPLIED = (HistoryOutcome.HISTORY_OUTCOME_APPLIED, HistoryOutcome.HISTORY_OUTCOME_RESTATED)


def read_history(options: Options, namespace: str, behind: str = "", until: str = "") -> Iterator[Change]:
    """Yields the rows of a namespace's history, between two positions (``copied``).

    Raises:
        OutOfRange: the sidecar's history does not know the positions.
        TopicPoliciesError: the sidecar can't be reached, refuses the call, keeps no history, or has one that ends before ``until``.
    """
    reached = behind
    with connected(options) as client:
        for position, content in copied(client, namespace, behind, until):
            reached = position
            if content is not None and selects(options, content):
                yield (
                    _change_of(namespace, position, content) if isinstance(content, HistoryEntry) else _gap_of(namespace, position, content)
                )
    if reached < until:
        problem = f"The sidecar's history of {namespace} ends before what was to be read of it."
        raise Unavailable(problem, code=StatusCode.UNAVAILABLE)


def selects(options: Options, content: HistoryEntry | HistoryGap) -> bool:
    """Returns whether the options select an entry, or an entry that they select may be missing in a gap."""
    if isinstance(content, HistoryEntry):
        return options.published(content.time.ToMicroseconds()) and (not options.topics or content.document.topic in options.topics)
    if options.since is not None and content.end_time.ToMicroseconds() <= options.since:
        return False
    return options.until is None or not content.HasField("start_time") or content.start_time.ToMicroseconds() < options.until


def _change_of(namespace: str, position: str, entry: HistoryEntry) -> Change:
    document, origin = entry.document, entry.origin
    known = entry.HasField("document")
    return Change(
        namespace=namespace,
        topic=document.topic if known else None,
        scope=enum_name(Scope.DESCRIPTOR, document.scope) if known else None,
        partition=0,
        position=position,
        version=document.version if known else None,
        ledger=None,
        entry=None,
        published=entry.time.ToMicroseconds(),
        action=_action(entry),
        origin=enum_name(HistoryKind.DESCRIPTOR, entry.kind).lower(),
        producer=origin.producer_name,
        actor=origin.actor or None,
        request_id=origin.request_id or None,
        event_id=None,
        mask=list(origin.update_mask.paths) if origin.HasField("update_mask") else None,
        base=None,
        policies=documents.value_of(document.policies) if document.HasField("policies") else None,
        problem=entry.problem or None,
    )


def _action(entry: HistoryEntry) -> str:
    """Returns the action of an event, in the words of the log: NONE for an event that did not count."""
    if entry.kind in (HistoryKind.HISTORY_KIND_UNREADABLE, HistoryKind.HISTORY_KIND_TOMBSTONE):
        return enum_name(HistoryKind.DESCRIPTOR, entry.kind)
    if entry.outcome not in _APPLIED:
        return "NONE"
    return "UPDATE" if entry.document.HasField("policies") else "DELETE"


def _gap_of(namespace: str, position: str, gap: HistoryGap) -> Change:
    reason = enum_name(HistoryGapReason.DESCRIPTOR, gap.reason).lower().replace("_", " ")
    begin, end = (time.ToDatetime(UTC).isoformat(timespec="milliseconds") for time in (gap.start_time, gap.end_time))
    begin = begin if gap.HasField("start_time") else "the beginning"
    return Change(
        namespace=namespace, topic=None, scope=None, partition=0, position=position, version=None, ledger=None, entry=None,
        published=gap.end_time.ToMicroseconds(), action="GAP", origin="history", producer="", actor=None, request_id=None, event_id=None,
        mask=None, base=None, policies=None, problem=f"events may be missing from {begin} to {end}: {reason}",
    )  # fmt: skip
