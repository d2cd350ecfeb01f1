"""Thousands of calls that arrive at once: each is served, or is told why not."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable
from contextlib import AsyncExitStack

import grpc

from tests.stubs import async_stub
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import UpdatePolicyRequest, UpdatePolicyResponse
from topicpolicies_server.config import EmbeddedLogConfig, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC

CALLS, CHANNELS = 6_000, 4
PATIENCE = 40.0


async def test_a_burst_of_fewer_calls_than_the_limit_is_served_whole() -> None:
    config = ServerConfig(log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"))
    assert config.limits.max_concurrent_calls > CALLS, "the case"
    async with Server(config) as server, AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(server.address, options=[("one", number)]))
            for number in range(CHANNELS)
        ]
        stubs = [async_stub(channel) for channel in channels]

        async def outcome(call: Awaitable[UpdatePolicyResponse]) -> grpc.StatusCode:
            try:
                await call
            except grpc.aio.AioRpcError as error:
                return error.code()
            return grpc.StatusCode.OK

        calls = []
        for number in range(CALLS):
            request = UpdatePolicyRequest(topic=f"{TOPIC}-{number}", policies=TopicPolicies(max_producer_per_topic=1))
            calls.append(stubs[number % CHANNELS].UpdatePolicy(request))
        async with asyncio.timeout(PATIENCE):
            outcomes = Counter(await asyncio.gather(*map(outcome, calls)))
    assert outcomes == {grpc.StatusCode.OK: CALLS}
