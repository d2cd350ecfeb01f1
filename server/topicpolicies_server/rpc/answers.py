"""From the core's terms to answers. A document goes into its answer as the bytes that it is; nothing is parsed on the way out.

``Wire`` makes those bytes: ``secrets.wire`` leaves the secrets out, ``documents.wire`` does not. What is one of many in a batch
is a *record*: a field with its tag, so that a batch is made by joining them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from google.protobuf.message import Message

from topicpolicies import errors
from topicpolicies.v1 import errors_pb2, events_pb2, policies_pb2, service_pb2

from ..core.chains.sequencer import Outcome, Request, Result
from ..core.errors import PolicyError
from ..core.names import PolicyKey, parse_topic
from ..core.policies.documents import Settings, record, varint
from ..core.policies.events import ABSENT, Event, Placed, Position, Stamp
from ..core.policies.secrets import SETTING
from ..core.reading.view import Head
from ..core.reading.watch import Token
from ..core.reasons import Reason
from .errors import status

Wire: TypeAlias = Callable[[Settings], bytes]
"""How a document is shown."""

_UPDATED_OUTCOMES = {outcome: outcome.value for outcome in Outcome}
"""What became of an update."""
_DELETED = {
    Outcome.APPLIED: service_pb2.DELETE_OUTCOME_DELETED,
    Outcome.UNCHANGED: service_pb2.DELETE_OUTCOME_ABSENT,
    Outcome.WOULD_APPLY: service_pb2.DELETE_OUTCOME_WOULD_DELETE,
}
"""What became of a deletion."""


def number(message: type[Message], field: str) -> int:
    """A field's number."""
    return message.DESCRIPTOR.fields_by_name[field].number


def document(key: PolicyKey, version: Position, policies: bytes | None, *, disabled: bool = False) -> bytes:
    """A serialized ``PolicyDocument``; ``policies`` is its document's wire form, None for none."""
    topic, scope = key
    name, at = topic.encode(), version.encode()
    if disabled or not 0 < len(at) < _LONG or not 0 < len(name) < _LONG:
        head = policies_pb2.PolicyDocument(
            topic=topic, scope=policies_pb2.Scope.ValueType(scope), version=version, disabled=disabled
        ).SerializeToString()
    else:
        head = _DOCUMENT_HEAD % (len(name), name, scope, len(at), at)
    return head if policies is None else head + record(_POLICIES, policies)


def present(key: PolicyKey, head: Head | None, wire: Wire) -> bytes:
    """A serialized ``PolicyDocument`` of a head; None: the log knows nothing of the key."""
    settings = head.document if head is not None else None
    return document(key, head.version if head is not None else ABSENT, None if settings is None else wire(settings))


def update_answer(request: Request, result: Result, wire: Wire) -> bytes:
    """A serialized ``UpdatePolicyResponse``."""
    rest = _short(request, result, _UPDATED_OUTCOMES[result.outcome])
    if rest is None:
        rest = service_pb2.UpdatePolicyResponse(
            version=result.version,
            previous_version=result.previous,
            outcome=service_pb2.UpdateOutcome.ValueType(result.outcome.value),
            request_id=request.request_id,
            replayed=result.replayed,
        ).SerializeToString()
    return _documents(request, result, wire) + rest


def delete_answer(request: Request, result: Result, wire: Wire) -> bytes:
    """A serialized ``DeletePolicyResponse``."""
    rest = _short(request, result, _DELETED[result.outcome])
    if rest is None:
        rest = service_pb2.DeletePolicyResponse(
            version=result.version,
            previous_version=result.previous,
            outcome=_DELETED[result.outcome],
            request_id=request.request_id,
            replayed=result.replayed,
        ).SerializeToString()
    return _documents(request, result, wire) + rest


def _short(request: Request, result: Result, outcome: int) -> bytes | None:
    """What both answers say besides documents, in one step, where it is as it mostly is; None: it is not."""
    version, previous, request_id = result.version.encode(), result.previous.encode(), request.request_id.encode()
    lengths = len(version), len(previous), len(request_id)
    if result.replayed or not (min(lengths) > 0 and max(lengths) < _LONG):
        return None
    return _REST % (lengths[1], previous, outcome, lengths[2], request_id, lengths[0], version)


def _documents(request: Request, result: Result, wire: Wire) -> bytes:
    """The fields ``document`` and ``previous``, which have the same numbers in both answers."""
    answer = b""
    if result.known or (request.change is None and result.version):
        policies = None if result.document is None else wire(result.document)
        answer = record(_DOCUMENT, document(request.key, result.version, policies))
    if request.include_previous and result.before_known:
        before = None if result.before is None else wire(result.before)
        answer += record(_PREVIOUS, document(request.key, result.previous, before))
    return answer


