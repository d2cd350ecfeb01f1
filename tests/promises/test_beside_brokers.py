"""What brokers and their operators do to topics and namespaces, as users of a server beside them see it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.broker.admin import CHANGE_EVENTS, Admin
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


async def test_a_deleted_topic_has_no_policies_and_the_next_inherits_none(
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


async def within(seconds: float, holds: Callable[[], object]) -> None:
    """Waits until something holds."""
    until = asyncio.get_running_loop().time() + seconds
    while not holds():
        assert asyncio.get_running_loop().time() < until, f"it does not hold after {seconds:g} s"
        await asyncio.sleep(0.1)


@pytest.mark.stages_compaction
@pytest.mark.parametrize("partitions", [0, 3])
async def test_what_was_truncated_is_gone_and_can_be_set_again(
    server: ServerProcess, api: Api, admin: Admin, namespace: str, partitions: int
) -> None:
    admin.compact_only_on_request(namespace)  # what was compacted last stays: only what came later is lost by being truncated
    if partitions:
        admin.partition_change_events(namespace, partitions)
    names = [f"{namespace}/orders-{number}" for number in range(4)]
    topics = [f"persistent://{name}" for name in names]
    for name, topic in zip(names, topics, strict=True):
        admin.create_topic(name)
        await api.update(topic, SETTING)
    shown: dict[str, TopicPolicies | None] = {}

    async def follow() -> None:
        async for event in api.watch([namespace], timeout=None):
            if event.kind == "reset":
                shown.clear()
            elif event.document is not None:
                shown[event.document.topic] = event.document.policies

    def on_broker(name: str) -> object:
        return admin.call("GET", f"persistent/{name}/messageTTL")

    async def reloaded(expected: object, *, truncated: bool = False) -> None:
        """Has the broker read the log anew, which it does if it has let go of the whole namespace.

        Truncating spares what a broker has just written: it is repeated until nothing is left.
        """
        for _ in range(20):
            if truncated:
                admin.call("DELETE", f"persistent/{namespace}/{CHANGE_EVENTS}/truncate")
            admin.call("PUT", f"namespaces/{namespace}/unload")
            await asyncio.sleep(1)
            if all(on_broker(name) == expected for name in names):
                return
        raise AssertionError(f"the broker has {[on_broker(name) for name in names]}")

    watching = asyncio.create_task(follow())
    await within(10, lambda: len(shown) == len(topics))

    admin.compact_change_events(namespace)
    await reloaded(SETTING["message_ttl_in_seconds"])
    await asyncio.sleep(5)
    assert len(await api.documents(namespace)) == len(topics), "a compaction loses nothing"
    assert "truncated" not in server.output.read_text()
    later = TopicPolicies(message_ttl_in_seconds=61)
    for topic in topics:
        await api.update(topic, later)

    await reloaded(None, truncated=True)
    await within(60, lambda: not any(shown.values()))  # seen when the broker connects again, or at the latest in the check each 30 s
    assert await api.documents(namespace) == []
    assert "truncated" in server.output.read_text()
    assert (await api.update(topics[1], later)).outcome == "APPLIED"
    await within(10, lambda: on_broker(names[1]) == later.message_ttl_in_seconds)
    admin.call("POST", f"persistent/{names[0]}/maxProducers", 7)
    left = {topics[0]: TopicPolicies(max_producer_per_topic=7), topics[1]: later}
    await within(10, lambda: {topic: policies for topic, policies in shown.items() if policies is not None} == left)
    assert not watching.done()
    watching.cancel()


async def test_a_rate_that_slows_the_change_log_is_named(
    server: ServerProcess, api: Api, broker: Broker, admin: Admin, namespace: str, serving: Serving
) -> None:
    topic = f"persistent://{namespace}/orders"
    admin.create_topic(f"{namespace}/orders")
    log = ["--pulsar", broker.service_url, "--admin-url", broker.admin_url]

    def found() -> str:
        """Returns what the doctor says of rates."""
        ended = run("doctor", "--output", "json", "--server", server.address, "--namespace", namespace, *log)
        (check,) = (each for each in json.loads(ended.stdout)["checks"] if each["check"] == f"broker.rates {namespace}")
        return f"{check['level']}: {check['told']}"

    for seconds in range(1, 5):
        await api.update(topic, {"message_ttl_in_seconds": seconds})
    assert (await asyncio.to_thread(found)).startswith("ok")
    rate = {"dispatchThrottlingRateInMsg": 1, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 2, "relativeToPublishRate": False}
    admin.call("POST", f"namespaces/{namespace}/subscriptionDispatchRate", rate)
    named = f"The subscription dispatch rate of {namespace} (1 message in 2 s)"
    assert (await asyncio.to_thread(found)).startswith(f"warning: {named}")
    slow = await serving(*log)
    async with Api(slow.address) as caller:
        assert (await caller.get(topic, timeout=60)).policies == TopicPolicies(message_ttl_in_seconds=4)
    assert named in slow.output.read_text()
