"""ListHistory, and documents as they were: from requests to questions, and from entries to answers.

The documents of an entry go into its answer as the bytes that the history keeps.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import time
from typing import NamedTuple

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from topicpolicies.v1 import events_pb2, service_pb2

from ..core import documents
from ..core.errors import Kind, PolicyError
from ..core.events import Position
from ..core.names import PolicyKey, Scope, parse_namespace, parse_topic
from ..history.as_of import Past
from ..history.entries import AMBIGUOUS, MOST_MS, REPLICATED, STALE, UNEXPLAINED, Gap
from ..history.history import History
from ..history.questions import BEGINNING, LAST, Entry, Page, Place, Question, Recorded
from ..namespaces.registry import Registry
from .requests import Problems, read_scope

_DEFAULT_PAGE = 100
_MOST_PAGE = 1_000
_MOST_ACTOR = 256
_MOST_VERSION = 256
_FUTURE_MS = 60_000
"""So much later than the present a time may be, because clocks differ; it means the present then."""


class Moment(NamedTuple):
    """When a document is to be told of."""

    at: int
    """In milliseconds since 1970."""
    version: Position
    """Instead of the time, if it is not empty."""


def of(registry: Registry) -> History:
    """The server's history.

    Raises:
        PolicyError: it has none.
    """
    if registry.history is None:
        raise PolicyError(
            Kind.FAILED_PRECONDITION, "HISTORY_OFF", "This server keeps no history: start it with --history FILE, or ask one that does."
        )
    return registry.history


def read_question(message: service_pb2.ListHistoryRequest) -> Question:
    """What is to be listed.

    Raises:
        InvalidArgument: with every violation.
    """
    problems = Problems()
    topic = problems.gather(parse_topic, message.topic, "topic") if message.topic else None
    namespace = problems.gather(parse_namespace, message.namespace, "namespace") if message.namespace else None
    if bool(message.topic) == bool(message.namespace):
        problems.add("topic", "NOTHING_SELECTED", "Name either a topic or a namespace.")
    scopes = [read_scope(number, problems, f"scopes[{index}]") for index, number in enumerate(message.scopes)]
    start = _milliseconds(message.start_time, "start_time", problems) if message.HasField("start_time") else 0
    end = _milliseconds(message.end_time, "end_time", problems) if message.HasField("end_time") else LAST[0]
    if len(message.actor) > _MOST_ACTOR:
        problems.add("actor", "OUT_OF_BOUNDS", f"An actor has {_MOST_ACTOR} characters at most.")
    if message.order not in service_pb2.HistoryOrder.values():
        problems.add("order", "UNKNOWN_ORDER", f"{message.order} is no order: say NEWEST_FIRST, OLDEST_FIRST or RECORDED.")
    if not 0 <= message.page_size <= _MOST_PAGE:
        problems.add("page_size", "OUT_OF_BOUNDS", f"page_size must be from 0 to {_MOST_PAGE}, not {message.page_size}.")
    recorded = message.order == service_pb2.HISTORY_ORDER_RECORDED
    after = _place(message, problems) if message.page_token and not recorded else None
    behind = _recorded(message.page_token, "page_token", problems) if recorded else None
    if message.until_token and not recorded:
        problems.add("until_token", "CONTRADICTION", "until_token belongs to the order RECORDED: for a time say end_time.")
    until = _recorded(message.until_token, "until_token", problems) if recorded and message.until_token else None
    problems.check()
    return Question(
        topic.namespace if topic is not None else namespace or "",
        str(topic) if topic is not None else "",
        frozenset(scopes or Scope),
        start,
        end,
        message.actor if message.HasField("actor") else None,
        message.order != service_pb2.HISTORY_ORDER_OLDEST_FIRST,
        after,
        message.page_size or _DEFAULT_PAGE,
        behind,
        until,
    )


def read_moment(message: service_pb2.GetPolicyRequest) -> Moment | None:
    """When a document is to be told of; None: now.

    Raises:
        InvalidArgument: with every violation.
    """
    timed = message.HasField("as_of")
    if not timed and not message.as_of_version:
        return None
    problems = Problems()
    if timed and message.as_of_version:
        problems.add("as_of_version", "CONTRADICTION", "Say either as_of or as_of_version.")
    if message.at_least:
        problems.add("at_least", "CONTRADICTION", "What was does not wait for what is to come: say either at_least or as_of.")
    if len(message.as_of_version) > _MOST_VERSION or not message.as_of_version.isascii():
        problems.add("as_of_version", "MALFORMED_VERSION", "as_of_version is not a version of this service's.")
    at = _milliseconds(message.as_of, "as_of", problems) if timed else 0
    if at > time.time_ns() // 1_000_000 + _FUTURE_MS:
        problems.add("as_of", "IN_THE_FUTURE", "as_of is in the future: say a time that is over.")
    problems.check()
    return Moment(at, message.as_of_version)


async def list_history(registry: Registry, message: service_pb2.ListHistoryRequest, question: Question, *, followed: bool) -> bytes:
    """A serialized ``ListHistoryResponse``.

    Args:
        registry: the namespaces.
        message: the request.
        question: what it asks for.
        followed: whether the namespace's log may be read.

    Raises:
        PolicyError: there is no history, or it can't be read.
    """
    history = of(registry)
    if followed:
        try:
            await registry.get(question.namespace).ready()
        except PolicyError:  # what is recorded can be told all the same
            followed = False
    page = await history.page(question)
    token, end = "", _recorded_token(page.end) if page.end is not None else ""
    if page.more:
        token = _token(message, page.entries[-1].place) if page.end is None else _recorded_token(page.entries[-1].recorded)
    rest = service_pb2.ListHistoryResponse(next_page_token=token, gaps=map(_gap, page.gaps), following=followed, end_token=end)
    return b"".join(documents.record(_ENTRIES, _entry(entry, page)) for entry in page.entries) + rest.SerializeToString()


async def past_document(registry: Registry, namespace: str, key: PolicyKey, moment: Moment, *, followed: bool) -> bytes:
    """A serialized ``GetPolicyResponse`` with a document as it was.

    Args:
        registry: the namespaces.
        namespace: the topic's.
        key: its policy key.
        moment: when.
        followed: whether the namespace's log may be read; if not, only the history tells.

    Raises:
        PolicyError: there is no history, it does not tell for certain, or it or the log can't be read.
    """
    history = of(registry)
    head = await registry.get(namespace).get(key) if followed else None
    past: Past = await history.past(namespace, key, head, at=moment.at, version=moment.version, followed=followed)
    answer = service_pb2.GetPolicyResponse(
        topic=key.topic, scope=events_pb2.Scope.ValueType(key.scope), exists=past.document is not None, version=past.version
    )
    return answer.SerializeToString() + _embedded(_POLICIES, past.document)


def _entry(entry: Entry, page: Page) -> bytes:
    message = service_pb2.HistoryEntry(
        topic=entry.topic,
        scope=events_pb2.Scope.ValueType(entry.scope),
        kind=service_pb2.HistoryKind.ValueType(entry.kind),
        outcome=service_pb2.HistoryOutcome.ValueType(entry.outcome),
        actor=entry.actor,
        actor_standing=service_pb2.ActorStanding.ValueType(entry.standing),
        request_id=entry.request_id,
        producer_name=entry.producer,
        partition=page.partitions.get(entry.stream, 0),
        position=entry.position,
        version=entry.version,
        previous_version=entry.previous,
        before_known=entry.before_known,
        stale=bool(entry.flags & STALE),
        unexplained=bool(entry.flags & UNEXPLAINED),
        ambiguous=bool(entry.flags & AMBIGUOUS),
        replicated=bool(entry.flags & REPLICATED),
        problem=entry.problem,
    )
    message.time.FromMilliseconds(entry.at)
    message.publish_time.FromMilliseconds(entry.published_at)
    if paths := entry.paths:
        message.update_mask.paths.extend(paths)
    if changed := entry.changed:
        message.changed.paths.extend(changed)
    return message.SerializeToString() + _embedded(_BEFORE, entry.before) + _embedded(_AFTER, entry.after)


def _gap(gap: Gap) -> service_pb2.HistoryGap:
    message = service_pb2.HistoryGap(reason=service_pb2.HistoryGapReason.ValueType(gap.reason))
    if gap.since is not None:
        message.start_time.FromMilliseconds(gap.since)
    message.end_time.FromMilliseconds(gap.until)
    return message


def _milliseconds(time_stamp: Timestamp, field: str, problems: Problems) -> int:
    """Rounded down, as the history keeps times."""
    found = time_stamp.seconds * 1000 + time_stamp.nanos // 1_000_000
    if not (0 <= found <= MOST_MS and 0 <= time_stamp.nanos < 1_000_000_000):
        problems.add(field, "OUT_OF_BOUNDS", f"{field} must be a time between the years 1970 and 9999.")
        return 0
    return found


def _token(message: service_pb2.ListHistoryRequest, place: Place) -> str:
    return base64.urlsafe_b64encode(f"{place.at}.{place.id}.{_digest(message)}".encode()).decode()


def _place(message: service_pb2.ListHistoryRequest, problems: Problems) -> Place | None:
    try:
        at, number, digest = base64.urlsafe_b64decode(message.page_token.encode()).decode().split(".")
        place = Place(int(at), int(number))
    except (ValueError, binascii.Error):
        place, digest = None, ""
    if place is None or digest != _digest(message) or not all(0 <= part <= LAST[0] for part in place):
        problems.add("page_token", "MALFORMED_TOKEN", "The page token is not one of an answer to this question: begin with the first page.")
        return None
    return place


def _recorded_token(place: Recorded) -> str:
    return base64.urlsafe_b64encode(f"r.{place.id}.{place.stream}.{place.position}".encode()).decode()


def _recorded(token: str, field: str, problems: Problems) -> Recorded:
    if not token:
        return BEGINNING
    try:
        kind, number, stream, position = base64.urlsafe_b64decode(token.encode()).decode().split(".", 3)
        place = Recorded(int(number), int(stream), position)
        if kind == "r" and all(0 <= each <= LAST[1] for each in place[:2]):
            return place
    except (ValueError, binascii.Error):
        pass
    problems.add(field, "MALFORMED_TOKEN", f"{field} is not a token of the order RECORDED: begin without it.")
    return BEGINNING


def _digest(message: service_pb2.ListHistoryRequest) -> str:
    """Of the question, whatever the page."""
    question = service_pb2.ListHistoryRequest()
    question.CopyFrom(message)
    question.page_token = ""
    question.page_size = 0
    return hashlib.blake2b(question.SerializeToString(deterministic=True), digest_size=8).hexdigest()


def _embedded(number: int, document: bytes | None) -> bytes:
    return b"" if document is None else documents.record(number, document)


def _number(message: type[Message], field: str) -> int:
    return message.DESCRIPTOR.fields_by_name[field].number


_ENTRIES = _number(service_pb2.ListHistoryResponse, "entries")
_BEFORE = _number(service_pb2.HistoryEntry, "before")
_AFTER = _number(service_pb2.HistoryEntry, "after")
_POLICIES = _number(service_pb2.GetPolicyResponse, "policies")
