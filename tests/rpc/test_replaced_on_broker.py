"""A log that is deleted in a real broker and created again: changes computed from the old log bring nothing of it into the new one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import grpc
import pytest

from tests.broker.admin import CHANGE_EVENTS
from tests.broker.pulsar_broker import Broker
from tests.logs.change_events import ChangeEvents
from tests.logs.pulsar.conftest import eventually
from tests.stubs import async_stub, reading
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.config import PulsarLogConfig, ServerConfig, parse_address
from topicpolicies_server.core.policies.documents import split
from topicpolicies_server.logs.pulsar.reader import LogReader
from topicpolicies_server.rpc.server import Server

FIRST, LATER = TopicPolicies(message_ttl_in_seconds=302), TopicPolicies(max_producer_per_topic=402)


async def test_a_change_computed_from_a_deleted_log_is_repaired_in_the_log_that_replaces_it(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogReader, "due_at", lambda _: float("inf"))  # the check whether the log still exists comes too late
    config = ServerConfig(
        log=PulsarLogConfig(service_url=broker.service_url, admin_url=broker.admin_url),
        listen=parse_address("127.0.0.1:0"),
        missing_topics=True,
    )
    with broker.admin() as admin:
        namespace = admin.create_namespace()
        topic = f"persistent://{namespace}/orders"

        def stored() -> list[Mapping[str, bytes] | None]:
            with ChangeEvents(broker.service_url, namespace) as log:
                return [entry.event().document for entry in log.read()]

        async with Server(config) as server, grpc.aio.insecure_channel(server.address) as channel:
            stub = async_stub(channel)
            first = await stub.UpdatePolicy(service_pb2.UpdatePolicyRequest(topic=topic, policies=FIRST))
            await asyncio.to_thread(admin.call, "DELETE", f"persistent/{namespace}/{CHANGE_EVENTS}", force="true")
            later = await stub.UpdatePolicy(service_pb2.UpdatePolicyRequest(topic=topic, policies=LATER))
            assert (await stub.GetPolicy(reading(topic))).policies == LATER
            assert later.document.version != first.document.version

            async def are_right() -> bool:
                return (await asyncio.to_thread(stored))[-1] == split(LATER)

            await eventually(are_right)
            former = split(TopicPolicies(message_ttl_in_seconds=302, max_producer_per_topic=402))
            assert (await asyncio.to_thread(stored))[0] == former, (
                "the first event was not computed from the deleted log, so that nothing was repaired"
            )
