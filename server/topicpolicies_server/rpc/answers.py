"""From the core's terms to answers. A document goes into its answer as the bytes that it is; nothing is parsed on the way out.

``Wire`` makes those bytes: ``core.secrets.wire`` leaves the secrets out, ``core.documents.wire`` does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from google.protobuf.message import Message

from topicpolicies.v1 import events_pb2, policies_pb2, service_pb2

from ..core.documents import Settings
from ..core.errors import PolicyError
from ..core.events import ABSENT, Event
from ..core.names import PolicyKey, parse_topic
from ..core.sequencer import Outcome, Request, Result
from ..core.view import Change
from ..core.watch import Token
from .errors import status

Wire: TypeAlias = Callable[[Settings], bytes]
"""How a document is shown."""
_LENGTH_DELIMITED = 2


def update_answer(request: Request, result: Result, wire: Wire) -> bytes:
    """A serialized ``UpdatePolicyResponse``."""
    head = service_pb2.UpdatePolicyResponse(
        topic=request.key.topic,
        scope=events_pb2.Scope.ValueType(request.key.scope),
        version=result.version,
        previous_version=result.previous,
        outcome=service_pb2.UpdateOutcome.ValueType(result.outcome.value),
        request_id=request.request_id,
        repeated=result.repeated,
    )
    return head.SerializeToString() + _embedded(_UPDATE_POLICIES, result.document, wire)


def stream_answer(sequence: int, answer: bytes | PolicyError) -> bytes:
    """A serialized ``UpdatePoliciesResponse``."""
    if isinstance(answer, PolicyError):
        return service_pb2.UpdatePoliciesResponse(sequence=sequence, error=status(answer)).SerializeToString()
    head = service_pb2.UpdatePoliciesResponse(sequence=sequence).SerializeToString()
    return head + _field(_STREAM_RESPONSE, answer)


def delete_result(request: Request, answer: Result | PolicyError) -> service_pb2.ScopedDeleteResult:
    """What became of one scope."""
    scope = events_pb2.Scope.ValueType(request.key.scope)
    if isinstance(answer, PolicyError):
        return service_pb2.ScopedDeleteResult(scope=scope, error=status(answer))
    deleted = answer.outcome is Outcome.APPLIED
    return service_pb2.ScopedDeleteResult(
        scope=scope,
        outcome=service_pb2.DELETE_OUTCOME_DELETED if deleted else service_pb2.DELETE_OUTCOME_ABSENT,
        version=answer.version,
        previous_version=answer.previous,
        repeated=answer.repeated,
    )


def get_answer(key: PolicyKey, head: Change | None, wire: Wire) -> bytes:
    """A serialized ``GetPolicyResponse``."""
    document = head.document if head is not None else None
    answer = service_pb2.GetPolicyResponse(
        topic=key.topic,
        scope=events_pb2.Scope.ValueType(key.scope),
        exists=document is not None,
        version=head.version if head is not None else ABSENT,
    )
    return answer.SerializeToString() + _embedded(_GET_POLICIES, document, wire)


def list_answer(heads: list[Change], next_page: str, token: Token, wire: Wire) -> bytes:
    """A serialized ``ListPoliciesResponse``."""
    rest = service_pb2.ListPoliciesResponse(next_page_token=next_page, token=watch_token(token))
    entries = (_field(_LIST_ENTRIES, get_answer(head.key, head, wire)) for head in heads)
    return b"".join(entries) + rest.SerializeToString()


def watch_token(token: Token) -> service_pb2.WatchToken:
    """A place to resume from."""
    return service_pb2.WatchToken(log=token.log, positions=token.positions)


def bookmark(namespace: str, kind: service_pb2.BookmarkKind.ValueType, token: Token) -> bytes:
    """A serialized ``WatchPoliciesResponse`` with a bookmark."""
    mark = service_pb2.Bookmark(namespace=namespace, kind=kind, token=watch_token(token))
    return service_pb2.WatchPoliciesResponse(bookmark=mark).SerializeToString()


def namespace_status(namespace: str, state: service_pb2.NamespaceState.ValueType, message: str, reason: str) -> bytes:
    """A serialized ``WatchPoliciesResponse`` with the state of a namespace."""
    told = service_pb2.NamespaceStatus(namespace=namespace, state=state, message=message, reason=reason)
    return service_pb2.WatchPoliciesResponse(status=told).SerializeToString()


def change_message(namespace: str, change: Change, wire: Wire) -> bytes:
    """A serialized ``WatchPoliciesResponse`` with a change: made once, the same bytes for every watcher (and so one ``wire`` for all)."""
    if change.encoded is None:
        change.encoded = _change_message(namespace, change, wire)
    return change.encoded


def _change_message(namespace: str, change: Change, wire: Wire) -> bytes:
    message = service_pb2.PolicyChange(
        namespace=namespace,
        topic=change.key.topic,
        scope=events_pb2.Scope.ValueType(change.key.scope),
        exists=change.document is not None,
        version=change.version,
        previous_version=change.previous,
    )
    placed = change.placed
    if placed is not None:
        message.partition = placed.partition
        message.position = placed.position
        origin = message.origin
        origin.producer_name = placed.producer
        origin.publish_time.FromMilliseconds(placed.published_at)
        if placed.event is not None:
            _describe(origin, placed.event, change.document, wire)
    body = message.SerializeToString() + _embedded(_CHANGE_POLICIES, change.document, wire)
    return _field(_WATCH_CHANGE, body)


def _describe(origin: service_pb2.ChangeOrigin, event: Event, head: Settings | None, wire: Wire) -> None:
    stamp = event.stamp
    if stamp is not None:
        origin.actor = stamp.actor
        origin.request_id = stamp.request_id
        if stamp.mask:
            origin.update_mask.paths.extend(stamp.mask)
    name = parse_topic(event.key.topic)
    written = origin.event
    written.event_type = events_pb2.EVENT_TYPE_TOPIC_POLICY
    written.action_type = events_pb2.ActionType.ValueType(event.action)
    told = written.topic_policies_event
    told.domain, told.tenant, told.namespace, told.topic = name
    if event.document is not None and event.document != head:
        told.policies.MergeFromString(wire(event.document))


def _embedded(tag: bytes, document: Settings | None, wire: Wire) -> bytes:
    return b"" if document is None else _field(tag, wire(document))


def _field(tag: bytes, body: bytes) -> bytes:
    return tag + _varint(len(body)) + body


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _tag(message: type[Message], field: str) -> bytes:
    found = message.DESCRIPTOR.fields_by_name[field]
    assert found.message_type is not None, "only messages are embedded"
    return _varint(found.number << 3 | _LENGTH_DELIMITED)


_UPDATE_POLICIES: Final = _tag(service_pb2.UpdatePolicyResponse, "policies")
_STREAM_RESPONSE: Final = _tag(service_pb2.UpdatePoliciesResponse, "response")
_GET_POLICIES: Final = _tag(service_pb2.GetPolicyResponse, "policies")
_LIST_ENTRIES: Final = _tag(service_pb2.ListPoliciesResponse, "entries")
_CHANGE_POLICIES: Final = _tag(service_pb2.PolicyChange, "policies")
_WATCH_CHANGE: Final = _tag(service_pb2.WatchPoliciesResponse, "change")
assert policies_pb2.TopicPolicies.DESCRIPTOR is service_pb2.PolicyChange.DESCRIPTOR.fields_by_name["policies"].message_type
