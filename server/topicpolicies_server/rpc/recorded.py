"""Serializes what the history has: entries, gaps, and changes for watches. Documents are the bytes that the history keeps."""

from __future__ import annotations

from typing import Final

from topicpolicies.v1 import events_pb2, history_pb2, service_pb2

from ..core.fold.operation import Status
from ..core.names import PolicyKey, Scope, parse_topic
from ..core.policies.documents import record
from ..core.policies.events import Action
from ..history.entries import AMBIGUOUS, OUTCOMES, REPLICATED, STALE, UNEXPLAINED, Entry, Gap
from . import answers


def entry(told: Entry) -> bytes:
    """Returns a serialized ``HistoryEntry``."""
    rest = history_pb2.HistoryEntry(
        kind=history_pb2.HistoryKind.ValueType(told.kind),
        outcome=history_pb2.HistoryOutcome.ValueType(told.outcome),
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
    event = _event(told) if told.topic else b""
    return _documents(told, _DOCUMENT, _PREVIOUS, with_before=True) + event + rest.SerializeToString()


def changed(told: Entry) -> bool:
    """Returns whether an entry is a change: its event was applied and made a new version of the document."""
    return told.outcome == OUTCOMES[Status.APPLIED] and told.version == told.position


def change(told: Entry, *, with_before: bool) -> bytes:
    """Returns an entry as a serialized ``PolicyChange``. ``with_before``: whether it has the document before, too, if that is known."""
    rest = service_pb2.PolicyChange(previous_version=told.previous)
    _describe(rest.origin, told)
    return _documents(told, _CHANGED_DOCUMENT, _CHANGED_PREVIOUS, with_before=with_before) + rest.SerializeToString()


def gap(told: Gap) -> history_pb2.HistoryGap:
    """Returns a gap as a message."""
    message = history_pb2.HistoryGap(reason=history_pb2.HistoryGapReason.ValueType(told.reason))
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


def _event(told: Entry) -> bytes:
    """Returns the event as it stands in the log, as the field of an entry. Of an event that does nothing, the type is not known."""
    event = events_pb2.PulsarEvent(action_type=events_pb2.ActionType.ValueType(told.action), replicate_to=told.clusters)
    if told.action != Action.NONE:
        event.event_type = events_pb2.EVENT_TYPE_TOPIC_POLICY
    domain, tenant, namespace, local = parse_topic(told.topic)
    topic = events_pb2.TopicPoliciesEvent(domain=domain, tenant=tenant, namespace=namespace, topic=local).SerializeToString()
    if told.written is not None:
        topic += record(_EVENT_POLICIES, told.written)
    return record(_EVENT, event.SerializeToString() + record(_EVENT_TOPIC, topic))


def _describe(origin: events_pb2.ChangeOrigin, told: Entry) -> None:
    origin.actor = told.actor
    origin.actor_standing = events_pb2.ActorStanding.ValueType(told.standing)
    origin.principal = told.principal
    origin.claimed_actor = told.claimed
    origin.trace_parent = told.trace_parent
    origin.reason = told.reason
    origin.request_id = told.request_id
    origin.producer_name = told.producer
    origin.publish_time.FromMilliseconds(told.published_at)
    if paths := told.paths:
        origin.update_mask.paths.extend(paths)


_DOCUMENT: Final = answers.number(history_pb2.HistoryEntry, "document")
_PREVIOUS: Final = answers.number(history_pb2.HistoryEntry, "previous")
_EVENT: Final = answers.number(history_pb2.HistoryEntry, "event")
_EVENT_TOPIC: Final = answers.number(events_pb2.PulsarEvent, "topic_policies_event")
_EVENT_POLICIES: Final = answers.number(events_pb2.TopicPoliciesEvent, "policies")
_CHANGED_DOCUMENT: Final = answers.number(service_pb2.PolicyChange, "document")
_CHANGED_PREVIOUS: Final = answers.number(service_pb2.PolicyChange, "previous")
