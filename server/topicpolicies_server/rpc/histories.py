"""ListHistory and GetPolicyAsOf, and the entries and gaps of the history as messages, which watches send too.

Documents go into an answer as the bytes that the history keeps.
"""

from __future__ import annotations

import time
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from topicpolicies.v1 import events_pb2, history_pb2, service_pb2

from ..access import Permission
from ..core.errors import Kind, PolicyError
from ..core.fold.operation import Status
from ..core.names import PolicyKey, Scope, parse_namespace, parse_topic
from ..core.policies.documents import record
from ..core.policies.events import LATEST_MS, Action
from ..core.reasons import Reason, ViolationReason
from ..history.entries import AMBIGUOUS, OUTCOMES, REPLICATED, STALE, UNEXPLAINED, Entry, EntryPlace, Gap
from ..history.file import LATEST, Query
from ..history.history import History, Past
from ..namespaces.registry import Registry
from .answers import document, origin, tag_of
from .calls import Call
from .dependencies import Dependencies
from .problems import MOST_ACTOR, Problems, read_scope, read_scopes, read_topic
from .reads import page_token, read_page_token

_FUTURE_MS = 60_000
"""How far a time may lie in the future, because clocks differ; it then means the present."""


def of(registry: Registry) -> History:
    """Returns the server's history.

    Raises:
        PolicyError: FAILED_PRECONDITION (``HISTORY_OFF``), the server keeps none.
    """
    if registry.common.history is None:
        raise PolicyError(
            Kind.FAILED_PRECONDITION,
            Reason.HISTORY_OFF,
            "This server keeps no history: start it with --history FILE, or use a server that does.",
        )
    return registry.common.history


async def list_history(dependencies: Dependencies, message: history_pb2.ListHistoryRequest, call: Call) -> bytes:
    """Serves ListHistory."""
    call.target = message.topic or message.namespace
    problems = Problems()
    topic = read_topic(message.topic, problems) if message.topic else None
    namespace = problems.gather(parse_namespace, message.namespace, "namespace") if message.namespace else None
    if bool(message.topic) == bool(message.namespace):
        reason = ViolationReason.CONTRADICTION if message.topic else ViolationReason.NOTHING_SELECTED
        problems.add("topic", reason, "Name either a topic or a namespace.")
    scopes = read_scopes(message.scopes, problems)
    start = _milliseconds(message.start_time, "start_time", problems, up=True) if message.HasField("start_time") else 0
    end = _milliseconds(message.end_time, "end_time", problems, up=True) if message.HasField("end_time") else LATEST
    actor = problems.text(message.actor, "actor", MOST_ACTOR) if message.HasField("actor") else None
    most = problems.page_size(message.page_size)
    name, full = (topic.namespace, topic.full) if topic is not None else (namespace or "", "")
    query = Query(name, full, scopes, start, end, actor, not message.oldest_first, None, most)
    listing = tuple(query._replace(after=None, most=0, scopes=frozenset())), sorted(scopes)
    query = query._replace(after=read_page_token(listing, message.page_token, _place, problems))
    problems.check()
    await call.permit(dependencies.grants, name, Permission.HISTORY)
    history, following = of(dependencies.registry), await _may_be_loaded(dependencies, name, full)
    if following:
        try:
            await dependencies.registry.get(name).ready()
        except PolicyError:  # what the history has recorded can be listed all the same
            following = False
    page = await history.page(query)
    last = page.entries[-1].place if page.more else None
    token = page_token(listing, f"{last.at}.{last.id}") if last is not None else ""
    rest = history_pb2.ListHistoryResponse(next_page_token=token, gaps=map(gap_message, page.gaps), following=following)
    entries = (record(_ENTRIES, entry_message(entry)) for entry in page.entries)
    return b"".join(entries) + rest.SerializeToString()


async def get_policy_as_of(dependencies: Dependencies, message: history_pb2.GetPolicyAsOfRequest, call: Call) -> bytes:
    """Serves GetPolicyAsOf: the document as it was at a time, or as a version."""
    call.target = message.topic
    problems = Problems()
    topic = read_topic(message.topic, problems)
    scope = read_scope(message.scope, problems)
    at, version = 0, ""
    if message.HasField("time"):
        at = _milliseconds(message.time, "time", problems)
        if at > time.time_ns() // 1_000_000 + _FUTURE_MS:
            problems.add("time", ViolationReason.IN_THE_FUTURE, "time is in the future: use a time in the past.")
    elif not message.version:
        problems.add("as_of", ViolationReason.NOTHING_SELECTED, "Name a time, or a version.")
    else:
        version = problems.version(message.version, "version")
    problems.check()
    assert topic is not None, "checked"
    name, key = topic.namespace, topic.key(scope)
    await call.permit(dependencies.grants, name, Permission.HISTORY)
    history, followed = of(dependencies.registry), await _may_be_loaded(dependencies, name, topic.full)
    head = await dependencies.registry.get(name).get(key) if followed else None
    past: Past = await history.past(name, key, head, at=at, version=version, followed=followed)
    return document(key, past.version, past.document)


