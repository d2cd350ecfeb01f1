"""The health service: what is told by which name, and when that changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.logs.pulsar.conftest import eventually
from tests.stubs import AsyncStub, async_stub
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import GetPolicyRequest, UpdatePolicyRequest
from topicpolicies_server.config import Limits, PulsarLogConfig, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server

from .callers import believe, of
from .cluster import FakeCluster
from .conftest import TOPIC, refused

PATIENCE = 20.0
UNKNOWN, SERVING, NOT_SERVING, SERVICE_UNKNOWN = range(4)
SERVICE = "topicpolicies.v1.TopicPoliciesService"
UPDATE = UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=1))


class Asked:
    """A client of the health service."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = health_pb2_grpc.HealthStub(channel)

    async def status(self, name: str = "") -> int:
        """How something is."""
        return int((await self._stub.Check(health_pb2.HealthCheckRequest(service=name))).status)

    async def listed(self) -> dict[str, int]:
        """How everything is."""
        statuses = (await self._stub.List(health_pb2.HealthListRequest())).statuses
        return {name: int(each.status) for name, each in statuses.items()}

    def watch(self, name: str = "", caller: str = "") -> Any:
        """Follows how something is."""
        return self._stub.Watch(health_pb2.HealthCheckRequest(service=name), metadata=of(caller))


async def told(watch: Any) -> int:
    """What a watch tells next."""
    async with asyncio.timeout(PATIENCE):
        return int((await watch.read()).status)


@pytest.fixture
def log_path() -> None:
    """In memory: what is tested here is above the log."""
    return


@pytest.fixture
async def asked(server: Server) -> AsyncIterator[Asked]:
    """Asks the server on the embedded log."""
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield Asked(channel)


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """At which nobody listens yet."""
    made = FakeCluster()
    yield made
    await made.shut()


@pytest.fixture
async def beside(cluster: FakeCluster, limits: Limits) -> AsyncIterator[Server]:
    """A server of that cluster, with the limits that servers have."""
    log = PulsarLogConfig(service_url=cluster.service_url, admin_url=cluster.admin_url)
    config = ServerConfig(log=log, listen=parse_address("127.0.0.1:0"), limits=replace(limits, drain_seconds=0.5))
    async with Server(config) as running:
        yield running


async def test_each_name_tells_of_its_own(asked: Asked, stub: AsyncStub) -> None:
    for name in ("", "readiness", "liveness", SERVICE):
        assert await asked.status(name) == SERVING
    assert await asked.listed() == dict.fromkeys(("", "readiness", "liveness", SERVICE), SERVING)
    await stub.UpdatePolicy(UPDATE)
    assert await asked.status("public/default") == SERVING


async def test_asking_for_a_namespace_does_not_load_it(server: Server, asked: Asked) -> None:
    assert await asked.status("public/default") == UNKNOWN
    assert await told(asked.watch("public/default")) == UNKNOWN
    assert len(server.registry) == 0


