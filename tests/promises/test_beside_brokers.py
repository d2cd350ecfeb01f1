"""What brokers and their operators do to topics and namespaces, as users of a server beside them see it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.broker.admin import Admin
from tests.broker.pulsar_broker import Broker
from topicpolicies.v1.policies_pb2 import TopicPolicies

from .api import GLOBAL, Api, Refused, Update
from .conftest import Serving
from .server_process import ServerProcess, run

SETTING = {"message_ttl_in_seconds": 60}
FORGOTTEN_SECONDS = 1.5
"""After so many seconds a server knows that a topic was deleted."""


@pytest.fixture
async def server(broker: Broker, serving: Serving) -> ServerProcess:
    """A server beside the broker."""
    return await serving("--pulsar", broker.service_url, "--admin-url", broker.admin_url)


@pytest.fixture
async def api(server: ServerProcess) -> AsyncIterator[Api]:
    """A caller of that server."""
    async with Api(server.address) as api:
        yield api


@pytest.fixture
def namespace(admin: Admin) -> str:
    """A namespace of the test's own on the broker."""
    return admin.create_namespace("gate")


async def test_policies_of_a_topic_that_was_just_deleted_are_refused_and_the_next_topic_of_its_name_has_none(
    server: ServerProcess, api: Api, admin: Admin, namespace: str, tmp_path: Path
) -> None:
    with_policies, without = (f"persistent://{namespace}/{name}" for name in ("with", "without"))
    topics = [with_policies, without]
    for topic in topics:
        admin.create_topic(topic.removeprefix("persistent://"))
        await api.effective(topic)
        assert (await api.update(topic, SETTING, dry_run=True)).outcome == "WOULD_APPLY"
    await api.update(with_policies, SETTING)
    await api.update(with_policies, SETTING, scope=GLOBAL)
    for topic in topics:
        admin.call("DELETE", topic.replace("://", "/"))
    await asyncio.sleep(FORGOTTEN_SECONDS)

    other = TopicPolicies(message_ttl_in_seconds=61)
    for topic in topics:
        for options in ({}, {"scope": GLOBAL}, {"dry_run": True}):
            with pytest.raises(Refused) as refused:
                await api.update(topic, other, **options)
            assert (refused.value.code, refused.value.reason) == ("NOT_FOUND", "TOPIC_NOT_FOUND"), options
        with pytest.raises(Refused, match="does not exist"):
            await api.effective(topic)
    answers = await api.batch([Update(topic, other) for topic in topics])
    assert [isinstance(each, Refused) and each.reason for each in answers] == ["TOPIC_NOT_FOUND"] * len(topics)
    declared = tmp_path / "policies.yaml"
    declared.write_text(f"version: 1\nnamespaces: [{namespace}]\npolicies:\n- {{topic: {without}, set: {{message_ttl_in_seconds: 61}}}}\n")
    applied = await asyncio.to_thread(run, "apply", "--file", str(declared), "--server", server.address)
    assert applied.returncode != 0 and "does not exist" in applied.stderr, applied

    admin.create_topic(without.removeprefix("persistent://"))
    assert admin.call("GET", f"{without.replace('://', '/')}/messageTTL") is None, "the next topic of that name has the policies"
    assert (await api.get(without)).policies is None
    assert (await api.update(without, SETTING)).outcome == "APPLIED"
