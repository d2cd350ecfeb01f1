"""Serializes answers. A document goes into its answer as the bytes that are stored; nothing is parsed on the way out.

A ``Wire`` makes those bytes: ``secrets.wire`` leaves the credentials of object storages out, ``documents.wire`` does not. An element of a
repeated field (a result of a batch, an event of a watch) is made as a *record*: the field's tag, the length and the content. Protobuf
defines that records can be concatenated, so a message is made by joining its records.
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
"""Serializes a document, with or without secrets, as ``TopicPolicies``."""

_UPDATED_OUTCOMES = {outcome: outcome.value for outcome in Outcome}
"""``UpdateOutcome`` by outcome. The enums have the same numbers."""
_DELETED = {
    Outcome.APPLIED: service_pb2.DELETE_OUTCOME_DELETED,
    Outcome.UNCHANGED: service_pb2.DELETE_OUTCOME_ABSENT,
    Outcome.WOULD_APPLY: service_pb2.DELETE_OUTCOME_WOULD_DELETE,
}
"""``DeleteOutcome`` by outcome."""


def number(message: type[Message], field: str) -> int:
    """Returns the number of a field."""
    return message.DESCRIPTOR.fields_by_name[field].number


def document(key: PolicyKey, version: Position, policies: bytes | None, *, disabled: bool = False) -> bytes:
    """Returns a serialized ``PolicyDocument``. ``policies``: the serialized ``TopicPolicies``; None: there is no document."""
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
    """Returns a head as a serialized ``PolicyDocument``. ``head``: None if the log has no event of the key."""
    settings = head.document if head is not None else None
    return document(key, head.version if head is not None else ABSENT, None if settings is None else wire(settings))


def update_answer(request: Request, result: Result, wire: Wire) -> bytes:
    """Returns a serialized ``UpdatePolicyResponse``."""
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
    """Returns a serialized ``DeletePolicyResponse``."""
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
    """Returns the fields besides documents, which have the same numbers in both answers, by a template.

    None: the template does not fit, because a text is empty or longer than 127 bytes, or the answer is replayed.
    """
    version, previous, request_id = result.version.encode(), result.previous.encode(), request.request_id.encode()
    lengths = len(version), len(previous), len(request_id)
    if result.replayed or not (min(lengths) > 0 and max(lengths) < _LONG):
        return None
    return _REST % (lengths[1], previous, outcome, lengths[2], request_id, lengths[0], version)


def _documents(request: Request, result: Result, wire: Wire) -> bytes:
    """Returns the fields ``document`` and ``previous``, which have the same numbers in both answers."""
    answer = b""
    if result.known or (request.change is None and result.version):
        policies = None if result.document is None else wire(result.document)
        answer = record(_DOCUMENT, document(request.key, result.version, policies))
    if request.include_previous and result.before_known:
        before = None if result.before is None else wire(result.before)
        answer += record(_PREVIOUS, document(request.key, result.previous, before))
    return answer


def result_record(sequence: int, request: Request | None, answer: bytes | PolicyError) -> bytes:
    """Returns a record of ``UpdatePoliciesResponse``: the result of one change.

    Args:
        sequence: the caller's number of the change.
        request: the change; None: it could not be read.
        answer: the serialized answer, or the error.
    """
    if isinstance(answer, PolicyError):
        return record(_RESULTS, service_pb2.PolicyChangeResult(sequence=sequence, error=status(answer)).SerializeToString())
    assert request is not None, "an answer answers a request"
    told = record(_UPDATED if request.change is not None else _DELETED_FIELD, answer)
    return record(_RESULTS, _SEQUENCE + varint(sequence) + told if sequence else told)


def get_answer(documents: Iterable[bytes]) -> bytes:
    """Returns a serialized ``GetPolicyResponse`` of serialized ``PolicyDocument`` messages."""
    return b"".join(record(_GOT, each) for each in documents)


def list_answer(heads: list[Head], next_page: str, token: Token | None, wire: Wire) -> bytes:
    """Returns a serialized ``ListPoliciesResponse``."""
    rest = service_pb2.ListPoliciesResponse(next_page_token=next_page, token=watch_token(token) if token is not None else None)
    return b"".join(record(_LISTED, present(head.key, head, wire)) for head in heads) + rest.SerializeToString()


def watch_token(token: Token) -> service_pb2.WatchToken:
    """Returns a token as a message."""
    return service_pb2.WatchToken(log=token.log, positions=token.positions, left_out=token.left_out)


def event_record(event: service_pb2.WatchEvent) -> bytes:
    """Returns an event as a record of ``WatchPoliciesResponse``."""
    return record(_EVENTS, event.SerializeToString())


def bookmark(namespace: str, kind: service_pb2.BookmarkKind.ValueType, token: Token, confirmed_ms: int) -> bytes:
    """Returns a bookmark as a record of a watch. ``confirmed_ms``: as of when everything was sent, in milliseconds since 1970."""
    event = service_pb2.WatchEvent(namespace=namespace, bookmark=service_pb2.Bookmark(kind=kind, token=watch_token(token)))
    event.bookmark.confirmed_time.FromMilliseconds(confirmed_ms)
    return event_record(event)


def namespace_status(namespace: str, state: service_pb2.NamespaceState.ValueType, reason: Reason | None, message: str) -> bytes:
    """Returns a status (the state of a namespace) as a record of a watch."""
    status = service_pb2.NamespaceStatus(state=state, reason=reason_number(reason), message=message[:_MOST_MESSAGE])
    return event_record(service_pb2.WatchEvent(namespace=namespace, status=status))


def reset(namespace: str, reason: Reason, message: str) -> bytes:
    """Returns a reset as a record of a watch."""
    told = service_pb2.WatchReset(reason=reason_number(reason), message=message[:_MOST_MESSAGE])
    return event_record(service_pb2.WatchEvent(namespace=namespace, reset=told))


def reason_number(reason: Reason | None) -> errors_pb2.ErrorReason.ValueType:
    """Returns the enum value of a reason; ``ERROR_REASON_UNSPECIFIED`` for None."""
    return errors.reason_number("" if reason is None else reason.value)


def change_record(namespace: str, change: Head, wire: Wire, *, with_before: bool, own: bool = False) -> bytes:
    """Returns a change as a record of a watch. The bytes are cached in the head, so that all watchers share them.

    Args:
        namespace: ``tenant/namespace``.
        change: the head after the change.
        wire: serializes documents.
        with_before: whether the record has the document before the change, too.
        own: whether ``wire`` is not the one that most watchers use. If the change may contain secrets, the bytes are not shared then.
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
    """Returns whether any document in a change record may contain secrets."""
    event, before = change.event, change.before.document if change.before is not None else None
    told = (change.document, before, event.document if event is not None else None)
    return any(document is not None and SETTING in document for document in told)


