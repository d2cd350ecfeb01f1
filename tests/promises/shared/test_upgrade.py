"""A broker is upgraded while a sidecar runs: a tombstone that 4.0.0 would misread is written then, and a watch goes on in order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.broker.fixtures import MakeBroker
from tests.broker.pulsar_broker import Broker
from tests.promises.api import GLOBAL, LOCAL, Api, Refused, Update
from tests.promises.change_log import GLOBAL_PREFIX, ChangeLog
from tests.promises.server_process import ServerProcess
from topicpolicies.v1.policies_pb2 import TopicPolicies

OLD, NEW = "4.0.0", "4.2.4"
WHILE_UPGRADED = 20


def stored(broker: Broker, namespace: str) -> list[tuple[str, bool]]:
    """Returns the keys of all messages of a namespace's log, and whether each is a tombstone. Blocking."""
    with ChangeLog(broker, namespace) as log:
        return [(each.key, each.event is None) for each in log.stored()]


async def eventually(condition: Callable[[], Awaitable[bool]], seconds: float) -> None:
    """Waits until a condition holds."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.2)


async def patiently(api: Api, topic: str, value: int) -> None:
    """Sets the number of producers, and repeats the request while the broker is away."""
    update = Update(topic, TopicPolicies(max_producer_per_topic=value))
    async with asyncio.timeout(120):
        while True:
            try:
                await api.send(update)
            except Refused as error:
                assert error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED"), error
                await asyncio.sleep(0.2)
            else:
                return


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.stages_compaction  # a compaction erases the tombstone that the test looks for
async def test_a_broker_is_upgraded_while_a_sidecar_runs(make_broker: MakeBroker, tmp_path: Path) -> None:
    broker = make_broker(OLD)
    await asyncio.to_thread(broker.start)
    with broker.admin() as admin:
        namespace = admin.create_namespace()
        admin.create_topic(f"{namespace}/orders")
    topic, seen = f"persistent://{namespace}/orders", list[int]()
    server = ServerProcess(["--pulsar", broker.service_url, "--admin-url", broker.admin_url], tmp_path / "server.log")
    await server.start()

    async def watch(api: Api) -> None:
        async for event in api.watch(topics=[topic], scopes=[LOCAL], timeout=None):
            if event.document is not None and event.document.policies is not None:
                seen.append(event.document.policies.max_producer_per_topic)

    async def buried() -> bool:
        return (GLOBAL_PREFIX + topic, True) in await asyncio.to_thread(stored, broker, namespace)

    async def obeyed() -> bool:
        with broker.admin() as admin:
            return bool(await asyncio.to_thread(admin.call, "GET", f"persistent/{namespace}/orders/maxProducers") == WHILE_UPGRADED - 1)

    try:
        async with Api(server.address) as api:
            watching = asyncio.create_task(watch(api))
            await api.update(topic, {"max_producer_per_topic": 1})
            await api.update(topic, {"max_consumer_per_topic": 7}, scope=GLOBAL)
            await api.delete(topic, scope=GLOBAL)
            before = await asyncio.to_thread(stored, broker, namespace)
            assert {key for key, tombstone in before if not tombstone} == {topic}, "both scopes have one key"
            assert not any(tombstone for _, tombstone in before), "a tombstone would be the LOCAL document's"

            await asyncio.to_thread(broker.stop)
            broker.upgrade(NEW)
            starting = asyncio.create_task(asyncio.to_thread(broker.start))
            for value in range(2, WHILE_UPGRADED):  # the updates wait for the broker
                await patiently(api, topic, value)
            await starting

            await eventually(buried, 150)  # the sidecar looks up the brokers' versions once a minute
            await api.update(topic, {"max_consumer_per_topic": 8}, scope=GLOBAL, timeout=60)
            assert (await asyncio.to_thread(stored, broker, namespace))[-1][0] == GLOBAL_PREFIX + topic
            assert (await api.get(topic)).policies == TopicPolicies(max_producer_per_topic=WHILE_UPGRADED - 1)
            assert (await api.get(topic, GLOBAL)).policies == TopicPolicies(max_consumer_per_topic=8)
            await eventually(obeyed, 30)
            assert seen == sorted(set(seen)) and seen[-1] == WHILE_UPGRADED - 1, "each value at most once, in order, up to the last"
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
    finally:
        server.kill()
