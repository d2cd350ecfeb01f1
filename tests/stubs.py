"""The service as tests call it. The generated stub serves both kinds of channels; its types tell them apart."""

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
    """A stub on an asyncio channel."""
    return TopicPoliciesServiceStub(channel)


def reading(topic: str, scope: Scope.ValueType = SCOPE_LOCAL, at_least_version: str | None = None) -> GetPolicyRequest:
    """Reads the document of one scope."""
    request = GetPolicyRequest(topic=topic, scopes=[scope])
    if at_least_version is not None:
        request.at_least_version = at_least_version
    return request


def one(answer: GetPolicyResponse) -> PolicyDocument:
    """The document that was read."""
    (document,) = answer.documents
    return document


def each(stream: Iterable[WatchPoliciesResponse]) -> Iterator[WatchEvent]:
    """What a watch tells, taken out of its batches."""
    for message in stream:
        yield from message.events
