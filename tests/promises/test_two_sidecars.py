"""Two sidecars on one broker: a request that is repeated at both of them is applied once, and each has a history."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from tests.broker.admin import Admin
from tests.broker.pulsar_broker import Broker
from tests.stubs import one, reading
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies

from .server_process import ServerProcess

CLIENTS = 8
SENDS = 100
_INTERRUPTED = {grpc.StatusCode[name] for name in ("UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED", "UNKNOWN", "INTERNAL")}


class Pair:
    """Two running sidecars and a namespace."""

    def __init__(self, servers: list[ServerProcess], namespace: str) -> None:
        self.servers = servers
        self.namespace = namespace
        self.topic = f"persistent://{namespace}/orders"

    async def history(self, server: ServerProcess) -> service_pb2.ListHistoryResponse:
        async with server.stub() as stub:
            return await stub.ListHistory(service_pb2.ListHistoryRequest(topic=self.topic, page_size=1_000), timeout=30)


@pytest.fixture
async def pair(broker: Broker, admin: Admin, tmp_path: Path) -> AsyncIterator[Pair]:
    namespace = admin.create_namespace("pair")
    admin.compact_only_on_request(namespace)  # which events a history has depends on when the log is compacted
    await asyncio.to_thread(admin.create_topic, f"{namespace}/orders")
    log = ["--pulsar", broker.service_url, "--admin-url", broker.admin_url, "--recalled-entries", "0"]  # as if all ledgers were trimmed
    servers = [
        ServerProcess([*log, "--history", str(tmp_path / f"history-{number}.db")], tmp_path / f"server-{number}.log") for number in range(2)
    ]
    for server in servers:
        await server.start()
    yield Pair(servers, namespace)
    for server in servers:
        server.kill()


@pytest.mark.timeout(180)
async def test_a_request_sent_100_times_to_two_sidecars_during_a_kill_and_a_compaction_is_applied_once(pair: Pair, admin: Admin) -> None:
    chance = random.Random(11)
    request = service_pb2.UpdatePolicyRequest(
        topic=pair.topic, policies=TopicPolicies(max_producer_per_topic=5), request_id=str(uuid.uuid4())
    )
    answers: list[service_pb2.UpdatePolicyResponse] = []
    met: Counter[str] = Counter()
    begun = asyncio.Event()

    async def client() -> None:
        async with pair.servers[0].stub() as first, pair.servers[1].stub() as second:
            while len(answers) + met["in flight"] < SENDS:
                met["in flight"] += 1
                try:
                    answers.append(await chance.choice([first, second]).UpdatePolicy(request, timeout=20))
                except grpc.aio.AioRpcError as error:
                    if error.code() not in _INTERRUPTED:
                        raise
                    met["interrupted"] += 1
                    await asyncio.sleep(0.05)
                finally:
                    met["in flight"] -= 1
                begun.set()
                await asyncio.sleep(chance.uniform(0.02, 0.1))

    async def trouble() -> None:
        await begun.wait()
        victim = pair.servers[0]
        victim.kill()
        async with pair.servers[1].stub() as stub:
            other = service_pb2.UpdatePolicyRequest(topic=pair.topic, policies=TopicPolicies(message_ttl_in_seconds=60))
            await stub.UpdatePolicy(other, timeout=20)  # so that the request's own event can be compacted away
        await asyncio.to_thread(admin.compact_change_events, pair.namespace)
        met["compacted"] += 1
        await victim.start()

    await asyncio.gather(trouble(), *(client() for _ in range(CLIENTS)))
    assert met["compacted"] == 1
    assert met["interrupted"] > 0
    assert len(answers) >= SENDS
    assert len({answer.version for answer in answers if answer.version}) == 1
    assert sum(not answer.replayed for answer in answers) <= 1
    survivor = await pair.history(pair.servers[1])
    mine = [entry for entry in survivor.entries if entry.origin.request_id == request.request_id.replace("-", "")]
    applied = [entry for entry in mine if entry.outcome == service_pb2.HISTORY_OUTCOME_APPLIED]
    assert [entry.document.version for entry in applied] == [answer.version for answer in answers if answer.version][:1]
    assert {entry.outcome for entry in mine if entry not in applied} <= {service_pb2.HISTORY_OUTCOME_DUPLICATE}
    assert not survivor.gaps


@pytest.mark.stages_compaction
@pytest.mark.timeout(180)
async def test_the_history_of_a_sidecar_that_was_down_during_a_compaction_reports_the_times_of_its_gap(pair: Pair, admin: Admin) -> None:
    up, down = pair.servers

    async def update(value: int) -> None:
        async with up.stub() as stub:
            policies = TopicPolicies(max_producer_per_topic=value)
            await stub.UpdatePolicy(service_pb2.UpdatePolicyRequest(topic=pair.topic, policies=policies), timeout=20)

    await update(1)
    assert not (await pair.history(down)).gaps
    assert down.stop() == 0
    for value in range(2, 8):
        await update(value)
    await asyncio.to_thread(admin.compact_change_events, pair.namespace)
    await update(8)
    await down.start()
    whole, partial = await pair.history(up), await pair.history(down)
    assert [entry.document.policies.max_producer_per_topic for entry in whole.entries] == list(range(8, 0, -1))
    assert not whole.gaps
    values = [entry.document.policies.max_producer_per_topic for entry in partial.entries]
    assert values[-1] == 1
    assert set(values) >= {1, 7, 8}
    assert len(values) < 8
    (gap,) = partial.gaps
    assert gap.reason == service_pb2.HISTORY_GAP_REASON_COMPACTED
    times = {entry.document.policies.max_producer_per_topic: entry.time.ToMilliseconds() for entry in whole.entries}
    assert times[1] <= gap.start_time.ToMilliseconds() <= times[2]
    assert times[7] <= gap.end_time.ToMilliseconds() <= times[8] + 1
    async with down.stub() as stub:
        moment = reading(pair.topic)
        moment.as_of_time.FromMilliseconds(times[4])
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetPolicy(moment, timeout=20)
        assert caught.value.code() is grpc.StatusCode.OUT_OF_RANGE
    async with up.stub() as stub:
        assert one(await stub.GetPolicy(moment, timeout=20)).policies.max_producer_per_topic == 4


@pytest.mark.timeout(120)
async def test_the_history_has_an_administrators_change_with_its_producer_and_an_unknown_actor(pair: Pair, admin: Admin) -> None:
    name = f"{pair.namespace}/orders"
    await pair.history(pair.servers[0])  # from now on the sidecar follows the log
    await asyncio.to_thread(admin.call, "POST", f"persistent/{name}/messageTTL", None, messageTTL="77")
    deadline = asyncio.get_running_loop().time() + 20
    while not (entries := (await pair.history(pair.servers[0])).entries):
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.1)
    newest = entries[0]
    assert newest.kind == service_pb2.HISTORY_KIND_BROKER
    assert (newest.origin.actor, newest.origin.actor_standing) == ("", service_pb2.ACTOR_STANDING_UNKNOWN)
    assert newest.origin.producer_name
    assert newest.document.policies.message_ttl_in_seconds == 77
    assert list(newest.changed.paths) == ["message_ttl_in_seconds"]