@pytest.mark.parametrize("name", ["no.such.Service", "a/b/c", "/", "tenant/", "tenant/" + "n" * 600, "é/è"])
async def test_what_there_is_not_is_not_found_and_a_watch_waits_for_it(asked: Asked, name: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asked.status(name)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert await told(asked.watch(name)) == SERVICE_UNKNOWN


async def test_a_watch_of_a_namespace_is_told_when_it_serves(asked: Asked, stub: AsyncStub) -> None:
    watch = asked.watch("public/default")
    assert await told(watch) == UNKNOWN
    await stub.UpdatePolicy(UPDATE)
    assert await told(watch) == SERVING


@pytest.mark.parametrize("limits", [Limits(max_health_watches=2)])
async def test_watches_have_a_bound_and_are_given_back(server: Server, asked: Asked) -> None:
    first, second = asked.watch(), asked.watch("liveness")
    assert await told(first) == await told(second) == SERVING
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asked.watch().read()
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    first.cancel()
    await eventually(lambda: len(server.calls) == 1)
    assert await told(asked.watch()) == SERVING


@pytest.mark.parametrize("limits", [Limits(max_health_watches=4)])
async def test_who_holds_most_of_the_watches_keeps_nobody_else_from_watching(server: Server, asked: Asked) -> None:
    server.calls.doors = (believe,)
    watches = []
    for caller in ("", "", "", "", "reader", "reader"):
        watches.append(asked.watch(caller=caller))
        assert await told(watches[-1]) == SERVING
    strangers, mine = watches[:4], watches[4:]
    for each in strangers[:2]:  # those that were there longest
        assert (await refused(each.read())).info.reason == "TOO_MANY_WATCHES"
    assert (await refused(asked.watch().read())).code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (await refused(asked.watch(caller="reader").read())).code is grpc.StatusCode.RESOURCE_EXHAUSTED, "he would have more than others"
    await eventually(lambda: len(server.calls) == 4)
    server.readiness.drained(0.0)
    for each in (*mine, *strangers[2:]):
        assert await told(each) == NOT_SERVING


async def test_a_server_that_stops_is_not_ready_and_alive(server: Server, asked: Asked) -> None:
    ready, alive = asked.watch("readiness"), asked.watch("liveness")
    assert await told(ready) == await told(alive) == SERVING
    stopping = asyncio.create_task(server.stop())
    assert await told(ready) == NOT_SERVING
    await stopping
    with pytest.raises(grpc.aio.AioRpcError):  # it is told nothing more, but the end
        await alive.read()


async def test_without_a_broker_it_is_alive_and_not_ready_from_the_start(beside: Server) -> None:
    async with grpc.aio.insecure_channel(beside.address) as channel:
        asked = Asked(channel)
        assert await asked.status() == NOT_SERVING
        assert await asked.listed() == {"": NOT_SERVING, "readiness": NOT_SERVING, SERVICE: NOT_SERVING, "liveness": SERVING}


async def test_it_is_ready_once_the_cluster_answers_and_not_ready_when_it_does_not(beside: Server, cluster: FakeCluster) -> None:
    async with grpc.aio.insecure_channel(beside.address) as channel:
        watch = Asked(channel).watch()
        assert await told(watch) == NOT_SERVING
        await cluster.open(0)
        await asyncio.sleep(1.0)
        assert await Asked(channel).status() == NOT_SERVING, "nobody answers questions yet"
        await cluster.open(1)
        assert await told(watch) == SERVING
        began = asyncio.get_running_loop().time()
        await cluster.shut()
        assert await told(watch) == NOT_SERVING
        assert asyncio.get_running_loop().time() - began >= beside.config.limits.log_patience_seconds - 2.5
        await cluster.open()
        assert await told(watch) == SERVING


async def test_brokers_that_let_it_not_in_are_no_log_for_it(beside: Server, cluster: FakeCluster) -> None:
    cluster.refuses = True
    await cluster.open()
    await eventually(lambda: beside.readiness.cut_off)
    assert beside.readiness.problem is not None
    assert beside.readiness.problem.reason == "PULSAR_ADMIN_REFUSED"


async def test_callers_are_told_at_once_that_the_log_is_out_of_reach(beside: Server) -> None:
    await eventually(lambda: beside.readiness.cut_off)
    async with grpc.aio.insecure_channel(beside.address) as channel:
        stub = async_stub(channel)
        for call in (stub.UpdatePolicy(UPDATE), stub.GetPolicy(GetPolicyRequest(topic=TOPIC))):
            began = asyncio.get_running_loop().time()
            refusal = await refused(call)
            assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.UNAVAILABLE, "LOG_UNREACHABLE")
            assert "No broker can be reached" in refusal.message and "try again" in refusal.message
            assert asyncio.get_running_loop().time() - began < 2.0
        assert await Asked(channel).status("public/default") in (UNKNOWN, NOT_SERVING)


async def test_those_who_wait_when_the_patience_is_over_are_told_then(beside: Server) -> None:
    assert not beside.readiness.cut_off, "the case: it has just begun"
    async with grpc.aio.insecure_channel(beside.address) as channel:
        stub = async_stub(channel)
        for refusal in await asyncio.gather(*(refused(stub.GetPolicy(GetPolicyRequest(topic=TOPIC))) for _ in range(3))):
            assert refusal.info.reason in ("LOG_UNREACHABLE", "PULSAR_ADMIN_UNREACHABLE")
