"""GetPolicy, GetEffectivePolicy and ListPolicies, and the tokens of pages.

A page token is the place where the next page begins, and a digest of the listing's parameters: with a token of another listing a page would
begin at an arbitrary place. It is opaque to clients. It is not signed, and grants nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies

from ..access import Permission
from ..core.errors import Kind, PolicyError
from ..core.names import PolicyKey, Scope, parse_namespace
from ..core.policies import documents, resolution
from ..core.policies.documents import record
from ..core.policies.events import ABSENT
from ..core.reading import tokens
from ..core.reading.cell import Head
from ..core.reasons import Reason, ViolationReason
from . import answers
from .calls import Call, Method
from .dependencies import Dependencies
from .problems import MOST_TOKEN, Problems, read_scope, read_scopes, read_topic

UNCONFIRMED_KEY = "topicpolicies-unconfirmed-since"
"""The trailing metadata of an answer from a view that can't be confirmed, for the log is out of reach: since when (ISO 8601, UTC)."""
_PAGE_BYTES = 1 << 20
"""Bytes of documents at which a page ends, so that every client can receive it; the last document may take it beyond that."""
_DIGITS = 16
_Place = TypeVar("_Place")


def marked(method: Callable[[Dependencies, Any, Call], Awaitable[bytes]], dependencies: Dependencies) -> Method[bytes]:
    """Returns a method whose answers say since when they can't be confirmed, if the log is out of reach (``UNCONFIRMED_KEY``)."""

    async def answer(message: Any, call: Call) -> bytes:
        answered = await method(dependencies, message, call)
        readiness = dependencies.registry.common.readiness
        if readiness.cut_off and not dependencies.registry.common.context.sole_writer:
            since = datetime.now(UTC) - timedelta(seconds=time.monotonic() - readiness.since)
            call.context.set_trailing_metadata(((UNCONFIRMED_KEY, since.isoformat(timespec="milliseconds")),))
        return answered

    return answer


async def get_policy(dependencies: Dependencies, message: service_pb2.GetPolicyRequest, call: Call) -> bytes:
    """Serves GetPolicy."""
    call.target = message.topic
    problems = Problems()
    topic = read_topic(message.topic, problems)
    scope = read_scope(message.scope, problems)
    at_least = problems.version(message.at_least_version, "at_least_version")
    problems.check()
    assert topic is not None, "checked"
    key = topic.key(scope)
    granted = await call.permit(dependencies.grants, topic.namespace, Permission.READ)
    if dependencies.cluster is not None and await dependencies.cluster.disabled(topic.namespace, topic.full):
        return answers.document(key, ABSENT, None, disabled=True)
    call.at_least = at_least
    return answers.present(key, await dependencies.registry.get(topic.namespace).get(key, at_least), answers.wire_of(granted))


async def get_effective_policy(dependencies: Dependencies, message: service_pb2.GetEffectivePolicyRequest, call: Call) -> bytes:
    """Serves GetEffectivePolicy: the policies that are in effect for a topic, and the level that each value comes from.

    The levels are the topic's LOCAL and GLOBAL documents, the namespace and the brokers; ``core/policies/resolution`` combines them.
    """
    call.target = message.topic
    problems = Problems()
    topic = read_topic(message.topic, problems)
    at_least = {
        Scope.LOCAL: problems.version(message.at_least_local_version, "at_least_local_version"),
        Scope.GLOBAL: problems.version(message.at_least_global_version, "at_least_global_version"),
    }
    problems.check()
    assert topic is not None, "checked"
    granted = await call.permit(dependencies.grants, topic.namespace, Permission.READ)
    cluster = dependencies.cluster
    levels = await cluster.levels(topic.namespace, topic.key(Scope.LOCAL)) if cluster is not None else None
    if levels is None or levels.namespace is None or levels.broker is None:
        raise PolicyError(
            Kind.FAILED_PRECONDITION,
            Reason.LEVELS_UNKNOWN,
            f"This server does not know the policies of {topic.namespace} and of the brokers: give serve a --cluster-file"
            f' that has [broker] and [namespaces."{topic.namespace}"], or read the documents.',
        )
    heads: dict[Scope, Head | None] = dict.fromkeys(Scope)
    if not levels.disabled:
        served = dependencies.registry.get(topic.namespace)
        for scope in Scope:
            call.at_least = at_least[scope]
            heads[scope] = await served.get(topic.key(scope), at_least[scope])
    local, global_ = (heads[scope] for scope in Scope)
    found = resolution.effective(_policies(local), _policies(global_), levels.namespace, levels.broker)
    answer = service_pb2.EffectivePolicy(topic=topic.full, disabled=levels.disabled)
    answer.local_version = local.version if local is not None else ABSENT
    answer.global_version = global_.version if global_ is not None else ABSENT
    for path, source in sorted(found.sources.items()):
        answer.sources.add(path=path, source=service_pb2.PolicySource.ValueType(source))
    answer.policies.MergeFromString(answers.wire_of(granted)(documents.split(found.policies)))
    return answer.SerializeToString()


async def list_policies(dependencies: Dependencies, message: service_pb2.ListPoliciesRequest, call: Call) -> bytes:
    """Serves ListPolicies: nothing is listed if the namespace's topic policies are disabled."""
    call.target = message.namespace
    problems = Problems()
    namespace = problems.gather(parse_namespace, message.namespace, "namespace") or ""
    scopes = read_scopes(message.scopes, problems)
    most = problems.page_size(message.page_size)
    listing = namespace, sorted(scopes)
    after = read_page_token(listing, message.page_token, _key, problems)
    problems.check()
    wire = answers.wire_of(await call.permit(dependencies.grants, namespace, Permission.READ))
    if dependencies.cluster is not None and await dependencies.cluster.disabled(namespace):
        heads, more, token = list[Head](), False, tokens.NOTHING_READ
    else:
        heads, more, token = await dependencies.registry.get(namespace).page(scopes, after, most, _PAGE_BYTES)
    rest = service_pb2.ListPoliciesResponse()
    if more:
        rest.next_page_token = page_token(listing, f"{int(heads[-1].key.scope)}{heads[-1].key.topic}")
    if after is None:
        rest.resume_token = tokens.write(token)
    return b"".join(record(_DOCUMENTS, answers.present(head.key, head, wire)) for head in heads) + rest.SerializeToString()


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


def _key(place: str) -> PolicyKey:
    return PolicyKey(place[1:], Scope(int(place[:1])))


def _policies(head: Head | None) -> TopicPolicies | None:
    return documents.join(head.document) if head is not None and head.document is not None else None


_DOCUMENTS: Final = answers.tag_of(service_pb2.ListPoliciesResponse, "documents")
