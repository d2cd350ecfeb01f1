"""Thousands of calls that arrive at once: each is served, or refused with a reason."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from tests.stubs import async_stub
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import GetServerInfoRequest, UpdatePolicyRequest, WatchPoliciesRequest
from topicpolicies_server.config import EmbeddedLogConfig, Limits, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC, refused

CALLS, CHANNELS = 1_500, 2
PATIENCE = 150.0


async def outcome(call: Awaitable[Message]) -> grpc.StatusCode:
    """Returns the status with which a call ends."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.slow
async def test_all_calls_of_a_burst_within_the_limit_are_served() -> None:
    config = ServerConfig(log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"))
    assert config.limits.max_concurrent_calls > CALLS, "the limit is not above the burst"
    async with Server(config) as server, AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(server.address, options=[("one", number)]))
            for number in range(CHANNELS)
        ]
        stubs = [async_stub(channel) for channel in channels]

        calls = []
        for number in range(CALLS):
            request = UpdatePolicyRequest(topic=f"{TOPIC}-{number}", policies=TopicPolicies(max_producer_per_topic=1))
            calls.append(stubs[number % CHANNELS].UpdatePolicy(request))
        async with asyncio.timeout(PATIENCE):
            outcomes = Counter(await asyncio.gather(*map(outcome, calls)))
    assert outcomes == {grpc.StatusCode.OK: CALLS}


async def test_a_call_beyond_the_limit_is_refused_with_too_many_calls_until_another_call_ends() -> None:
    limits = replace(Limits(), max_concurrent_calls=16)
    config = ServerConfig(log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"), limits=limits)
    async with Server(config) as server, grpc.aio.insecure_channel(server.address) as channel:
        stub = async_stub(channel)
        watches: list[Any] = [stub.WatchPolicies(WatchPoliciesRequest(namespaces=["public/default"])) for _ in range(16)]
        for watch in watches:
            await watch.read()
        refusals = [await refused(stub.UpdatePolicy(UpdatePolicyRequest(topic=TOPIC)))]
        beyond: Any = stub.WatchPolicies(WatchPoliciesRequest(namespaces=["public/default"]))
        refusals.append(await refused(beyond.read()))
        for refusal in refusals:
            assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_REACHED")
            assert "max_concurrent_calls" in refusal.message
        watches[0].cancel()
        async with asyncio.timeout(PATIENCE):
            while (await outcome(stub.GetServerInfo(GetServerInfoRequest()))) is not grpc.StatusCode.OK:  # noqa: ASYNC110 (nothing signals it)
                await asyncio.sleep(0.01)
