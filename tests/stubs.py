"""Helpers with which tests call the service. The generated stub works with both kinds of channels, but its types distinguish them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import grpc

from topicpolicies.v1.policies_pb2 import SCOPE_LOCAL, PolicyDocument, Scope
from topicpolicies.v1.service_pb2 import GetPolicyRequest, GetPolicyResponse, WatchEvent, WatchPoliciesResponse
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub

if TYPE_CHECKING:
    from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceAsyncStub as AsyncStub
else:
    AsyncStub = TopicPoliciesServiceStub

__all__ = ["AsyncStub", "async_stub", "each", "one", "reading"]


def async_stub(channel: grpc.aio.Channel) -> AsyncStub:
    """Returns a stub on an asyncio channel."""
    return TopicPoliciesServiceStub(channel)


def reading(topic: str, scope: Scope.ValueType = SCOPE_LOCAL, at_least_version: str | None = None) -> GetPolicyRequest:
    """Returns a request that reads the document of one scope."""
    request = GetPolicyRequest(topic=topic, scopes=[scope])
    if at_least_version is not None:
        request.at_least_version = at_least_version
    return request


def one(answer: GetPolicyResponse) -> PolicyDocument:
    """Returns the only document of an answer."""
    (document,) = answer.documents
    return document


def each(stream: Iterable[WatchPoliciesResponse]) -> Iterator[WatchEvent]:
    """Yields the events of a watch, from its batches."""
    for message in stream:
        yield from message.events
