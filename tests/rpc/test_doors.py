"""The doors that every call passes before its request is decoded, and the observers of its end."""

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
from topicpolicies_server.rpc.call import Call
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC, Refusal, refused

ALICE = Caller("alice", Way.TOKEN)
REFUSAL = PolicyError(Kind.PERMISSION_DENIED, Reason.READ_ONLY, "The door is shut.")
PATIENCE = 20.0


@pytest.fixture
def log_path() -> None:
    """Overrides the shared fixture: the log is in memory, because these tests do not concern it."""
    return


class Doors:
    """Two doors and an observer: identifies every caller after a moment, refuses every call while ``refuses``, and records the calls."""

    def __init__(self) -> None:
        self.refuses = False
        self.arrived: list[str] = []
        self.ended: list[tuple[str, str, Reason | None, bool]] = []
        self.over = asyncio.Event()

    async def identify(self, call: Call) -> None:
        """Identifies the caller. This is a door that has to be awaited."""
        await asyncio.sleep(0)
        call.caller = ALICE

    def permit(self, call: Call) -> None:
        """Refuses the call while ``refuses``. This is a door that decides at once."""
        assert call.caller is ALICE, "the doors were not passed in their order"
        if self.refuses:
            raise REFUSAL

    def began(self, call: Call) -> None:
        """Records the arrival of a call."""
        self.arrived.append(call.method)

    def ended_(self, call: Call) -> None:
        """Records the end of a call."""
        assert call.seconds >= 0
        self.ended.append((call.method, call.caller.principal, call.error.reason if call.error else None, call.given_up))
        self.over.set()

    async def until_ended(self, count: int) -> None:
        """Waits until so many calls have ended: callers have their answers a moment before."""
        async with asyncio.timeout(PATIENCE):
            while len(self.ended) < count:
                self.over.clear()
                await self.over.wait()


class Observer:
    """An observer that notifies the doors."""

    def __init__(self, doors: Doors) -> None:
        self.began = doors.began
        self.ended = doors.ended_


@pytest.fixture
def doors(server: Server) -> Doors:
    """Returns doors that are the server's, and observe its calls."""
    doors = Doors()
    server.calls.doors = (doors.identify, doors.permit)
    server.calls.observers = (Observer(doors),)
    return doors


async def test_calls_pass_the_doors_in_order_and_observers_are_notified_of_their_ends(stub: AsyncStub, doors: Doors) -> None:
    await stub.GetServerInfo(GetServerInfoRequest())
    await refused(stub.GetPolicy(GetPolicyRequest(topic="nonsense://")))
    await doors.until_ended(2)
    assert doors.arrived == ["GetServerInfo", "GetPolicy"]
    assert doors.ended[0] == ("GetServerInfo", "alice", None, False)
    method, who, reason, given_up = doors.ended[1]
    assert (method, who, given_up) == ("GetPolicy", "alice", False)
    assert reason is not None


async def test_a_door_refuses_calls_of_every_service_before_their_requests_are_validated(
    server: Server, stub: AsyncStub, doors: Doors
) -> None:
    doors.refuses = True
    unary = await refused(stub.GetPolicy(GetPolicyRequest(topic="nonsense://")))
    with pytest.raises(grpc.aio.AioRpcError) as watching:
        await stub.WatchPolicies(WatchPoliciesRequest()).read()
    assert unary.code is watching.value.code() is grpc.StatusCode.PERMISSION_DENIED
    async with grpc.aio.insecure_channel(server.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    await doors.until_ended(3)
    assert [each[0] for each in doors.ended] == ["GetPolicy", "WatchPolicies", "grpc.health.v1.Health/Check"]
    assert all(each[2] is Reason.READ_ONLY for each in doors.ended)


@pytest.mark.parametrize("later", [False, True])
async def test_a_door_that_fails_refuses_the_call_as_internal_and_only_logs_the_cause(
    server: Server, stub: AsyncStub, caplog: pytest.LogCaptureFixture, later: bool
) -> None:
    def fails(_: Call) -> None:
        raise LookupError("a cause only for the log")

    async def fails_later(call: Call) -> None:
        await asyncio.sleep(0)
        fails(call)

    server.calls.doors = (fails_later if later else fails,)
    refusal = await refused(stub.GetPolicy(GetPolicyRequest(topic=TOPIC)))
    with pytest.raises(grpc.aio.AioRpcError) as watching:
        await stub.WatchPolicies(WatchPoliciesRequest(topics=[TOPIC])).read()
    for each in (refusal, Refusal(watching.value)):
        assert (each.code, each.info.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
        assert "only for the log" not in each.message
    assert "a cause only for the log" in caplog.text


async def test_observers_see_a_call_whose_caller_went_away_as_given_up(server: Server, stub: AsyncStub, doors: Doors) -> None:
    await stub.GetServerInfo(GetServerInfoRequest())
    doors.over.clear()
    watch = stub.WatchPolicies(WatchPoliciesRequest(topics=[TOPIC]))
    assert await watch.read()
    watch.cancel()
    async with asyncio.timeout(PATIENCE):
        await doors.over.wait()
    assert doors.ended[-1] == ("WatchPolicies", "alice", None, True)
    assert len(server.calls) == 0
