"""Permissions that an authority has to be asked for: what waits for its answer, what does not, and what happens without one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import grpc
import pytest

from tests.rpc.callers import believe, of
from tests.rpc.conftest import refused
from tests.rpc.slow import Slow
from tests.stubs import AsyncStub, async_stub, batch
from topicpolicies.v1 import policies_pb2 as pb
from topicpolicies.v1 import service_pb2
from topicpolicies_server.config import EmbeddedLogConfig, ServerConfig, parse_address
from topicpolicies_server.core.chains.request import Request
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.rpc import server as servers
from topicpolicies_server.rpc.server import Server

PATIENCE = 100.0
SLOW, FAST = "persistent://slow/space/t", "persistent://fast/space/t"


@pytest.fixture
async def server(slow: Slow) -> AsyncIterator[Server]:
    """Yields a server that asks the slow authority."""
    assert slow.asked == 0
    config = ServerConfig(log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"))
    async with Server(config) as server:
        server.calls.identify = believe
        yield server


def change(topic: str, value: int) -> service_pb2.UpdatePolicyRequest:
    """Returns a change."""
    return service_pb2.UpdatePolicyRequest(topic=topic, policies=pb.TopicPolicies(max_producer_per_topic=value))


async def test_changes_whose_permission_is_denied_when_the_answer_comes_are_refused(stub: AsyncStub, slow: Slow) -> None:
    call = stub.BatchUpdatePolicies(batch(change(SLOW, 1), change(SLOW, 2)), metadata=of("admin"))
    slow.allowed = False
    slow.knows.set()
    async with asyncio.timeout(PATIENCE):
        found = (await call).results
    assert [each.error.code for each in found] == [grpc.StatusCode.PERMISSION_DENIED.value[0]] * 2
    assert slow.asked == 1, "the permission is asked for once for each namespace"


@pytest.mark.parametrize("name", ["UpdatePolicy", "GetPolicy", "ListPolicies", "WatchPolicies", "BatchUpdatePolicies"])
async def test_calls_whose_permission_can_not_be_found_out_are_refused_as_unavailable(stub: AsyncStub, slow: Slow, name: str) -> None:
    slow.problem = PolicyError(Kind.UNAVAILABLE, Reason.AUTHORIZATION_UNKNOWN, "The brokers do not tell.")
    slow.knows.set()
    if name == "BatchUpdatePolicies":
        found = await stub.BatchUpdatePolicies(batch(change(SLOW, 1)), metadata=of("admin"))
        assert found.results[0].error.code == grpc.StatusCode.UNAVAILABLE.value[0]
        return
    requests = {
        "UpdatePolicy": change(SLOW, 1),
        "GetPolicy": service_pb2.GetPolicyRequest(topic=SLOW),
        "ListPolicies": service_pb2.ListPoliciesRequest(namespace="slow/space"),
        "WatchPolicies": service_pb2.WatchPoliciesRequest(namespaces=["fast/space", "slow/space"]),
    }
    call = getattr(stub, name)(requests[name], metadata=of("admin"))
    refusal = await refused(anext(aiter(call)) if name == "WatchPolicies" else call)
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.UNAVAILABLE, "AUTHORIZATION_UNKNOWN")


async def test_permissions_that_are_known_are_not_asked_for(stub: AsyncStub, slow: Slow) -> None:
    await stub.UpdatePolicy(change(FAST, 1), metadata=of("admin"))
    await stub.GetPolicy(service_pb2.GetPolicyRequest(topic=FAST), metadata=of("admin"))
    found = await stub.BatchUpdatePolicies(batch(change(FAST, 2)), metadata=of("admin"))
    assert found.results[0].HasField("success")
    assert (slow.asked, slow.looked) == (0, 3)


async def test_an_invalid_request_is_refused_before_its_permission_is_looked_up(stub: AsyncStub, slow: Slow) -> None:
    refusal = await refused(stub.GetPolicy(service_pb2.GetPolicyRequest(topic="no topic"), metadata=of("admin")))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert (slow.asked, slow.looked) == (0, 0)


class Facts:
    """A fake cluster that admits every change at once, but changes with a reason only when ``known`` is set."""

    def __init__(self) -> None:
        self.known = asyncio.Event()

    def admit(self, _namespace: str, request: Request) -> Awaitable[object] | None:
        return self.known.wait() if request.reason else None

    async def disabled(self, _namespace: str, _topic: str) -> bool:
        return False

    async def close(self) -> None:
        """Does nothing."""


async def test_a_change_admitted_at_once_does_not_overtake_one_of_its_key_that_waits_for_facts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    facts = Facts()

    def opened(*_: object, **__: object) -> Facts:
        return facts

    monkeypatch.setattr(servers, "open_cluster", opened)
    monkeypatch.setattr(servers, "info", lambda *_: service_pb2.ServerInfo())
    config = ServerConfig(log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"))
    async with Server(config) as server, grpc.aio.insecure_channel(server.address) as channel:
        first, second = change(SLOW, 1), change(SLOW, 2)
        first.reason = "it waits"
        call = async_stub(channel).BatchUpdatePolicies(batch(first, second))
        asyncio.get_running_loop().call_later(0.1, facts.known.set)
        async with asyncio.timeout(PATIENCE):
            made = (await call).results
    assert made[1].success.previous_version == made[0].success.version


async def test_a_call_whose_deadline_is_near_before_its_permission_is_known_learns_nothing_of_the_namespace(
    server: Server, stub: AsyncStub
) -> None:
    await server.registry.get("slow/space").ready()
    how: dict[str, Any] = {"timeout": 2.0, "metadata": of("admin")}

    async def refusals_in(namespace: str) -> set[tuple[grpc.StatusCode, str, str]]:
        name = f"persistent://{namespace}/t"
        calls: tuple[Any, ...] = (
            stub.GetPolicy(service_pb2.GetPolicyRequest(topic=name), **how),
            stub.ListPolicies(service_pb2.ListPoliciesRequest(namespace=namespace), **how),
            stub.UpdatePolicy(change(name, 1), **how),
        )
        refusals = await asyncio.gather(*map(refused, calls))
        return {(each.code, each.info.reason, each.message.replace(namespace, "NAMESPACE")) for each in refusals}

    ((code, reason, sentence),) = set.union(*await asyncio.gather(refusals_in("slow/space"), refusals_in("slow/other")))
    assert (code, reason) == (grpc.StatusCode.UNAVAILABLE, "AUTHORIZATION_UNKNOWN") and "permissions in NAMESPACE" in sentence
