"""Serializes what the history has: entries, gaps, and changes for watches. Documents are the bytes that the history keeps."""

from __future__ import annotations

from typing import Final

from topicpolicies.v1 import service_pb2

from ..core.fold.operation import Status
from ..core.names import PolicyKey, Scope
from ..core.policies.documents import record
from ..history.entries import AMBIGUOUS, OUTCOMES, REPLICATED, STALE, UNEXPLAINED, Gap
from ..history.queries import Entry
from . import answers


def entry(told: Entry, partition: int) -> bytes:
    """Returns a serialized ``HistoryEntry``."""
    rest = service_pb2.HistoryEntry(
        kind=service_pb2.HistoryKind.ValueType(told.kind),
        outcome=service_pb2.HistoryOutcome.ValueType(told.outcome),
        partition=partition,
        position=told.position,
        stale=bool(told.flags & STALE),
        unexplained=bool(told.flags & UNEXPLAINED),
        ambiguous=bool(told.flags & AMBIGUOUS),
        replicated=bool(told.flags & REPLICATED),
        problem=told.problem,
    )
    rest.time.FromMilliseconds(told.at)
    _describe(rest.origin, told)
    if changed := told.changed:
        rest.changed.paths.extend(changed)
    return _documents(told, _DOCUMENT, _PREVIOUS, with_before=True) + rest.SerializeToString()


def changed(told: Entry) -> bool:
    """Returns whether an entry is a change: its event was applied and made a new version of the document."""
    return told.outcome == OUTCOMES[Status.APPLIED] and told.version == told.position


def change(told: Entry, partition: int, *, with_before: bool) -> bytes:
    """Returns an entry as a serialized ``PolicyChange``. ``with_before``: whether it has the document before, too, if that is known."""
    rest = service_pb2.PolicyChange(previous_version=told.previous, partition=partition, position=told.position)
    _describe(rest.origin, told)
    return _documents(told, _CHANGED_DOCUMENT, _CHANGED_PREVIOUS, with_before=with_before) + rest.SerializeToString()


def gap(told: Gap) -> service_pb2.HistoryGap:
    """Returns a gap as a message."""
    message = service_pb2.HistoryGap(reason=service_pb2.HistoryGapReason.ValueType(told.reason))
    if told.since is not None:
        message.start_time.FromMilliseconds(told.since)
    message.end_time.FromMilliseconds(told.until)
    return message


def _documents(told: Entry, after: int, before: int, *, with_before: bool) -> bytes:
    if not told.topic:
        return b""
    key = PolicyKey(told.topic, Scope(told.scope))
    documents = record(after, answers.document(key, told.version, told.after))
    if with_before and told.before_known:
        documents += record(before, answers.document(key, told.previous, told.before))
    return documents


def _describe(origin: service_pb2.ChangeOrigin, told: Entry) -> None:
    origin.actor = told.actor
    origin.actor_standing = service_pb2.ActorStanding.ValueType(told.standing)
    origin.principal = told.principal
    origin.claimed_actor = told.claimed
    origin.trace_parent = told.trace_parent
    origin.reason = told.reason
    origin.request_id = told.request_id
    origin.producer_name = told.producer
    origin.publish_time.FromMilliseconds(told.published_at)
    if paths := told.paths:
        origin.update_mask.paths.extend(paths)


_DOCUMENT: Final = answers.number(service_pb2.HistoryEntry, "document")
_PREVIOUS: Final = answers.number(service_pb2.HistoryEntry, "previous")
_CHANGED_DOCUMENT: Final = answers.number(service_pb2.PolicyChange, "document")
_CHANGED_PREVIOUS: Final = answers.number(service_pb2.PolicyChange, "previous")
