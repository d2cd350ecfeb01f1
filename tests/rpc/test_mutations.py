"""Mutated requests to every method: each is served, or refused with a status that no fault of the server causes; none leaves anything."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from tests.stubs import AsyncStub
from topicpolicies.v1 import history_pb2, service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.rpc.server import HISTORY, POLICIES, Server

from .conftest import TOPIC

NAMESPACE = "public/default"
SERVICE, HISTORY_SERVICE = POLICIES.full_name, HISTORY.full_name
DOCUMENT = TopicPolicies(max_producer_per_topic=1)
CHANGE = service_pb2.UpdatePolicyRequest(topic=TOPIC, policies=DOCUMENT, request_id="00000000-0000-4000-8000-000000000000", actor="bot")
VALID: dict[str, Message] = {
    f"{SERVICE}/UpdatePolicy": CHANGE,
    f"{SERVICE}/DeletePolicy": service_pb2.DeletePolicyRequest(topic=TOPIC, reason="x"),
    f"{SERVICE}/GetPolicy": service_pb2.GetPolicyRequest(topic=TOPIC),
    f"{SERVICE}/GetEffectivePolicy": service_pb2.GetEffectivePolicyRequest(topic=TOPIC),
    f"{SERVICE}/GetServerInfo": service_pb2.GetServerInfoRequest(),
    f"{SERVICE}/ListPolicies": service_pb2.ListPoliciesRequest(namespace=NAMESPACE, page_size=3),
    f"{SERVICE}/BatchUpdatePolicies": service_pb2.BatchUpdatePoliciesRequest(changes=[service_pb2.PolicyChangeRequest(update=CHANGE)] * 2),
    f"{SERVICE}/WatchPolicies": service_pb2.WatchPoliciesRequest(namespaces=[NAMESPACE]),
    f"{HISTORY_SERVICE}/ListHistory": history_pb2.ListHistoryRequest(namespace=NAMESPACE, page_size=3),
    f"{HISTORY_SERVICE}/GetPolicyAsOf": history_pb2.GetPolicyAsOfRequest(topic=TOPIC),
    f"{HISTORY_SERVICE}/WatchHistory": history_pb2.WatchHistoryRequest(namespaces=[NAMESPACE]),
}
FAULTS = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS, grpc.StatusCode.UNIMPLEMENTED}
"""Statuses that only a fault of the server causes."""
TEXTS = [b"", b"\0", b"`", b"*", b"a.b", "\u202e".encode(), b"-1", b"persistent://a/b/c-partition-0", b"x" * 100_000]
REQUESTS = 300


def mutated(raw: bytes, chance: random.Random) -> bytes:
    """Returns a request with some bytes changed, left out, repeated, or replaced by a field of text."""
    for _ in range(chance.randrange(4)):
        at, end = sorted(chance.choices(range(len(raw) + 1), k=2))
        text = chance.choice(TEXTS)
        field = bytes([chance.randrange(1, 16) << 3 | 2]) + _varint(len(text)) + text
        raw = raw[:at] + chance.choice([b"", chance.randbytes(end - at), raw[at:end] * 2, field]) + raw[end:]
    return raw


def _varint(number: int) -> bytes:
    return bytes([number & 127 | 128]) + _varint(number >> 7) if number > 127 else bytes([number])


async def sent(server: Server, seed: int) -> set[str]:
    """Sends mutated requests to all methods, several at once; returns the methods that had an answer or an ended stream."""
    chance, served = random.Random(seed), set[str]()

    async def send(channel: Any, method: str, request: bytes) -> None:
        try:
            if "Watch" in method:
                async for _ in channel.unary_stream(f"/{method}")(request, timeout=1):
                    pass
            else:
                await channel.unary_unary(f"/{method}")(request, timeout=20)
            served.add(method)
        except grpc.aio.AioRpcError as error:
            assert error.code() not in FAULTS, f"{method}: {error.details()} after {request!r}, seed {seed}"
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                served.add(method)

    async with grpc.aio.insecure_channel(server.address) as channel:
        for _ in range(REQUESTS // len(VALID)):
            await asyncio.gather(*(send(channel, method, mutated(valid.SerializeToString(), chance)) for method, valid in VALID.items()))
    return served


@pytest.mark.slow
@pytest.mark.parametrize("seed", [15, *(pytest.param(seed, marks=pytest.mark.evidence) for seed in range(100, 140))])
async def test_mutated_requests_are_served_or_refused_and_nothing_is_left_of_them(
    server: Server, stub: AsyncStub, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    served = await sent(server, seed)
    assert served == {method for method in VALID if method.startswith(SERVICE)} - {f"{SERVICE}/GetEffectivePolicy"}  # others need files
    await stub.UpdatePolicy(service_pb2.UpdatePolicyRequest(topic=f"{TOPIC}-other", policies=DOCUMENT))
    assert (await stub.GetPolicy(service_pb2.GetPolicyRequest(topic=f"{TOPIC}-other"))).policies == DOCUMENT
    async with asyncio.timeout(100):
        while len(server.calls) or any(namespace._watching for namespace in server.registry.namespaces()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