def result_record(sequence: int, request: Request | None, answer: bytes | PolicyError) -> bytes:
    """A record of ``UpdatePoliciesResponse``: what became of one change of a batch."""
    if isinstance(answer, PolicyError):
        return record(_RESULTS, service_pb2.PolicyChangeResult(sequence=sequence, error=status(answer)).SerializeToString())
    assert request is not None, "an answer answers a request"
    told = record(_UPDATED if request.change is not None else _DELETED_FIELD, answer)
    return record(_RESULTS, _SEQUENCE + varint(sequence) + told if sequence else told)


def get_answer(documents: Iterable[bytes]) -> bytes:
    """A serialized ``GetPolicyResponse`` of serialized documents."""
    return b"".join(record(_GOT, each) for each in documents)


def list_answer(heads: list[Head], next_page: str, token: Token | None, wire: Wire) -> bytes:
    """A serialized ``ListPoliciesResponse``."""
    rest = service_pb2.ListPoliciesResponse(next_page_token=next_page, token=watch_token(token) if token is not None else None)
    return b"".join(record(_LISTED, present(head.key, head, wire)) for head in heads) + rest.SerializeToString()


def watch_token(token: Token) -> service_pb2.WatchToken:
    """A place to resume from."""
    return service_pb2.WatchToken(log=token.log, positions=token.positions, left_out=token.left_out)


def event_record(event: service_pb2.WatchEvent) -> bytes:
    """A record of ``WatchPoliciesResponse``."""
    return record(_EVENTS, event.SerializeToString())


def bookmark(namespace: str, kind: service_pb2.BookmarkKind.ValueType, token: Token, confirmed_ms: int) -> bytes:
    """A record of a watch: a bookmark; ``confirmed_ms``: as of when, in milliseconds since 1970."""
    event = service_pb2.WatchEvent(namespace=namespace, bookmark=service_pb2.Bookmark(kind=kind, token=watch_token(token)))
    event.bookmark.confirmed_time.FromMilliseconds(confirmed_ms)
    return event_record(event)


def namespace_status(namespace: str, state: service_pb2.NamespaceState.ValueType, reason: Reason | None, message: str) -> bytes:
    """A record of a watch: the state of a namespace."""
    status = service_pb2.NamespaceStatus(state=state, reason=reason_number(reason), message=message[:_MOST_MESSAGE])
    return event_record(service_pb2.WatchEvent(namespace=namespace, status=status))


def reset(namespace: str, reason: Reason, message: str) -> bytes:
    """A record of a watch: the namespace begins anew."""
    told = service_pb2.WatchReset(reason=reason_number(reason), message=message[:_MOST_MESSAGE])
    return event_record(service_pb2.WatchEvent(namespace=namespace, reset=told))


def reason_number(reason: Reason | None) -> errors_pb2.ErrorReason.ValueType:
    """A reason as its enum has it."""
    return errors.reason_number("" if reason is None else reason.value)


def change_record(namespace: str, change: Head, wire: Wire, *, with_before: bool, own: bool = False) -> bytes:
    """A record of a watch: a change, made once, the same bytes for every watcher.

    Args:
        namespace: ``tenant/namespace``.
        change: what is told.
        wire: how documents are shown.
        with_before: whether the document before is told too.
        own: whether ``wire`` is another one than that of most; where there are secrets the bytes are then made anew.
    """
    if own and _has_secrets(change):
        return _change_record(namespace, change, wire, with_before=with_before)
    if not with_before or change.before is None:
        if change.encoded is None:
            change.encoded = _change_record(namespace, change, wire, with_before=False)
        return change.encoded
    if change.with_before is None:
        change.with_before = _change_record(namespace, change, wire, with_before=True)
    return change.with_before


def _has_secrets(change: Head) -> bool:
    """Whether there may be secrets in what is told of a change."""
    event, before = change.event, change.before.document if change.before is not None else None
    told = (change.document, before, event.document if event is not None else None)
    return any(document is not None and SETTING in document for document in told)


def disabled_record(namespace: str, key: PolicyKey) -> bytes:
    """A record of a watch: a topic that was asked for has its policies disabled."""
    return watched(namespace, _CHANGE, record(_CHANGED_DOCUMENT, document(key, ABSENT, None, disabled=True)))


