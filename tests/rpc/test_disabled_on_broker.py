"""Watches of topics whose policies are disabled by properties in a real broker. The broker itself ignores the property."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from tests.broker.admin import Admin
from tests.broker.pulsar_broker import Broker
from tests.rpc.test_disabled_watches import Values
from tests.stubs import async_stub
from topicpolicies.v1 import service_pb2
from topicpolicies_server.cluster import opening
from topicpolicies_server.cluster.admission import Freshness
from topicpolicies_server.cluster.disabled_property import PROPERTY
from topicpolicies_server.config import Limits, PulsarLogConfig, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server


@pytest.mark.timeout(180)
async def test_a_topic_disabled_in_a_broker_is_left_out_and_a_disabled_namespace_appears_empty(
    broker: Broker, admin: Admin, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "FROM_BROKERS", Freshness(60, 1, 1))

    async def call(method: str, path: str, body: object) -> None:
        await asyncio.to_thread(admin.call, method, path, body)

    async def limit(topic: str, value: int) -> None:
        await call("POST", f"persistent/{namespace}/{topic}/maxProducers", value)

    for topic in ("on", "off"):
        await asyncio.to_thread(admin.create_topic, f"{namespace}/{topic}", partitions=1)
        await limit(topic, 1)
    await call("PUT", f"persistent/{namespace}/off/properties", {PROPERTY: "true"})
    on, off = (f"persistent://{namespace}/{topic}" for topic in ("on", "off"))
    log = PulsarLogConfig(service_url=broker.service_url, admin_url=broker.admin_url)
    config = ServerConfig(log=log, listen=parse_address("127.0.0.1:0"), limits=Limits())
    async with Server(config) as server, grpc.aio.insecure_channel(server.address) as channel:
        stub = async_stub(channel)
        watch = Values(stub, namespaces=[namespace])
        assert (await watch.until_synced())[0] == {on: 1}
        await limit("off", 2)
        await limit("on", 2)
        assert await watch.change() == {on: 2}
        await call("PUT", f"persistent/{namespace}/off/properties", {PROPERTY: "false"})
        assert await watch.reset() == ("TOPIC_POLICIES_SWITCHED", {on: 2, off: 2})
        await call("PUT", f"namespaces/{namespace}/properties", {PROPERTY: "true"})
        assert (await watch.state()).state == service_pb2.NAMESPACE_STATE_DISABLED
        assert await watch.reset() == ("TOPIC_POLICIES_SWITCHED", {})
        watch.cancel()
        alone = Values(stub, topics=[off])
        assert (await alone.until_synced())[0] == {off: 2}, "the topic's own property overrides that of its namespace"
        alone.cancel()
