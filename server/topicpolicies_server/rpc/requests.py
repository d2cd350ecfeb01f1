"""Reads and validates the requests that change, get or list documents.

``watching.requests`` reads the requests of watches, ``histories`` those of the history.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping
from typing import NamedTuple

from topicpolicies import channels
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies

from ..core.chains.sequencer import Request
from ..core.changes.change import Change, compile_change
from ..core.errors import PolicyError, Violation, invalid
from ..core.names import PolicyKey, Scope, parse_namespace
from ..core.policies import documents
from ..core.reasons import Reason
from ..core.traces import NO_TRACE, TraceContext
from . import page_tokens
from .problems import MOST_ACTOR, MOST_REASON, Problems, read_scope, read_scopes, read_topic

_UUID_DIGITS = 32
_UUID = re.compile(r"[0-9a-f]{32}")
_ETAG = "etag"
_NO_OPERATIONS: Mapping[str, int] = {}

ACTOR_KEY, REASON_KEY = channels.ACTOR_KEY, "topicpolicies-reason"
"""The metadata of a call that names the actor and the reason of its changes."""


class Author(NamedTuple):
    """Who makes a change, why, and in which trace: of a call, or of one request.

    Of a call, ``actor`` and ``reason`` are its metadata, not bounded yet, and the defaults of its requests. Of a request whose caller was
    verified, ``actor`` is the caller's role, and ``claimed`` is the name that the request or the metadata gave, if it is another one.
    """

    actor: str = ""
    reason: str = ""
    principal: str = ""
    """The verified principal; "": no caller was verified."""
    role: str = ""
    """The role whose permissions count: the principal, or whom it speaks for as a proxy."""
    claimed: str = ""
    """Of a request with a verified caller: the actor that was named, if it is not the role."""
    trace: TraceContext = NO_TRACE
    """The trace in which the call is made."""


_NOBODY = Author()


def place_of(index: int, field: str) -> str:
    """Returns the name that violations give to a field of a change of a batch."""
    return f"changes[{index}].{field}"


def read_update(message: service_pb2.UpdatePolicyRequest, author: Author, index: int | None = None) -> tuple[str, Request]:
    """Reads an update. Returns its namespace, and the request for the namespace's sequencer.

    Args:
        message: the update.
        author: the caller, and the actor and reason unless the message names them.
        index: the index in its batch, for the names of fields in violations; None: the update is not of a batch.

    Raises:
        PolicyError: INVALID_ARGUMENT, with every violation.
    """
    problems = Problems("" if index is None else place_of(index, "update."))
    topic = read_topic(message.topic, problems)
    if topic is not None and topic.is_system_topic:
        sentence = f"{topic.full} is one of Pulsar's system topics: its policies can be deleted, but not set."
        problems.add("topic", Reason.SYSTEM_TOPIC, sentence)
    scope = read_scope(message.scope, problems)
    change = _change(message, problems)
    etag = message.etag
    if etag:
        problems.version(etag, _ETAG)
    must_not_exist, skip_if_absent = message.must_not_exist, message.skip_if_absent
    if must_not_exist:
        for field, other in ((_ETAG, etag), ("skip_if_absent", skip_if_absent)):
            if other:
                problems.add("must_not_exist", Reason.CONTRADICTION, f"Set either must_not_exist or {field}, not both.")
    named = message.request_id
    request_id = _request_id(named, problems)
    who = _author(message, author, problems) if message.actor or message.reason or author.actor or author.reason else None
    problems.check()
    assert topic is not None and change is not None, "checked"
    request = Request(
        topic.key(scope),
        change,
        request_id,
        _digest(message) if named else "",
        author.role if who is None else who.actor,
        "" if who is None else who.reason,
        etag,
        must_not_exist,
        message.include_previous,
        skip_if_absent,
        message.validate_only,
        author.principal,
        "" if who is None else who.claimed,
        author.trace,
    )
    return topic.namespace, request


def read_delete(message: service_pb2.DeletePolicyRequest, author: Author, index: int | None = None) -> tuple[str, Request]:
    """Reads a deletion. Returns its namespace, and the request for the namespace's sequencer. Arguments are those of ``read_update``.

    Raises:
        PolicyError: INVALID_ARGUMENT, with every violation.
    """
    problems = Problems("" if index is None else place_of(index, "delete."))
    topic = read_topic(message.topic, problems)
    scope = read_scope(message.scope, problems)
    etag = problems.version(message.etag, _ETAG)
    request_id = _request_id(message.request_id, problems)
    who = _author(message, author, problems)
    problems.check()
    assert topic is not None, "checked"
    request = Request(
        topic.key(scope),
        None,
        request_id,
        _digest(message) if message.request_id else "",
        who.actor,
        who.reason,
        etag,
        include_previous=message.include_previous,
        validate_only=message.validate_only,
        principal=who.principal,
        claimed=who.claimed,
        trace=author.trace,
    )
    return topic.namespace, request


def read_change(change: service_pb2.PolicyChangeRequest, author: Author, index: int) -> tuple[str, Request]:
    """Reads a change of a batch. Returns its namespace, and the request for the namespace's sequencer.

    Args:
        change: the change.
        author: the caller, and the actor and reason unless the change names them.
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
    raise invalid(Reason.NOTHING_SELECTED, Violation(at, Reason.NOTHING_SELECTED, "Set what to do: update or delete."))


