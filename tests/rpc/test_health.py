"""The health service: which status each name has, and when that changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.eventually import eventually
from tests.stubs import async_stub
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import GetPolicyRequest, UpdatePolicyRequest
from topicpolicies_server.config import Limits, PulsarLogConfig, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server

from .callers import of
from .cluster import FakeCluster
from .conftest import TOPIC, refused

PATIENCE = 100.0
UNKNOWN, SERVING, NOT_SERVING, SERVICE_UNKNOWN = range(4)
SERVICE, HISTORY = "topicpolicies.v1.TopicPoliciesService", "topicpolicies.v1.PolicyHistoryService"
UPDATE = UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=1))


class Asked:
    """A client of the health service."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = health_pb2_grpc.HealthStub(channel)

    async def status(self, name: str = "") -> int:
        """Returns the status of a name."""
        return int((await self._stub.Check(health_pb2.HealthCheckRequest(service=name))).status)

    async def listed(self) -> dict[str, int]:
        """Returns the statuses of all names."""
        statuses = (await self._stub.List(health_pb2.HealthListRequest())).statuses
        return {name: int(each.status) for name, each in statuses.items()}

    def watch(self, name: str = "", caller: str = "") -> Any:
        """Opens a watch of the status of a name."""
        return self._stub.Watch(health_pb2.HealthCheckRequest(service=name), metadata=of(caller))


async def next_status(watch: Any) -> int:
    """Returns the next status of a watch."""
    async with asyncio.timeout(PATIENCE):
        return int((await watch.read()).status)


@pytest.fixture
async def asked(server: Server) -> AsyncIterator[Asked]:
    """Yields a client of the server with the embedded log."""
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield Asked(channel)


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """Yields a fake cluster that does not listen yet."""
    made = FakeCluster()
    yield made
    await made.shut()


@pytest.fixture
async def cluster_server(cluster: FakeCluster, limits: Limits) -> AsyncIterator[Server]:
    """Yields a server for that cluster; its patience with the log is the default."""
    log = PulsarLogConfig(service_url=cluster.service_url, admin_url=cluster.admin_url)
    config = ServerConfig(log=log, listen=parse_address("127.0.0.1:0"), limits=replace(limits, drain_seconds=0.5))
    async with Server(config) as running:
        yield running


@pytest.mark.parametrize("name", ["no.such.Service", "public/default", "/"])
async def test_an_unknown_name_is_not_found_and_a_watch_of_it_gets_service_unknown(asked: Asked, name: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asked.status(name)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert await next_status(asked.watch(name)) == SERVICE_UNKNOWN


async def test_a_server_that_starts_without_a_broker_is_alive_and_not_ready(cluster_server: Server) -> None:
    async with grpc.aio.insecure_channel(cluster_server.address) as channel:
        asked = Asked(channel)
        assert await asked.status() == NOT_SERVING
        assert await asked.listed() == {
            "": NOT_SERVING,
            "readiness": NOT_SERVING,
            SERVICE: NOT_SERVING,
            HISTORY: NOT_SERVING,
            "liveness": SERVING,
        }


async def test_a_server_is_ready_when_the_cluster_answers_and_not_ready_after_an_outage_beyond_the_patience(
    cluster_server: Server, cluster: FakeCluster
) -> None:
    async with grpc.aio.insecure_channel(cluster_server.address) as channel:
        watch = Asked(channel).watch()
        assert await next_status(watch) == NOT_SERVING
        await cluster.open(0)
        await asyncio.sleep(1.0)
        assert await Asked(channel).status() == NOT_SERVING, "the admin API does not answer yet"
        await cluster.open(1)
        assert await next_status(watch) == SERVING
        began = asyncio.get_running_loop().time()
        await cluster.shut()
        assert await next_status(watch) == NOT_SERVING
        assert asyncio.get_running_loop().time() - began >= cluster_server.config.limits.log_patience_seconds - 2.5
        await cluster.open()
        assert await next_status(watch) == SERVING


async def test_a_server_whose_requests_the_admin_api_refuses_is_cut_off_with_that_reason(
    cluster_server: Server, cluster: FakeCluster
) -> None:
    cluster.refuses = True
    await cluster.open()
    await eventually(lambda: cluster_server.readiness.cut_off)
    assert cluster_server.readiness.problem is not None
    assert cluster_server.readiness.problem.reason == "CLUSTER_UNAVAILABLE"


async def test_while_the_log_is_out_of_reach_calls_are_refused_at_once_with_the_reason(cluster_server: Server) -> None:
    await eventually(lambda: cluster_server.readiness.cut_off)
    async with grpc.aio.insecure_channel(cluster_server.address) as channel:
        stub = async_stub(channel)
        for call in (stub.UpdatePolicy(UPDATE), stub.GetPolicy(GetPolicyRequest(topic=TOPIC))):
            began = asyncio.get_running_loop().time()
            refusal = await refused(call)
            assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.UNAVAILABLE, "LOG_UNAVAILABLE")
            assert "No broker can be reached" in refusal.message and "try again" in refusal.message
            assert asyncio.get_running_loop().time() - began < 2.0


async def test_calls_that_wait_for_the_log_when_the_patience_is_over_are_refused_with_the_reason(cluster_server: Server) -> None:
    assert not cluster_server.readiness.cut_off, "the patience is over already"
    async with grpc.aio.insecure_channel(cluster_server.address) as channel:
        stub = async_stub(channel)
        for refusal in await asyncio.gather(*(refused(stub.GetPolicy(GetPolicyRequest(topic=TOPIC))) for _ in range(3))):
            assert refusal.info.reason in ("LOG_UNAVAILABLE", "CLUSTER_UNAVAILABLE")
