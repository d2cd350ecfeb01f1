"""Rules, effective policies and disabled topics through the API, with the embedded log and a cluster file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.stubs import AsyncStub
from topicpolicies.v1 import service_pb2 as pb
from topicpolicies.v1.policies_pb2 import PolicyDocument, TopicPolicies
from topicpolicies_server.config import EmbeddedLogConfig, Limits, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server

from .conftest import refused
from .watching import WatchReader

NAMESPACE = "acme/orders"
TOPIC = f"persistent://{NAMESPACE}/one"
OTHER = f"persistent://{NAMESPACE}/two"
CLUSTER = """
cluster = "us"
[clusters]
us = []
eu = []
[broker]
[namespaces."acme/orders"]
max_producers_per_topic = 5
{namespace}
[topics."persistent://acme/orders/one"]
{topic}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Returns a cluster file in which the policies of the namespace are disabled, and those of one topic are not."""
    path = tmp_path / "cluster.toml"
    namespace, topic = (f'properties = {{ __topic_policies_disabled = "{value}" }}' for value in ("true", "false"))
    path.write_text(CLUSTER.format(namespace=namespace, topic=topic))
    return path


@pytest.fixture
async def server(cluster: Path) -> AsyncIterator[Server]:
    """Overrides the shared fixture: yields a server with a cluster file."""
    log = EmbeddedLogConfig(path=None, cluster_file=cluster)
    limits = replace(Limits(), bookmark_interval_seconds=1.0, drain_seconds=2.0)
    async with Server(ServerConfig(log=log, listen=parse_address("127.0.0.1:0"), limits=limits)) as running:
        yield running


def update(topic: str = TOPIC, **values: object) -> pb.UpdatePolicyRequest:
    return pb.UpdatePolicyRequest(topic=topic, policies=TopicPolicies(**(values or {"max_producer_per_topic": 1})))  # type: ignore[arg-type]


async def read(stub: AsyncStub, topic: str = TOPIC) -> PolicyDocument:
    """Returns the LOCAL document."""
    return await stub.GetPolicy(pb.GetPolicyRequest(topic=topic))


async def test_the_log_of_a_disabled_namespace_is_not_read_until_a_topic_that_is_enabled_is_asked_for(
    server: Server, stub: AsyncStub
) -> None:
    await refused(stub.UpdatePolicy(update(OTHER)))
    await refused(stub.DeletePolicy(pb.DeletePolicyRequest(topic=OTHER)))
    assert (await read(stub, OTHER)).disabled
    assert (await stub.GetEffectivePolicy(pb.GetEffectivePolicyRequest(topic=OTHER))).disabled
    listed = await stub.ListPolicies(pb.ListPoliciesRequest(namespace=NAMESPACE))
    assert not listed.documents and listed.resume_token
    watch = WatchReader(stub, namespaces=[NAMESPACE])
    status, _ = await watch.until_synced()
    assert status.status.state == pb.NAMESPACE_STATE_DISABLED
    assert "disabled" in status.status.message
    watch.cancel()
    assert len(server.registry) == 0, "the namespace was loaded"
    assert not (await read(stub)).disabled
    assert len(server.registry) == 1
