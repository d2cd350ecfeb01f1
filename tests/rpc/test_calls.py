"""The caller of each call is identified before its request is decoded, and observers are notified of its end."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.stubs import AsyncStub
from topicpolicies.v1.service_pb2 import GetPolicyRequest, GetServerInfoRequest, WatchPoliciesRequest
from topicpolicies_server.access import Caller, Way
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.rpc.calls import Call
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC, refused

ALICE = Caller("alice", Way.TOKEN)
REFUSAL = PolicyError(Kind.PERMISSION_DENIED, Reason.READ_ONLY, "Nobody may call.")
PATIENCE = 100.0


class Identifying:
    """Identifies every caller after a moment, refuses every call while ``refuses``, and records the calls."""

    def __init__(self) -> None:
        self.refuses = False
        self.arrived: list[str] = []
        self.ends: list[tuple[str, str, Reason | None, bool]] = []
        self.over = asyncio.Event()

    async def identify(self, _: Call) -> Caller:
        """Returns the caller, after a moment."""
        await asyncio.sleep(0)
        if self.refuses:
            raise REFUSAL
        return ALICE

    def began(self, call: Call) -> None:
        """Records the arrival of a call."""
        self.arrived.append(call.method)

    def ended(self, call: Call) -> None:
        """Records the end of a call."""
        self.ends.append((call.method, call.caller.principal, call.error.reason if call.error else None, call.given_up))
        self.over.set()

    async def until_ended(self, count: int) -> None:
        """Waits until so many calls have ended: callers have their answers a moment before."""
        async with asyncio.timeout(PATIENCE):
            while len(self.ends) < count:
                self.over.clear()
                await self.over.wait()


@pytest.fixture
def identifying(server: Server) -> Identifying:
    """Returns what identifies the server's callers, and observes its calls."""
    identifying = Identifying()
    server.calls.identify, server.calls.began, server.calls.observers = identifying.identify, identifying.began, (identifying.ended,)
    return identifying


async def test_callers_are_identified_and_observers_are_notified_of_the_ends_of_calls(stub: AsyncStub, identifying: Identifying) -> None:
    await stub.GetServerInfo(GetServerInfoRequest())
    await refused(stub.GetPolicy(GetPolicyRequest(topic="nonsense://")))
    await identifying.until_ended(2)
    assert identifying.arrived == ["GetServerInfo", "GetPolicy"]
    assert identifying.ends[0] == ("GetServerInfo", "alice", None, False)
    method, who, reason, given_up = identifying.ends[1]
    assert (method, who, given_up) == ("GetPolicy", "alice", False)
    assert reason is not None


async def test_calls_of_every_service_are_refused_before_their_requests_are_validated(
    server: Server, stub: AsyncStub, identifying: Identifying
) -> None:
    identifying.refuses = True
    unary = await refused(stub.GetPolicy(GetPolicyRequest(topic="nonsense://")))
    with pytest.raises(grpc.aio.AioRpcError) as watching:
        await stub.WatchPolicies(WatchPoliciesRequest()).read()
    assert unary.code is watching.value.code() is grpc.StatusCode.PERMISSION_DENIED
    async with grpc.aio.insecure_channel(server.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    await identifying.until_ended(3)
    assert [each[0] for each in identifying.ends] == ["GetPolicy", "WatchPolicies", "grpc.health.v1.Health/Check"]
    assert all(each[2] is Reason.READ_ONLY for each in identifying.ends)


async def test_observers_see_a_call_whose_caller_went_away_as_given_up(server: Server, stub: AsyncStub, identifying: Identifying) -> None:
    await stub.GetServerInfo(GetServerInfoRequest())
    identifying.over.clear()
    watch = stub.WatchPolicies(WatchPoliciesRequest(topics=[TOPIC]))
    assert await watch.read()
    watch.cancel()
    async with asyncio.timeout(PATIENCE):
        await identifying.over.wait()
    assert identifying.ends[-1] == ("WatchPolicies", "alice", None, True)
    assert len(server.calls) == 0
