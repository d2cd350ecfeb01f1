"""Serializes answers. A document goes into its answer as the bytes that are stored; nothing is parsed on the way out.

A ``Wire`` makes those bytes: ``secrets.wire`` leaves the credentials of object storages out, ``documents.wire`` does not. An element of a
repeated field (a result of a batch, an event of a watch) is made as a *record*: the field's tag, the length and the content. Protobuf
defines that records can be concatenated, so a message is made by joining its records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from google.protobuf.message import Message

from topicpolicies.v1 import events_pb2, policies_pb2, service_pb2

from ..access import NOTHING, Granted, Permission
from ..core.chains.request import Request, Result
from ..core.errors import PolicyError
from ..core.names import PolicyKey
from ..core.policies import documents, secrets
from ..core.policies.documents import Document, record, tag
from ..core.policies.events import ABSENT, Position, Stamp
from ..core.reading.cell import Head
from ..history.entries import Entry
from .errors import status
from .requests import BatchedChange

Wire: TypeAlias = Callable[[Document], bytes]
"""Serializes a document, with or without secrets, as ``TopicPolicies``."""


def wire_of(granted: Granted) -> Wire:
    """Returns what serializes documents for a caller that has these permissions."""
    return documents.wire if Permission.SECRETS in granted else secrets.wire


def tag_of(message: type[Message], field: str) -> bytes:
    """Returns the tag of a length-delimited field."""
    return tag(message.DESCRIPTOR.fields_by_name[field].number)


def document(key: PolicyKey, version: Position, policies: bytes | None, *, disabled: bool = False) -> bytes:
    """Returns a serialized ``PolicyDocument``. ``policies``: the serialized ``TopicPolicies``; None: there is no document."""
    head = policies_pb2.PolicyDocument()  # fields are set one by one, which takes half as long as by keywords
    head.topic, head.scope, head.version, head.disabled = key.topic, policies_pb2.Scope.ValueType(key.scope), version, disabled
    raw = head.SerializeToString()
    return raw if policies is None else raw + record(_POLICIES, policies)


def present(key: PolicyKey, head: Head | None, wire: Wire) -> bytes:
    """Returns a head as a serialized ``PolicyDocument``. ``head``: None if the log has no event of the key."""
    settings = head.document if head is not None else None
    return document(key, head.version if head is not None else ABSENT, None if settings is None else wire(settings))


def origin(producer: str, published_at: int, said: Stamp | Entry | None, mask: Sequence[str]) -> events_pb2.ChangeOrigin:
    """Returns who made a change, and when. ``said``: what the event says of that; ``mask``: the paths that it changed."""
    made = events_pb2.ChangeOrigin(producer_name=producer, actor_standing=events_pb2.ACTOR_STANDING_UNKNOWN)
    made.publish_time.FromMilliseconds(published_at)
    if said is not None:
        made.actor = said.actor
        made.principal = said.principal
        made.claimed_actor = said.claimed
        made.owner = said.owner
        made.trace_parent = said.trace_parent
        made.reason = said.reason
        made.request_id = said.request_id
        if mask:
            made.update_mask.paths.extend(mask)
    if made.actor:
        made.actor_standing = events_pb2.ACTOR_STANDING_AUTHENTICATED if made.principal else events_pb2.ACTOR_STANDING_UNAUTHENTICATED
    return made


def change_answer(request: Request, result: Result, wire: Wire, room: int | None = None) -> bytes:
    """Returns a serialized ``ChangeResult``. ``room``: the most bytes of the documents, which are left out otherwise; None: any."""
    answer = service_pb2.ChangeResult()
    answer.version, answer.previous_version = result.version, result.previous
    answer.outcome = service_pb2.ChangeOutcome.ValueType(result.outcome)
    answer.request_id, answer.replayed = request.request_id, result.replayed
    rest = answer.SerializeToString()
    with_documents = _documents(request, result, wire)
    return with_documents + rest if room is None or len(with_documents) <= room else rest


def _documents(request: Request, result: Result, wire: Wire) -> bytes:
    """Returns the fields ``document`` and ``previous``."""
    answer = b""
    if result.known or (request.change is None and result.version):
        policies = None if result.document is None else wire(result.document)
        answer = record(_DOCUMENT, document(request.key, result.version, policies))
    if request.include_previous and result.before_known:
        before = None if result.before is None else wire(result.before)
        answer += record(_PREVIOUS, document(request.key, result.previous, before))
    return answer


def batch_answer(changes: Iterable[BatchedChange]) -> bytes:
    """Returns a serialized ``BatchUpdatePoliciesResponse``."""
    records, room = [], _MOST_DOCUMENTS
    for change in changes:
        request, answer = change.request, change.answer
        if isinstance(answer, PolicyError):
            content = service_pb2.PolicyChangeResult(error=status(answer)).SerializeToString()
        else:
            assert request is not None and answer is not None, "it was made"
            if isinstance(answer, service_pb2.ChangeResult):
                success = _within(answer, room).SerializeToString()
            else:
                success = change_answer(request, answer, wire_of(change.granted or NOTHING), room)
            content = record(_SUCCESS, success)
            room = max(0, room - len(success))
        records.append(record(_RESULTS, content))
    return b"".join(records)


def _within(answer: service_pb2.ChangeResult, room: int) -> service_pb2.ChangeResult:
    """Returns a leader's answer without the documents for which there is no room."""
    if answer.document.ByteSize() + answer.previous.ByteSize() > room:
        answer.ClearField("document")
        answer.ClearField("previous")
    return answer


_MOST_DOCUMENTS: Final = 3 << 20
"""The most bytes of documents in the answer to a batch, so that every client can receive it; further ones are left out."""
_POLICIES: Final = tag_of(policies_pb2.PolicyDocument, "policies")
_DOCUMENT: Final = tag_of(service_pb2.ChangeResult, "document")
_PREVIOUS: Final = tag_of(service_pb2.ChangeResult, "previous")
_RESULTS: Final = tag_of(service_pb2.BatchUpdatePoliciesResponse, "results")
_SUCCESS: Final = tag_of(service_pb2.PolicyChangeResult, "success")
