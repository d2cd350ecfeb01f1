"""The service as asyncio code calls it: the generated stub serves both kinds of channels, its types tell them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub

if TYPE_CHECKING:
    from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceAsyncStub as AsyncStub
else:
    AsyncStub = TopicPoliciesServiceStub

__all__ = ["AsyncStub", "async_stub"]


def async_stub(channel: grpc.aio.Channel) -> AsyncStub:
    """A stub on an asyncio channel."""
    return TopicPoliciesServiceStub(channel)
