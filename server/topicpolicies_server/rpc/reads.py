"""GetPolicy, GetEffectivePolicy and ListPolicies: reads the requests, and serializes the answers; and the tokens of pages.

A page token is the place where the next page begins, and a digest of the listing's parameters: with a token of another listing a page would
begin at an arbitrary place. It is opaque to clients. It is not signed, and grants nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies

from ..cluster.cluster import Cluster
from ..core.errors import Kind, PolicyError
from ..core.names import PolicyKey, Scope, parse_namespace
from ..core.policies import documents, resolution
from ..core.policies.events import ABSENT
from ..core.reading.cell import Head
from ..core.reasons import Reason, ViolationReason
from ..namespaces.registry import Registry
from . import answers
from .calls import Call
from .problems import MOST_TOKEN, Problems, Topic, read_scope, read_scopes, read_topic
from .resume_tokens import NOTHING_READ

_PAGE_BYTES = 1 << 20
"""Bytes of documents at which a page ends, so that every client can receive it; the last document may take it beyond that."""
_DIGITS = 16
_Place = TypeVar("_Place")


class Page(NamedTuple):
    """The documents that a ListPolicies request lists: one page of them."""

    namespace: str
    scopes: frozenset[Scope]
    after: PolicyKey | None
    most: int


def read_get(message: service_pb2.GetPolicyRequest) -> tuple[Topic, PolicyKey, str]:
    """Reads a GetPolicy request. Returns the topic, the policy key, and the version that the document must have reached ("": any).

    Raises:
        PolicyError: INVALID_ARGUMENT, with every violation.
    """
    problems = Problems()
    topic = read_topic(message.topic, problems)
    scope = read_scope(message.scope, problems)
    at_least = problems.version(message.at_least_version, "at_least_version")
    problems.check()
    assert topic is not None, "checked"
    return topic, topic.key(scope), at_least


def read_effective(message: service_pb2.GetEffectivePolicyRequest) -> tuple[Topic, Mapping[Scope, str]]:
    """Reads a GetEffectivePolicy request. Returns the topic, and by scope the version that its document must have reached ("": any).

    Raises:
        PolicyError: INVALID_ARGUMENT, with every violation.
    """
    problems = Problems()
    topic = read_topic(message.topic, problems)
    at_least = {
        Scope.LOCAL: problems.version(message.at_least_local_version, "at_least_local_version"),
        Scope.GLOBAL: problems.version(message.at_least_global_version, "at_least_global_version"),
    }
    problems.check()
    assert topic is not None, "checked"
    return topic, at_least


def read_list(message: service_pb2.ListPoliciesRequest) -> Page:
    """Reads a ListPolicies request.

    Raises:
        PolicyError: INVALID_ARGUMENT, with every violation.
    """
    problems = Problems()
    namespace = problems.gather(parse_namespace, message.namespace, "namespace") or ""
    scopes = read_scopes(message.scopes, problems)
    most = problems.page_size(message.page_size)
    after = read_page_token(_listing(namespace, scopes), message.page_token, _key, problems)
    problems.check()
    return Page(namespace, scopes, after, most)


async def effective_policy(
    registry: Registry, cluster: Cluster | None, topic: Topic, at_least: Mapping[Scope, str], wire: answers.Wire, call: Call
) -> bytes:
    """Returns a serialized ``EffectivePolicy``: the policies that are in effect for a topic, and the level that each value comes from.

    The levels are the topic's LOCAL and GLOBAL documents, the namespace and the brokers; ``core/policies/resolution`` combines them.
    ``at_least``: by scope, the version that its document must have reached; that of ``call`` is set to the one that is waited for.

    Raises:
        PolicyError: the policies of the namespace or of the brokers are not known or can't be found out; the topic does not exist; the log
            can't be read, or does not reach a version in time.
    """
    levels = await cluster.levels(topic.namespace, PolicyKey(topic.full, Scope.LOCAL)) if cluster is not None else None
    if levels is None or levels.namespace is None or levels.broker is None:
        raise PolicyError(
            Kind.FAILED_PRECONDITION,
            Reason.LEVELS_UNKNOWN,
            f"This server does not know the policies of {topic.namespace} and of the brokers: give serve a --cluster-file"
            f' that has [broker] and [namespaces."{topic.namespace}"], or read the documents.',
        )
    heads: dict[Scope, Head | None] = dict.fromkeys(Scope)
    if not levels.disabled:
        served = registry.get(topic.namespace)
        for scope in Scope:
            call.at_least = at_least[scope]
            heads[scope] = await served.get(PolicyKey(topic.full, scope), at_least[scope])
    local, global_ = (_policies(heads[scope]) for scope in Scope)
    found = resolution.effective(local, global_, levels.namespace, levels.broker)
    answer = service_pb2.EffectivePolicy(
        topic=topic.full,
        local_version=_version(heads[Scope.LOCAL]),
        global_version=_version(heads[Scope.GLOBAL]),
        disabled=levels.disabled,
    )
    for path, source in sorted(found.sources.items()):
        answer.sources.add(path=path, source=service_pb2.PolicySource.ValueType(source))
    answer.policies.MergeFromString(wire(documents.split(found.policies)))
    return answer.SerializeToString()


async def policies_of(registry: Registry, cluster: Cluster | None, page: Page, wire: answers.Wire) -> bytes:
    """Returns a serialized ``ListPoliciesResponse``: an empty one if the namespace's topic policies are disabled.

    Raises:
        PolicyError: the log can't be read, or it can't be found out whether policies are disabled.
    """
    first = page.after is None
    if cluster is not None and await cluster.disabled(page.namespace):
        return answers.list_answer([], "", NOTHING_READ if first else None, wire)
    heads, more, token = await registry.get(page.namespace).page(page.scopes, page.after, page.most, _PAGE_BYTES)
    next_page = ""
    if more:
        last = heads[-1].key
        next_page = page_token(_listing(page.namespace, page.scopes), f"{int(last.scope)}{last.topic}")
    return answers.list_answer(heads, next_page, token if first else None, wire)


def page_token(listing: object, place: str) -> str:
    """Returns the token of the page behind a place. ``listing``: what the pages of a listing have in common, by its ``repr``."""
    return base64.urlsafe_b64encode((_digest(listing) + place).encode()).decode()


def read_page_token(listing: object, token: str, place_of: Callable[[str], _Place], problems: Problems) -> _Place | None:
    """Returns the place behind which a page begins; None: the token is empty, or is not one of this listing, which is noted.

    ``place_of`` parses a place; it raises ValueError if the text is none.
    """
    if not (token := problems.text(token, "page_token", MOST_TOKEN)):
        return None
    try:
        text = base64.urlsafe_b64decode(token.encode()).decode()
        if text.startswith(_digest(listing)):
            return place_of(text[_DIGITS:])
    except (ValueError, binascii.Error):
        pass
    problems.add(
        "page_token", ViolationReason.MALFORMED_TOKEN, "The page token does not belong to this request: begin with the first page."
    )
    return None


def _digest(listing: object) -> str:
    return hashlib.blake2b(repr(listing).encode(), digest_size=_DIGITS // 2).hexdigest()


def _listing(namespace: str, scopes: frozenset[Scope]) -> object:
    return namespace, sorted(scopes)


def _key(place: str) -> PolicyKey:
    return PolicyKey(place[1:], Scope(int(place[:1])))


def _policies(head: Head | None) -> TopicPolicies | None:
    return documents.join(head.document) if head is not None and head.document is not None else None


def _version(head: Head | None) -> str:
    return head.version if head is not None else ABSENT
