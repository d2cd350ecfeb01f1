"""ListHistory and GetPolicyAsOf: reads the requests, asks the history, serializes the answers.

The documents of an entry go into the answer as the bytes that the history keeps.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from topicpolicies.v1 import history_pb2

from ..core.errors import Kind, PolicyError
from ..core.names import PolicyKey, parse_namespace
from ..core.policies.documents import record
from ..core.policies.events import LATEST_MS, Position
from ..core.reasons import Reason, ViolationReason
from ..history.entries import EntryPlace
from ..history.history import History
from ..history.queries import LATEST, Past, Query
from ..namespaces.registry import Registry
from . import page_tokens, recorded
from .answers import document, number
from .problems import MOST_ACTOR, Problems, Topic, read_scope, read_scopes, read_topic

_FUTURE_MS = 60_000
"""How far a time may lie in the future, because clocks differ; it then means the present."""


class Moment(NamedTuple):
    """The moment as of which a document is read: a time or a version."""

    at: int
    """The time, in milliseconds since 1970; 0 if ``version`` counts."""
    version: Position
    """The version; "": ``at`` counts."""


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


def read_query(message: history_pb2.ListHistoryRequest) -> Query:
    """Reads a ListHistory request.

    Raises:
        PolicyError: INVALID_ARGUMENT, with every violation.
    """
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
    query = Query(
        topic.namespace if topic is not None else namespace or "",
        topic.full if topic is not None else "",
        scopes,
        start,
        end,
        actor,
        not message.oldest_first,
        None,
        most,
    )
    after = page_tokens.read(_asked(query), message.page_token, _place, problems)
    problems.check()
    return query._replace(after=after)


def read_moment(message: history_pb2.GetPolicyAsOfRequest) -> tuple[Topic, PolicyKey, Moment]:
    """Reads a GetPolicyAsOf request. Returns the topic, the policy key, and the moment.

    Raises:
        PolicyError: INVALID_ARGUMENT, with every violation.
    """
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
    return topic, topic.key(scope), Moment(at, version)


async def list_history(registry: Registry, query: Query, *, followed: bool) -> bytes:
    """Returns a serialized ``ListHistoryResponse``.

    Args:
        registry: the namespaces.
        query: the entries that are wanted.
        followed: whether the namespace may be loaded first, so that the history has what its log has.

    Raises:
        PolicyError: there is no history, or it can't be read.
    """
    history = of(registry)
    if followed:
        try:
            await registry.get(query.namespace).ready()
        except PolicyError:  # what the history has recorded can be listed all the same
            followed = False
    page = await history.page(query)
    last = page.entries[-1].place if page.more else None
    token = page_tokens.write(_asked(query), f"{last.at}.{last.id}") if last is not None else ""
    rest = history_pb2.ListHistoryResponse(next_page_token=token, gaps=map(recorded.gap, page.gaps), following=followed)
    entries = (record(_ENTRIES, recorded.entry(entry)) for entry in page.entries)
    return b"".join(entries) + rest.SerializeToString()


async def past_document(registry: Registry, namespace: str, key: PolicyKey, moment: Moment, *, followed: bool) -> bytes:
    """Returns a document as it was, as a serialized ``PolicyDocument``.

    Args:
        registry: the namespaces.
        namespace: the namespace of the topic.
        key: the policy key.
        moment: the time or the version.
        followed: whether the namespace may be loaded for its present head; if not, only the history is used.

    Raises:
        PolicyError: there is no history, the document is not certain from it, or the history or the log can't be read.
    """
    history = of(registry)
    head = await registry.get(namespace).get(key) if followed else None
    past: Past = await history.past(namespace, key, head, at=moment.at, version=moment.version, followed=followed)
    return document(key, past.version, past.document)


def _milliseconds(time_stamp: Timestamp, field: str, problems: Problems, *, up: bool = False) -> int:
    """Reads a time in milliseconds, the history's precision: rounded down as a moment, or up as a bound (``up``); violations are noted."""
    found = time_stamp.seconds * 1000 + (time_stamp.nanos + 999_999 * up) // 1_000_000
    if not (0 <= found <= LATEST_MS and 0 <= time_stamp.nanos < 1_000_000_000):
        problems.add(field, ViolationReason.OUT_OF_BOUNDS, f"{field} must be a time between the years 1970 and 9999.")
        return 0
    return found


def _asked(query: Query) -> object:
    """Returns what the pages of one listing have in common, in a canonical form, for page tokens."""
    return tuple(query._replace(after=None, most=0, scopes=frozenset())), sorted(query.scopes)


def _place(text: str) -> EntryPlace:
    at, entry_id = text.split(".")
    place = EntryPlace(int(at), int(entry_id))
    if not all(0 <= part <= LATEST for part in place):
        raise ValueError(text)
    return place


_ENTRIES = number(history_pb2.ListHistoryResponse, "entries")
