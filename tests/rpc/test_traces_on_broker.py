"""With a real broker, the trace context of a change is in the properties of its message, where every reader of the topic finds it."""

from __future__ import annotations

from pathlib import Path

import grpc

from tests.logs.change_events import ChangeEvents
from tests.broker.pulsar_broker import Broker
from tests.stubs import async_stub
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.config import HistoryConfig, PulsarLogConfig, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server

from .test_traces import PARENT, STATE, TRACE
from .watching import WatchReader


async def test_the_trace_context_of_a_change_is_in_its_message_in_watches_and_in_the_history(broker: Broker, tmp_path: Path) -> None:
    with broker.admin() as admin:
        namespace = admin.create_namespace()
    topic = f"persistent://{namespace}/orders"
    config = ServerConfig(
        log=PulsarLogConfig(service_url=broker.service_url, admin_url=broker.admin_url),
        history=HistoryConfig(path=tmp_path / "history.db"),
        listen=parse_address("127.0.0.1:0"),
        missing_topics=True,
    )
    async with Server(config) as server, grpc.aio.insecure_channel(server.address) as channel:
        stub = async_stub(channel)
        watch = WatchReader(stub, topics=[topic])
        await watch.until_synced()
        request = service_pb2.UpdatePolicyRequest(topic=topic, policies=TopicPolicies(max_producer_per_topic=1))
        await stub.UpdatePolicy(request, metadata=TRACE)
        assert (await watch.change()).origin.trace_parent == PARENT
        (entry,) = (await stub.ListHistory(service_pb2.ListHistoryRequest(topic=topic))).entries
        assert entry.origin.trace_parent == PARENT
    with ChangeEvents(broker.service_url, namespace) as log:
        found = [each.properties for each in log.read() if "traceparent" in each.properties]
    assert [(each["traceparent"], each["tracestate"]) for each in found] == [(PARENT, STATE)]
