"""From request messages to the core's terms. Everything that is wrong with a request is said at once."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import uuid
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

from topicpolicies.v1 import events_pb2, service_pb2

from ..core.change import Change, compile_change
from ..core.errors import PolicyError, Violation, invalid
from ..core.names import PolicyKey, Scope, parse_namespace, parse_topic
from ..core.sequencer import Request
from ..core.watch import Mode, Token

_UUID_DIGITS = 32
_UUID = re.compile(r"[0-9a-f]{32}")
_MOST_VERSION = 256
_DEFAULT_PAGE = 100
_MOST_PAGE = 1000
_T = TypeVar("_T")


class Problems:
    """Collects the violations of one request, so that all are told at once."""

    def __init__(self) -> None:
        self._violations: list[Violation] = []

    def add(self, field: str, reason: str, description: str) -> None:
        """Notes a violation."""
        self._violations.append(Violation(field, reason, description))

    def note(self, error: PolicyError) -> None:
        """Notes the violations of an error; one without any is raised again."""
        if not error.violations:
            raise error
        self._violations += error.violations

    def gather(self, read: Callable[[str, str], _T], text: str, field: str) -> _T | None:
        """The value that ``read`` makes of a field's text; None if it finds violations, which are noted."""
        try:
            return read(text, field)
        except PolicyError as error:
            self.note(error)
            return None

    def check(self) -> None:
        """Raises INVALID_ARGUMENT if anything was noted; its reason is the violations' own if they agree."""
        if self._violations:
            reasons = {each.reason for each in self._violations}
            raise invalid(reasons.pop() if len(reasons) == 1 else "INVALID_REQUEST", *self._violations)


def read_scope(number: int, problems: Problems, field: str = "scope") -> Scope:
    """LOCAL unless it says otherwise, as ``pulsar-admin`` has it."""
    if number == events_pb2.SCOPE_UNSPECIFIED:
        return Scope.LOCAL
    try:
        return Scope(number)
    except ValueError:
        problems.add(field, "UNKNOWN_SCOPE", f"{number} is no scope: say SCOPE_LOCAL or SCOPE_GLOBAL.")
        return Scope.LOCAL


class Target(NamedTuple):
    """What a request is about."""

    namespace: str
    key: PolicyKey


def read_update(message: service_pb2.UpdatePolicyRequest, actor: str) -> tuple[str, Request]:
    """The namespace of an update, and the update for its sequencer.

    Raises:
        InvalidArgument: with every violation.
    """
    problems = Problems()
    topic = _topic(message.topic, problems)
    scope = read_scope(message.scope, problems)
    policies = message.policies if message.HasField("policies") else None
    operations = dict(message.list_operations) if message.list_operations else {}
    change: Change | None = None
    try:
        change = compile_change(policies, message.update_mask.paths, operations)
    except PolicyError as error:
        problems.note(error)
    if message.etag:
        _check_version(message.etag, "etag", problems)
    request_id = _request_id(message.request_id, problems)
    problems.check()
    assert topic is not None and change is not None, "checked"
    request = Request(
        PolicyKey(topic.full, scope),
        change,
        request_id,
        _digest(message) if message.request_id else "",
        actor,
        message.etag,
        message.skip_if_absent,
        message.validate_only,
    )
    return topic.namespace, request


def read_delete(message: service_pb2.DeletePolicyRequest, actor: str) -> tuple[str, list[Request]]:
    """The namespace of a deletion, and one request for each scope.

    Raises:
        InvalidArgument: with every violation.
    """
    problems = Problems()
    topic = _topic(message.topic, problems)
    request_id = _request_id(message.request_id, problems)
    deletes: Sequence[service_pb2.ScopedDelete] = message.deletes or [service_pb2.ScopedDelete()]
    scopes: list[Scope] = []
    for index, delete in enumerate(deletes[:_MOST_PAGE]):
        scope = read_scope(delete.scope, problems, f"deletes[{index}].scope")
        if scope in scopes:
            problems.add(f"deletes[{index}].scope", "REPEATED_SCOPE", f"{scope.name} is named twice: name each scope once.")
        scopes.append(scope)
        _check_version(delete.etag, f"deletes[{index}].etag", problems)
    problems.check()
    assert topic is not None, "checked"
    requests = [
        Request(
            PolicyKey(topic.full, scope),
            None,
            request_id,
            hashlib.blake2b(f"delete\0{delete.etag}".encode(), digest_size=8).hexdigest(),
            actor,
            delete.etag,
        )
        for scope, delete in zip(scopes, deletes, strict=True)
    ]
    return topic.namespace, requests


def read_get(message: service_pb2.GetPolicyRequest) -> Target:
    """What is to be read.

    Raises:
        InvalidArgument: with every violation.
    """
    problems = Problems()
    topic = _topic(message.topic, problems)
    scope = read_scope(message.scope, problems)
    _check_version(message.at_least, "at_least", problems)
    problems.check()
    assert topic is not None, "checked"
    return Target(topic.namespace, PolicyKey(topic.full, scope))


class Page(NamedTuple):
    """Which documents are to be listed."""

    namespace: str
    scopes: frozenset[Scope]
    after: PolicyKey | None
    most: int