def disabled_record(namespace: str, key: PolicyKey) -> bytes:
    """Returns, as a record of a watch, the absence of a named topic's document because its policies are disabled."""
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
    """Returns a record of a watch: a ``WatchEvent`` whose content, in the field of that number, is serialized already."""
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
    """Returns whether the actor of an event was authenticated."""
    if stamp is None or not stamp.actor:
        return service_pb2.ACTOR_STANDING_UNKNOWN
    return service_pb2.ACTOR_STANDING_AUTHENTICATED if stamp.principal else service_pb2.ACTOR_STANDING_UNAUTHENTICATED


def _quote(written: events_pb2.PulsarEvent, event: Event, head: Settings | None, wire: Wire) -> None:
    """Fills in the event as it stands in the log, without its document where that is the head's."""
    written.event_type = events_pb2.EVENT_TYPE_TOPIC_POLICY
    written.action_type = events_pb2.ActionType.ValueType(event.action)
    told = written.topic_policies_event
    told.domain, told.tenant, told.namespace, told.topic = parse_topic(event.key.topic)
    if event.document is not None and event.document != head:
        told.policies.MergeFromString(wire(event.document))


_MOST_MESSAGE = 4_096
_LONG: Final = 0x80
"""The least number whose varint takes more than one byte. Only numbers, and lengths of texts, below it fit the templates."""


def _template(message: type[Message], *fields: str) -> bytes:
    """Returns a ``%`` template of serialized fields. A text is given with its length; lengths and numbers must be below ``_LONG``."""
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
