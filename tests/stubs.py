"""Helpers with which tests call the services. The generated stubs work with both kinds of channels, but their types distinguish them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import grpc

from topicpolicies.v1.history_pb2_grpc import PolicyHistoryServiceStub
from topicpolicies.v1.policies_pb2 import SCOPE_LOCAL, Scope
from topicpolicies.v1.service_pb2 import (
    BatchUpdatePoliciesRequest,
    DeletePolicyRequest,
    GetPolicyRequest,
    PolicyChangeRequest,
    UpdatePolicyRequest,
    WatchEvent,
    WatchPoliciesResponse,
)
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub

if TYPE_CHECKING:
    from topicpolicies.v1.history_pb2_grpc import PolicyHistoryServiceAsyncStub
    from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceAsyncStub

    class AsyncStub(TopicPoliciesServiceAsyncStub, PolicyHistoryServiceAsyncStub):
        """A stub of both services on an asyncio channel."""

else:

    class AsyncStub(TopicPoliciesServiceStub, PolicyHistoryServiceStub):
        """A stub of both services on an asyncio channel."""

        def __init__(self, channel):  # noqa: ANN001, ANN204 (as the generated code)
            TopicPoliciesServiceStub.__init__(self, channel)
            PolicyHistoryServiceStub.__init__(self, channel)


__all__ = ["AsyncStub", "async_stub", "batch", "each", "reading"]


def async_stub(channel: grpc.aio.Channel) -> AsyncStub:
    """Returns a stub of both services on an asyncio channel."""
    return AsyncStub(channel)


def reading(topic: str, scope: Scope.ValueType = SCOPE_LOCAL, at_least_version: str = "") -> GetPolicyRequest:
    """Returns a request that reads the document of one scope."""
    return GetPolicyRequest(topic=topic, scope=scope, at_least_version=at_least_version)


def each(stream: Iterable[WatchPoliciesResponse]) -> Iterator[WatchEvent]:
    """Yields the events of a watch, from its batches."""
    for message in stream:
        yield from message.events


def batch(*changes: UpdatePolicyRequest | DeletePolicyRequest) -> BatchUpdatePoliciesRequest:
    """Returns a batch of changes."""
    each = [
        PolicyChangeRequest(update=change) if isinstance(change, UpdatePolicyRequest) else PolicyChangeRequest(delete=change)
        for change in changes
    ]
    return BatchUpdatePoliciesRequest(changes=each)