def read_list(message: service_pb2.ListPoliciesRequest) -> Page:
    """Which documents are to be listed.

    Raises:
        InvalidArgument: with every violation.
    """
    problems = Problems()
    namespace = problems.gather(parse_namespace, message.namespace, "namespace")
    scopes = _scopes(message.scopes, problems)
    if not 0 <= message.page_size <= _MOST_PAGE:
        problems.add("page_size", "OUT_OF_BOUNDS", f"page_size must be from 0 to {_MOST_PAGE}, not {message.page_size}.")
    after = None
    if message.page_token:
        after = _page_key(message.page_token)
        if after is None:
            problems.add("page_token", "MALFORMED_TOKEN", "The page token is not one of this service's: begin with the first page.")
    problems.check()
    assert namespace is not None, "checked"
    return Page(namespace, scopes, after, message.page_size or _DEFAULT_PAGE)


def page_token(key: PolicyKey) -> str:
    """The token of the page after ``key``."""
    return base64.urlsafe_b64encode(f"{int(key.scope)}{key.topic}".encode()).decode()


class Watch(NamedTuple):
    """What is to be watched."""

    topics: dict[str, frozenset[str] | None]
    """By namespace: the topics' full names; None for all."""
    scopes: frozenset[Scope]
    mode: Mode
    resume: dict[str, Token]
    bookmark_seconds: float


def read_watch(message: service_pb2.WatchPoliciesRequest, most_selectors: int, default_interval: float) -> Watch:
    """What is to be watched.

    Raises:
        InvalidArgument: with every violation.
    """
    problems = Problems()
    selectors = len(message.topics) + len(message.namespaces)
    if not selectors:
        problems.add("topics", "NOTHING_SELECTED", "Name at least one topic or namespace.")
    if selectors > most_selectors:
        problems.add("topics", "TOO_MANY_SELECTORS", f"{selectors} topics and namespaces are named; {most_selectors} is the most.")
        problems.check()
    selected: dict[str, set[str] | None] = {}
    for index, text in enumerate(message.namespaces):
        namespace = problems.gather(parse_namespace, text, f"namespaces[{index}]")
        if namespace is not None:
            selected[namespace] = None
    for index, text in enumerate(message.topics):
        topic = problems.gather(parse_topic, text, f"topics[{index}]")
        if topic is not None:
            topics = selected.setdefault(topic.namespace, set())
            if topics is not None:
                topics.add(str(topic))
    scopes = _scopes(message.scopes, problems)
    if message.mode not in (0, *Mode):
        problems.add("mode", "UNKNOWN_MODE", f"{message.mode} is no mode: say WATCH_MODE_LATEST or WATCH_MODE_EVERY.")
    interval = default_interval
    if message.HasField("bookmark_interval"):
        interval = message.bookmark_interval.seconds + message.bookmark_interval.nanos / 1e9
        if not 1 <= interval <= 3600:
            problems.add("bookmark_interval", "OUT_OF_BOUNDS", "bookmark_interval must be from 1 to 3,600 seconds.")
    resume: dict[str, Token] = {}
    for name, token in message.resume.items():
        if name not in selected:
            problems.add("resume", "NOT_SELECTED", f'There is a token for "{name[:200]}", which is not watched.')
        elif not token.log or not token.positions or any(len(each) > _MOST_VERSION for each in token.positions):
            problems.add("resume", "MALFORMED_TOKEN", f"The token for {name} is not one of this service's: begin without it.")
        else:
            resume[name] = Token(token.log, tuple(token.positions))
    problems.check()
    return Watch(
        {name: frozenset(topics) if topics is not None else None for name, topics in selected.items()},
        scopes,
        Mode(message.mode or Mode.LATEST),
        resume,
        interval,
    )


class Topic(NamedTuple):
    """A topic's names."""

    full: str
    namespace: str


@lru_cache(maxsize=4096)
def _known_topic(text: str) -> Topic:
    name = parse_topic(text)
    return Topic(str(name), name.namespace)


def _topic(text: str, problems: Problems) -> Topic | None:
    try:
        return _known_topic(text)
    except PolicyError as error:
        problems.note(error)
        return None


def _scopes(numbers: Sequence[int], problems: Problems) -> frozenset[Scope]:
    if not numbers:
        return frozenset(Scope)
    return frozenset(read_scope(number, problems, f"scopes[{index}]") for index, number in enumerate(numbers))


def _check_version(version: str, field: str, problems: Problems) -> None:
    if len(version) > _MOST_VERSION or not version.isascii():
        problems.add(field, "MALFORMED_VERSION", f"{field} is not a version of this service's.")


def _request_id(text: str, problems: Problems) -> str:
    if not text:
        return uuid.uuid4().hex
    compact = text.replace("-", "").lower()
    if _UUID.fullmatch(compact) and len(text) in (_UUID_DIGITS, _UUID_DIGITS + 4):
        return compact
    problems.add("request_id", "MALFORMED_REQUEST_ID", "A request id is a UUID, such as 3f2c1b9e-8a44-4c55-9a30-1d0f6f5d6a01.")
    return ""


def _digest(message: service_pb2.UpdatePolicyRequest) -> str:
    """Of everything in a request but its id."""
    request_id = message.request_id
    message.request_id = ""
    body = message.SerializeToString(deterministic=True)
    message.request_id = request_id
    return hashlib.blake2b(body, digest_size=8).hexdigest()


def _page_key(token: str) -> PolicyKey | None:
    try:
        text = base64.urlsafe_b64decode(token.encode()).decode()
        return PolicyKey(text[1:], Scope(int(text[:1])))
    except (ValueError, binascii.Error):
        return None
