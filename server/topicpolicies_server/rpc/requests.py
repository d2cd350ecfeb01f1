"""Reads and validates the requests that change documents."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias
from uuid import uuid4

from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies

from ..access import NOBODY, Caller, Granted
from ..core.chains.request import Request, Result
from ..core.changes.change import Change, compile_change
from ..core.errors import PolicyError
from ..core.policies import documents
from ..core.reasons import ViolationReason
from ..core.traces import NO_TRACE, TraceContext
from .problems import MOST_ACTOR, MOST_REASON, Problems, read_scope, read_topic

_UUID_DIGITS = 32
_UUID = re.compile(r"[0-9a-f]{32}")
_VERSION = "precondition.version"
_NO_OPERATIONS: Mapping[str, int] = {}
ChangeMessage: TypeAlias = service_pb2.UpdatePolicyRequest | service_pb2.DeletePolicyRequest
"""The message of an update or a deletion."""

Answer: TypeAlias = Result | PolicyError | service_pb2.ChangeResult
"""What became of a change of a batch; a ``ChangeResult`` is the answer of the leader that it was forwarded to."""


@dataclass(eq=False, slots=True)
class BatchedChange:
    """A change of a batch."""

    index: int
    message: service_pb2.PolicyChangeRequest
    request: Request | None = None
    """What was read; None: it was not read, or is invalid."""
    namespace: str = ""
    granted: Granted | None = None
    """The caller's permissions in the namespace; None: they are not known yet."""
    answer: Answer | None = None
    """What became of it; None: nothing yet. NOT_LEADER is no final answer if the leader is known."""
    unsure: bool = False
    """Whether a leader that it was forwarded to may have made it."""
    seconds: float = 0.0
    """How long that took, from the beginning of the batch."""


def read_change(message: ChangeMessage, caller: Caller = NOBODY, trace: TraceContext = NO_TRACE, at: str = "") -> tuple[str, Request]:
    """Reads an update or a deletion. Returns its namespace, and the request for the namespace's sequencer.

    ``at``: the prefix of its fields' names in violations, if it is a change of a batch.

    Raises:
        PolicyError: INVALID_ARGUMENT, with every violation.
    """
    problems = Problems(at)
    update = message if isinstance(message, service_pb2.UpdatePolicyRequest) else None
    topic = read_topic(message.topic, problems)
    if update is not None and topic is not None and topic.is_system_topic:
        sentence = f"{topic.full} is one of Pulsar's system topics: its policies can be deleted, but not set."
        problems.add("topic", ViolationReason.SYSTEM_TOPIC, sentence)
    scope = read_scope(message.scope, problems)
    change = _compiled(update, problems) if update is not None else None
    version, exists = _precondition(message.precondition, problems) if message.HasField("precondition") else ("", None)
    actor, reason, owner = message.actor, message.reason, message.owner
    if actor or reason or owner:
        actor, owner = problems.text(actor, "actor", MOST_ACTOR), problems.text(owner, "owner", MOST_ACTOR)
        reason = problems.text(reason, "reason", MOST_REASON)
    request_id = _request_id(message.request_id, problems)
    skip_if_absent = update is not None and update.skip_if_absent
    if skip_if_absent and exists is False:
        problems.add("skip_if_absent", ViolationReason.CONTRADICTION, "The precondition wants no document: say that or skip_if_absent.")
    problems.check()
    assert topic is not None, "checked"
    claimed = ""
    if caller.principal:
        role = caller.role
        actor, claimed = role, actor if actor != role else ""
    return topic.namespace, Request(
        topic.key(scope),
        change,
        request_id,
        _digest(message) if message.request_id else "",
        actor,
        reason,
        version,
        exists,
        message.include_previous,
        skip_if_absent,
        message.validate_only,
        caller.principal,
        claimed,
        owner,
        trace,
    )


def _compiled(message: service_pb2.UpdatePolicyRequest, problems: Problems) -> Change | None:
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


def _precondition(condition: service_pb2.Precondition, problems: Problems) -> tuple[str, bool | None]:
    """Returns the version that a precondition demands ("": any), and whether there must be a document (None: either)."""
    which = condition.WhichOneof("condition")
    if which == "exists":
        return "", condition.exists
    if which != "version":
        return "", None
    version = problems.version(condition.version, _VERSION)
    if not version:
        problems.add(_VERSION, ViolationReason.MALFORMED_VERSION, f"{_VERSION} is empty: name a version.")
    return version, None


def _request_id(text: str, problems: Problems) -> str:
    if not text:
        return uuid4().hex
    compact = text.replace("-", "").lower() if len(text) in (_UUID_DIGITS, _UUID_DIGITS + 4) else ""
    if _UUID.fullmatch(compact):
        return compact
    problems.add(
        "request_id", ViolationReason.MALFORMED_REQUEST_ID, "A request id is a UUID, such as 3f2c1b9e-8a44-4c55-9a30-1d0f6f5d6a01."
    )
    return ""


def _digest(message: ChangeMessage) -> str:
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