def _change_record(namespace: str, change: Head, wire: Wire, *, with_before: bool) -> bytes:
    rest = service_pb2.PolicyChange(previous_version=change.previous)
    placed = change.placed
    if placed is not None:
        rest.partition = placed.partition
        rest.position = placed.position
        _describe(rest.origin, placed, change.document, wire)
    body = record(_CHANGED_DOCUMENT, present(change.key, change, wire))
    if with_before and change.before is not None:
        before = change.before.document
        body += record(_CHANGED_PREVIOUS, document(change.key, change.previous, None if before is None else wire(before)))
    return watched(namespace, _CHANGE, body + rest.SerializeToString())


def watched(namespace: str, field: int, content: bytes) -> bytes:
    """A record of a watch: a ``WatchEvent`` with a content that is serialized already."""
    return record(_EVENTS, record(_NAMESPACE, namespace.encode()) + record(field, content))


def _describe(origin: service_pb2.ChangeOrigin, placed: Placed, head: Settings | None, wire: Wire) -> None:
    origin.producer_name = placed.producer
    origin.publish_time.FromMilliseconds(placed.published_at)
    event = placed.event
    if event is None:
        return
    stamp = event.stamp
    if stamp is not None:
        origin.actor = stamp.actor
        origin.principal = stamp.principal
        origin.claimed_actor = stamp.claimed
        origin.trace_parent = stamp.trace_parent
        origin.reason = stamp.reason
        origin.request_id = stamp.request_id
        if stamp.mask:
            origin.update_mask.paths.extend(stamp.mask)
    origin.actor_standing = _standing(stamp)
    _quote(origin.event, event, head, wire)


def _standing(stamp: Stamp | None) -> service_pb2.ActorStanding.ValueType:
    """What is known of the actor of an event."""
    if stamp is None or not stamp.actor:
        return service_pb2.ACTOR_STANDING_UNKNOWN
    return service_pb2.ACTOR_STANDING_AUTHENTICATED if stamp.principal else service_pb2.ACTOR_STANDING_UNAUTHENTICATED


def _quote(written: events_pb2.PulsarEvent, event: Event, head: Settings | None, wire: Wire) -> None:
    """The event itself; without its document where that is the head's."""
    written.event_type = events_pb2.EVENT_TYPE_TOPIC_POLICY
    written.action_type = events_pb2.ActionType.ValueType(event.action)
    told = written.topic_policies_event
    told.domain, told.tenant, told.namespace, told.topic = parse_topic(event.key.topic)
    if event.document is not None and event.document != head:
        told.policies.MergeFromString(wire(event.document))


_MOST_MESSAGE = 4_096
_LONG: Final = 0x80
"""Bytes of a text whose length takes more than one byte."""


def _template(message: type[Message], *fields: str) -> bytes:
    """The fields of a message, in this order, as a template: short texts with their lengths, and numbers below ``_LONG``."""
    parts: list[bytes] = []
    for name in fields:
        field = message.DESCRIPTOR.fields_by_name[name]
        text = field.type == field.TYPE_STRING
        parts.append(varint(field.number << 3 | (2 if text else 0)) + (b"%c%b" if text else b"%c"))
    return b"".join(parts)


_DOCUMENT_HEAD: Final = _template(policies_pb2.PolicyDocument, "topic", "scope", "version")
_REST: Final = _template(service_pb2.UpdatePolicyResponse, "previous_version", "outcome", "request_id", "version")
assert _template(service_pb2.DeletePolicyResponse, "previous_version", "outcome", "request_id", "version") == _REST
_SEQUENCE: Final = varint(number(service_pb2.PolicyChangeResult, "sequence") << 3)
_POLICIES: Final = number(policies_pb2.PolicyDocument, "policies")
_DOCUMENT: Final = number(service_pb2.UpdatePolicyResponse, "document")
_PREVIOUS: Final = number(service_pb2.UpdatePolicyResponse, "previous")
_RESULTS: Final = number(service_pb2.UpdatePoliciesResponse, "results")
_UPDATED: Final = number(service_pb2.PolicyChangeResult, "updated")
_DELETED_FIELD: Final = number(service_pb2.PolicyChangeResult, "deleted")
_GOT: Final = number(service_pb2.GetPolicyResponse, "documents")
_LISTED: Final = number(service_pb2.ListPoliciesResponse, "documents")
_EVENTS: Final = number(service_pb2.WatchPoliciesResponse, "events")
_NAMESPACE: Final = number(service_pb2.WatchEvent, "namespace")
_CHANGE: Final = number(service_pb2.WatchEvent, "change")
_CHANGED_DOCUMENT: Final = number(service_pb2.PolicyChange, "document")
_CHANGED_PREVIOUS: Final = number(service_pb2.PolicyChange, "previous")
assert tuple(number(service_pb2.DeletePolicyResponse, field) for field in ("document", "previous")) == (_DOCUMENT, _PREVIOUS)
