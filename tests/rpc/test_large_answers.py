"""Answers that are larger than the size that gRPC's clients receive by default."""

from __future__ import annotations

from pathlib import Path

import grpc

from tests.stubs import async_stub
from topicpolicies.aio import AsyncClient
from topicpolicies.v1.policies_pb2 import SCOPE_GLOBAL, SCOPE_LOCAL, TopicPolicies
from topicpolicies.v1.service_pb2 import GetEffectivePolicyRequest, UpdatePolicyRequest
from topicpolicies_server.config import EmbeddedLogConfig, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC

DEFAULT_BYTES = 4 << 20
COUNT = 1_030
"""The number of subscriptions in a document of almost 1 MiB."""
CLUSTER = 'cluster = "us"\n[namespaces."public/default"]\n[broker]\n'


async def test_the_effective_policies_of_a_topic_with_the_largest_documents_are_complete(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(CLUSTER)
    config = ServerConfig(log=EmbeddedLogConfig(path=None, cluster_file=cluster), listen=parse_address("127.0.0.1:0"))
    sizes = [("grpc.max_receive_message_length", 64 << 20)]
    async with Server(config) as server, grpc.aio.insecure_channel(server.address, options=sizes) as channel:
        stub = async_stub(channel)
        for scope, letter in ((SCOPE_LOCAL, "l"), (SCOPE_GLOBAL, "g")):
            policies = TopicPolicies()
            for number in range(COUNT):
                name = f"{letter}{number:04}".ljust(990, "x")
                policies.subscription_policies[name].dispatch_rate.dispatch_throttling_rate_in_msg = 1
            request = UpdatePolicyRequest(topic=TOPIC, scope=scope, policies=policies)
            request.update_mask.paths.append("subscription_policies")
            await stub.UpdatePolicy(request)
        answer = await stub.GetEffectivePolicy(GetEffectivePolicyRequest(topic=TOPIC))
        assert len(answer.policies.subscription_policies) == 2 * COUNT
        assert sum(source.path.startswith("subscription_policies.") for source in answer.sources) == 2 * COUNT
        assert answer.ByteSize() > DEFAULT_BYTES, "the answer is not larger than the default limit, of which the API's definition warns"
        async with AsyncClient(server.address) as client:
            assert len((await client.effective(TOPIC)).sources) == len(answer.sources), "this project's client did not receive all of it"
