"""A read-only sidecar beside exclusive ones writes nothing: it reads the log of leaders, and never becomes one itself."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.broker.pulsar_broker import Broker
from tests.promises.api import Api, Change, Refused, refusal
from tests.promises.server_process import ServerProcess
from topicpolicies.v1.policies_pb2 import TopicPolicies

from .raw_log import RawLog

_LEAD_SECONDS = 3
"""A follower leads within 0.2 s after its leader has stopped; on a busy machine within 1.7 s."""


async def written(server: ServerProcess, topic: str, seconds: int) -> Change:
    """Sets a topic's TTL through a server, and repeats that while the server can't be reached or does not lead."""
    until = time.monotonic() + 60
    async with Api(server.address) as api:
        while True:
            try:
                return await api.update(topic, {"message_ttl_in_seconds": seconds})
            except Refused as error:
                if error.code != "UNAVAILABLE" or time.monotonic() > until:
                    raise
                await asyncio.sleep(0.1)


@pytest.mark.broker
@pytest.mark.timeout(180)
async def test_a_read_only_sidecar_never_leads(quick_broker: Broker, tmp_path: Path) -> None:
    with quick_broker.admin() as admin:
        namespace = admin.create_namespace("exclusive")
        admin.create_topic(f"{namespace}/orders")
    topic, raw = f"persistent://{namespace}/orders", RawLog(quick_broker.service_url, namespace, 0)
    options = ["--pulsar", quick_broker.service_url, "--admin-url", quick_broker.admin_url, "--writer", "exclusive"]
    leader = ServerProcess(options, tmp_path / "leader.log")
    reader = ServerProcess([*options, "--read-only"], tmp_path / "reader.log")
    try:
        await asyncio.gather(leader.start(), reader.start())
        first = await written(leader, topic, 1)
        async with Api(reader.address) as api:
            shown = await api.get(topic, at_least_version=first.version)
            assert shown.policies == TopicPolicies(message_ttl_in_seconds=1)
            leader.stop()
            await asyncio.sleep(_LEAD_SECONDS)
            assert raw.leader == leader.address, "nobody has written since"
            assert (await refusal(api.update(topic, {"message_ttl_in_seconds": 2}))).reason == "READ_ONLY"
            await leader.start()
            second = await written(leader, topic, 3)
            assert second.previous_version == first.version
            shown = await api.get(topic, at_least_version=second.version)
            assert shown.policies == TopicPolicies(message_ttl_in_seconds=3)
    finally:
        leader.kill()
        reader.kill()
        raw.close()