async def _may_be_loaded(dependencies: Dependencies, namespace: str, topic: str) -> bool:
    """Returns whether a request of the history may load a namespace: not if policies are disabled, or that can't be found out."""
    if dependencies.cluster is None:
        return True
    try:
        return not await dependencies.cluster.disabled(namespace, topic)
    except PolicyError:
        return False


def entry_message(entry: Entry) -> bytes:
    """Returns a serialized ``HistoryEntry``."""
    rest = history_pb2.HistoryEntry(
        kind=history_pb2.HistoryKind.ValueType(entry.kind),
        outcome=history_pb2.HistoryOutcome.ValueType(entry.outcome),
        stale=bool(entry.flags & STALE),
        unexplained=bool(entry.flags & UNEXPLAINED),
        ambiguous=bool(entry.flags & AMBIGUOUS),
        replicated=bool(entry.flags & REPLICATED),
        problem=entry.problem,
        origin=origin(entry.producer, entry.published_at, entry, entry.paths),
    )
    rest.time.FromMilliseconds(entry.at)
    if changed := entry.changed:
        rest.changed.paths.extend(changed)
    event = _event(entry) if entry.topic else b""
    return _documents(entry, _DOCUMENT, _PREVIOUS, with_before=True) + event + rest.SerializeToString()


def is_change(entry: Entry) -> bool:
    """Returns whether an entry is a change: its event was applied and made a new version of the document."""
    return entry.outcome == OUTCOMES[Status.APPLIED] and entry.version == entry.position


def change_message(entry: Entry, *, with_before: bool) -> bytes:
    """Returns an entry as a serialized ``PolicyChange``. ``with_before``: whether it has the document before, too, if that is known."""
    rest = service_pb2.PolicyChange(previous_version=entry.previous, origin=origin(entry.producer, entry.published_at, entry, entry.paths))
    return _documents(entry, _CHANGED_DOCUMENT, _CHANGED_PREVIOUS, with_before=with_before) + rest.SerializeToString()


def gap_message(gap: Gap) -> history_pb2.HistoryGap:
    """Returns a gap as a message."""
    message = history_pb2.HistoryGap(reason=history_pb2.HistoryGapReason.ValueType(gap.reason))
    if gap.since is not None:
        message.start_time.FromMilliseconds(gap.since)
    message.end_time.FromMilliseconds(gap.until)
    return message


def _documents(entry: Entry, after: bytes, before: bytes, *, with_before: bool) -> bytes:
    if not entry.topic:
        return b""
    key = PolicyKey(entry.topic, Scope(entry.scope))
    documents = record(after, document(key, entry.version, entry.after))
    if with_before and entry.before_known:
        documents += record(before, document(key, entry.previous, entry.before))
    return documents


def _event(entry: Entry) -> bytes:
    """Returns the event as it stands in the log, as the field of an entry. Of an event that does nothing, the type is not known."""
    event = events_pb2.PulsarEvent(action_type=events_pb2.ActionType.ValueType(entry.action), replicate_to=entry.clusters)
    if entry.action != Action.NONE:
        event.event_type = events_pb2.EVENT_TYPE_TOPIC_POLICY
    domain, tenant, namespace, local = parse_topic(entry.topic)
    topic = events_pb2.TopicPoliciesEvent(domain=domain, tenant=tenant, namespace=namespace, topic=local).SerializeToString()
    if entry.written is not None:
        topic += record(_EVENT_POLICIES, entry.written)
    return record(_EVENT, event.SerializeToString() + record(_EVENT_TOPIC, topic))


def _milliseconds(time_stamp: Timestamp, field: str, problems: Problems, *, up: bool = False) -> int:
    """Reads a time in milliseconds, the history's precision: rounded down as a moment, or up as a bound (``up``); violations are noted."""
    found = time_stamp.seconds * 1000 + (time_stamp.nanos + 999_999 * up) // 1_000_000
    if not (0 <= found <= LATEST_MS and 0 <= time_stamp.nanos < 1_000_000_000):
        problems.add(field, ViolationReason.OUT_OF_BOUNDS, f"{field} must be a time between the years 1970 and 9999.")
        return 0
    return found


def _place(text: str) -> EntryPlace:
    at, entry_id = text.split(".")
    place = EntryPlace(int(at), int(entry_id))
    if not all(0 <= part <= LATEST for part in place):
        raise ValueError(text)
    return place


_ENTRIES: Final = tag_of(history_pb2.ListHistoryResponse, "entries")
_DOCUMENT: Final = tag_of(history_pb2.HistoryEntry, "document")
_PREVIOUS: Final = tag_of(history_pb2.HistoryEntry, "previous")
_EVENT: Final = tag_of(history_pb2.HistoryEntry, "event")
_EVENT_TOPIC: Final = tag_of(events_pb2.PulsarEvent, "topic_policies_event")
_EVENT_POLICIES: Final = tag_of(events_pb2.TopicPoliciesEvent, "policies")
_CHANGED_DOCUMENT: Final = tag_of(service_pb2.PolicyChange, "document")
_CHANGED_PREVIOUS: Final = tag_of(service_pb2.PolicyChange, "previous")
