"""Reads and validates the requests that change documents."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies

from ..core.chains.request import Request
from ..core.changes.change import Change, compile_change
from ..core.errors import PolicyError, Violation, invalid
from ..core.names import PolicyKey, Scope
from ..core.policies import documents
from ..core.reasons import ViolationReason
from ..core.traces import NO_TRACE, PARENT_KEY, STATE_KEY, TraceContext, trace_context
from .calls import Call
from .problems import MOST_ACTOR, MOST_REASON, Problems, read_scope, read_topic

_UUID_DIGITS = 32
_UUID = re.compile(r"[0-9a-f]{32}")
_VERSION = "precondition.version"
_NO_KEY = PolicyKey("", Scope.LOCAL)
_NO_OPERATIONS: Mapping[str, int] = {}
Message: TypeAlias = service_pb2.UpdatePolicyRequest | service_pb2.DeletePolicyRequest


class Author(NamedTuple):
    """The verified caller of a call, and its trace."""

    principal: str = ""
    """The verified principal; "": no caller was verified."""
    role: str = ""
    """The role whose permissions count: the principal, or whom it speaks for as a proxy."""
    trace: TraceContext = NO_TRACE
    """The trace in which the call is made."""


def author_of(call: Call) -> Author:
    """Returns the author of a call: its verified caller, and the trace that its metadata names."""
    caller, trace = call.caller, call.trace
    return Author(caller.principal, caller.speaks_for or caller.principal, trace_of(call) if trace is None else trace)


def trace_of(call: Call) -> TraceContext:
    """Returns the trace context of a call's metadata (W3C Trace Context).

    More than one ``traceparent`` counts as none; several ``tracestate`` are joined to one list.
    """
    parents = [str(value) for key, value in call.metadata if key == PARENT_KEY]
    if len(parents) != 1:
        return NO_TRACE
    return trace_context(parents[0], ",".join(str(value) for key, value in call.metadata if key == STATE_KEY))


def place_of(index: int, field: str) -> str:
    """Returns the name that violations give to a field of a change of a batch."""
    return f"changes[{index}].{field}"


def read_update(message: service_pb2.UpdatePolicyRequest, author: Author, index: int | None = None) -> tuple[str, Request]:
    """Reads an update. Returns its namespace, and the request for the namespace's sequencer.

    Args:
        message: the update.
        author: the caller.
        index: the index in its batch, for the names of fields in violations; None: the update is not of a batch.

    Raises:
        PolicyError: INVALID_ARGUMENT, with every violation.
    """
    problems = Problems("" if index is None else place_of(index, "update."))
    topic = read_topic(message.topic, problems)
    if topic is not None and topic.is_system_topic:
        sentence = f"{topic.full} is one of Pulsar's system topics: its policies can be deleted, but not set."
        problems.add("topic", ViolationReason.SYSTEM_TOPIC, sentence)
    scope = read_scope(message.scope, problems)
    change = _change(message, problems)
    request = _request(message, author, problems)
    if message.skip_if_absent and message.precondition.WhichOneof("condition") == "exists" and not message.precondition.exists:
        problems.add("skip_if_absent", ViolationReason.CONTRADICTION, "The precondition wants no document: say that or skip_if_absent.")
    problems.check()
    assert topic is not None and change is not None, "checked"
    request.key, request.change, request.skip_if_absent = topic.key(scope), change, message.skip_if_absent
    return topic.namespace, request


def read_delete(message: service_pb2.DeletePolicyRequest, author: Author, index: int | None = None) -> tuple[str, Request]:
    """Reads a deletion. Returns its namespace, and the request for the namespace's sequencer. Arguments are those of ``read_update``.

    Raises:
        PolicyError: INVALID_ARGUMENT, with every violation.
    """
    problems = Problems("" if index is None else place_of(index, "delete."))
    topic = read_topic(message.topic, problems)
    scope = read_scope(message.scope, problems)
    request = _request(message, author, problems)
    problems.check()
    assert topic is not None, "checked"
    request.key = topic.key(scope)
    return topic.namespace, request


def read_change(change: service_pb2.PolicyChangeRequest, author: Author, index: int) -> tuple[str, Request]:
    """Reads a change of a batch. Returns its namespace, and the request for the namespace's sequencer.

    Args:
        change: the change.
        author: the caller.
        index: the index of the change in the batch.

    Raises:
        PolicyError: INVALID_ARGUMENT, with every violation.
    """
    which = change.WhichOneof("change")
    if which == "update":
        return read_update(change.update, author, index)
    if which == "delete":
        return read_delete(change.delete, author, index)
    at = place_of(index, "change")
    raise invalid(Violation(at, ViolationReason.NOTHING_SELECTED, "Set what to do: update or delete."))


def _change(message: service_pb2.UpdatePolicyRequest, problems: Problems) -> Change | None:
    policies = message.policies if message.HasField("policies") else None
    if policies is not None and (size := policies.ByteSize()) > documents.MOST_ELEMENTS:  # an element has at least one byte
        if size > documents.MOST_BYTES:
            problems.add(
                "policies",
                ViolationReason.DOCUMENT_TOO_LARGE,
                f"policies has {size:,} bytes; at most {documents.MOST_BYTES:,} are allowed.",
            )
            return None
        if not _are_few(policies, problems):
            return None
    operations = _NO_OPERATIONS
    if (given := message.list_operations) and problems.few(given, "list_operations", len(documents.LISTS)):
        operations = dict(given)
    try:
        return compile_change(policies, message.update_mask.paths, operations)
    except PolicyError as error:
        problems.note(error)
        return None


def _request(message: Message, author: Author, problems: Problems) -> Request:
    """Reads what updates and deletions have in common, into a request without a key."""
    version, exists = "", None
    if message.HasField("precondition"):
        condition = message.precondition
        which = condition.WhichOneof("condition")
        if which == "version":
            version = problems.version(condition.version, _VERSION)
            if not version:
                problems.add(_VERSION, ViolationReason.MALFORMED_VERSION, f"{_VERSION} is empty: name a version.")
        elif which == "exists":
            exists = condition.exists
    actor, reason, named = message.actor, message.reason, message.request_id
    if actor:
        actor = problems.text(actor, "actor", MOST_ACTOR)
    if reason:
        reason = problems.text(reason, "reason", MOST_REASON)
    owner = problems.text(message.owner, "owner", MOST_ACTOR) if message.owner else ""
    claimed = ""
    if author.principal:
        actor, claimed = author.role, actor if actor != author.role else ""
    return Request(
        _NO_KEY,
        None,
        _request_id(named, problems),
        _digest(message) if named else "",
        actor,
        reason,
        version,
        exists,
        message.include_previous,
        False,
        message.validate_only,
        author.principal,
        claimed,
        owner,
        author.trace,
    )


def _request_id(text: str, problems: Problems) -> str:
    if not text:
        return uuid.uuid4().hex
    compact = text.replace("-", "").lower() if len(text) in (_UUID_DIGITS, _UUID_DIGITS + 4) else ""
    if _UUID.fullmatch(compact):
        return compact
    problems.add(
        "request_id", ViolationReason.MALFORMED_REQUEST_ID, "A request id is a UUID, such as 3f2c1b9e-8a44-4c55-9a30-1d0f6f5d6a01."
    )
    return ""


def _digest(message: Message) -> str:
    """Returns a digest of everything in a request but its id. A deletion and an update never have the same."""
    request_id = message.request_id
    message.request_id = ""
    body = message.SerializeToString(deterministic=True)
    message.request_id = request_id
    kind = b"u" if isinstance(message, service_pb2.UpdatePolicyRequest) else b"d"
    return hashlib.blake2b(kind + body, digest_size=8).hexdigest()


def _are_few(policies: TopicPolicies, problems: Problems) -> bool:
    """Returns whether no list or map has more than ``documents.MOST_ELEMENTS``, so that reading them does not hold up the event loop."""
    known = len(problems)
    for field, value in policies.ListFields():
        if field.is_repeated:
            problems.few(value, f"policies.{field.name}", documents.MOST_ELEMENTS)
        elif field.message_type is not None:
            for inner, elements in value.ListFields():
                if inner.is_repeated:
                    problems.few(elements, f"policies.{field.name}.{inner.name}", documents.MOST_ELEMENTS)
    return len(problems) == known