class Target(NamedTuple):
    """The documents that a GetPolicy request reads."""

    namespace: str
    topic: str
    scopes: tuple[Scope, ...]
    """The scopes, in the order of the answer."""
    at_least: str
    """The version that the document must have reached, which only a single scope may have; "": any."""

    @property
    def keys(self) -> list[PolicyKey]:
        """The policy keys of the documents, in the order of the answer."""
        return [PolicyKey(self.topic, scope) for scope in self.scopes]


def read_get(message: service_pb2.GetPolicyRequest, problems: Problems) -> Target | None:
    """Reads a GetPolicy request, but for the as-of fields (``histories.read_moment``); violations are noted. None: its topic is invalid."""
    topic = read_topic(message.topic, problems)
    known = len(problems)
    scopes = tuple(sorted(read_scopes(message.scopes, problems)))
    are_scopes = len(problems) == known
    at_least = problems.version(message.at_least_version, "at_least_version")
    for field in ("at_least_version", "as_of_version"):
        if message.HasField(field) and are_scopes and len(scopes) != 1:
            problems.add("scopes", Reason.CONTRADICTION, f"A version belongs to one scope: with {field} name one scope.")
    return Target(topic.namespace, topic.full, scopes, at_least) if topic is not None else None


class Page(NamedTuple):
    """The documents that a ListPolicies request lists: one page of them."""

    namespace: str
    scopes: frozenset[Scope]
    after: PolicyKey | None
    most: int

    def token(self, last: PolicyKey) -> str:
        """Returns the token of the page that begins behind ``last``."""
        return page_tokens.write(self._question, f"{int(last.scope)}{last.topic}")

    @property
    def _question(self) -> object:
        """What the pages of one listing have in common: a token serves no other listing."""
        return self.namespace, sorted(self.scopes)

    def behind(self, token: str, problems: Problems) -> Page:
        """Returns the page that a token names; a token of another listing is noted in ``problems``."""
        return self._replace(after=page_tokens.read(self._question, token, _key, problems))


def read_list(message: service_pb2.ListPoliciesRequest) -> Page:
    """Reads a ListPolicies request.

    Raises:
        PolicyError: INVALID_ARGUMENT, with every violation.
    """
    problems = Problems()
    namespace = problems.gather(parse_namespace, message.namespace, "namespace")
    scopes = read_scopes(message.scopes, problems)
    most = problems.page_size(message.page_size)
    page_token = page_tokens.bounded(message.page_token, problems)
    problems.check()  # the token can be checked only against a valid namespace
    assert namespace is not None, "checked"
    page = Page(namespace, scopes, None, most)
    if page_token:
        page = page.behind(page_token, problems)
        problems.check()
    return page


def _key(place: str) -> PolicyKey:
    return PolicyKey(place[1:], Scope(int(place[:1])))


def _change(message: service_pb2.UpdatePolicyRequest, problems: Problems) -> Change | None:
    policies = message.policies if message.HasField("policies") else None
    if policies is not None and (size := policies.ByteSize()) > documents.MOST_ELEMENTS:  # an element has at least one byte
        if size > documents.MOST_BYTES:
            problems.add(
                "policies", Reason.DOCUMENT_TOO_LARGE, f"policies has {size:,} bytes; at most {documents.MOST_BYTES:,} are allowed."
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


def _author(message: service_pb2.UpdatePolicyRequest | service_pb2.DeletePolicyRequest, author: Author, problems: Problems) -> Author:
    actor, reason = message.actor, message.reason
    if actor or author.actor:
        actor = problems.text(actor, "actor", MOST_ACTOR) if actor else problems.text(author.actor, ACTOR_KEY, MOST_ACTOR)
    if reason or author.reason:
        reason = problems.text(reason, "reason", MOST_REASON) if reason else problems.text(author.reason, REASON_KEY, MOST_REASON)
    if author.principal:
        return Author(author.role, reason, author.principal, author.role, actor if actor != author.role else "")
    return Author(actor, reason) if actor or reason else _NOBODY


def _request_id(text: str, problems: Problems) -> str:
    if not text:
        return uuid.uuid4().hex
    if len(text) == _UUID_DIGITS and _UUID.fullmatch(text):
        return text
    if len(text) in (_UUID_DIGITS, _UUID_DIGITS + 4):
        compact = text.replace("-", "").lower()
        if _UUID.fullmatch(compact):
            return compact
    problems.add("request_id", Reason.MALFORMED_REQUEST_ID, "A request id is a UUID, such as 3f2c1b9e-8a44-4c55-9a30-1d0f6f5d6a01.")
    return ""


def _digest(message: service_pb2.UpdatePolicyRequest | service_pb2.DeletePolicyRequest) -> str:
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
