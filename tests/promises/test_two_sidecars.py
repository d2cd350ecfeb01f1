"""Two sidecars on one broker: what one of them wrote, the other one reads, streams, knows when it is repeated, and has in its history."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.broker.admin import Admin
from tests.broker.pulsar_broker import Broker
from topicpolicies.v1.policies_pb2 import TopicPolicies

from .api import Api, Change, Delete, Entry, Event, Refused, Update
from .conftest import Sidecars
from .server_process import ServerProcess

pytestmark = pytest.mark.broker
CLIENTS = 8
SENDS = 100
CHANGES = 20
_INTERRUPTED = {"UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED", "UNKNOWN", "INTERNAL"}


class Pair:
    """Two running sidecars, each with a history, and a namespace."""

    def __init__(self, servers: list[ServerProcess], namespace: str) -> None:
        self.servers = servers
        self.namespace = namespace
        self.topic = f"persistent://{namespace}/orders"

    async def history(self, server: ServerProcess) -> list[Entry]:
        """Returns a sidecar's history of the topic, the newest entry first."""
        async with Api(server.address) as api:
            return await api.history(self.topic, newest_first=True)


def value(entry: Entry) -> int:
    """Returns the number of producers after an event."""
    return (entry.document.policies or TopicPolicies()).max_producer_per_topic


@pytest.fixture
async def pair(broker: Broker, admin: Admin, tmp_path: Path) -> AsyncIterator[Pair]:
    namespace = admin.create_namespace("pair")
    admin.compact_only_on_request(namespace)  # which events a history has depends on when the log is compacted
    await asyncio.to_thread(admin.create_topic, f"{namespace}/orders")
    log = ["--pulsar", broker.service_url, "--admin-url", broker.admin_url, "--recalled-entries", "0"]  # as if all ledgers were trimmed
    servers = [
        ServerProcess([*log, "--history", str(tmp_path / f"history-{number}.db")], tmp_path / f"server-{number}.log") for number in range(2)
    ]
    await asyncio.gather(*(server.start() for server in servers))
    yield Pair(servers, namespace)
    for server in servers:
        server.kill()


@pytest.fixture(params=[0, 3], ids=["plain", "3-partitions"])
async def topics(admin: Admin, request: pytest.FixtureRequest) -> list[str]:
    """Topics in a new namespace."""
    namespace = await asyncio.to_thread(admin.create_namespace, "two")
    if request.param:
        await asyncio.to_thread(admin.partition_change_events, namespace, request.param)
    for number in range(4):
        await asyncio.to_thread(admin.create_topic, f"{namespace}/topic-{number}")
    return [f"persistent://{namespace}/topic-{number}" for number in range(4)]


async def test_writes_are_read_at_the_other_sidecar(sidecars: Sidecars, topics: list[str]) -> None:
    async with Api(sidecars.one.address) as one, Api(sidecars.two.address) as two:
        for number in range(1, CHANGES):
            for topic in topics:
                writer, reader = (one, two) if number % 2 else (two, one)
                written = await writer.update(topic, {"max_producer_per_topic": number})
                read = await reader.get(topic, at_least_version=written.version)
                assert (read.version, read.policies) == (written.version, TopicPolicies(max_producer_per_topic=number))


async def test_a_repeat_at_the_other_sidecar_has_the_first_answer(sidecars: Sidecars, topics: list[str]) -> None:
    async with Api(sidecars.one.address) as one, Api(sidecars.two.address) as two:
        for topic in topics:
            for change in (Update(topic, TopicPolicies(max_producer_per_topic=3)), Delete(topic)):
                first = await one.send(change)
                again = await two.send(change)
                assert (again.outcome, again.version, again.previous_version) == (first.outcome, first.version, first.previous_version)
                assert again.replayed and not first.replayed
                changed = Update(topic, TopicPolicies(max_producer_per_topic=4), request_id=change.request_id)
                with pytest.raises(Refused) as refused:
                    await two.send(changed)
                assert refused.value.reason == "REQUEST_ID_REUSED"


async def test_a_watch_on_either_sidecar_has_the_changes_of_all_writers(sidecars: Sidecars, topics: list[str], admin: Admin) -> None:
    """And a token of one sidecar resumes a watch on the other one, which misses nothing and repeats nothing."""
    (namespace,) = {topic.removeprefix("persistent://").rsplit("/", 1)[0] for topic in topics}
    seen: list[list[Event]] = [[], []]
    synced = [asyncio.Event(), asyncio.Event()]

    async def watch(number: int, found: list[Event], wanted: int, resume: dict[str, str | None] | None = None) -> None:
        async for event in (one, two)[number].watch([namespace], mode="EVERY", resume=resume):
            found.append(event)
            if event.kind == "synced":
                synced[number].set()
            if sum(each.kind == "change" for each in found) >= wanted:
                return

    async def change(number: int) -> None:
        for topic in topics:
            await (one if number % 2 else two).update(topic, {"max_producer_per_topic": number})
            name = f"persistent/{topic.removeprefix('persistent://')}/maxConsumers"
            await asyncio.to_thread(admin.call, "POST", name, number)

    async with Api(sidecars.one.address) as one, Api(sidecars.two.address) as two:
        await one.get(topics[0])
        expected = 2 * len(topics) * CHANGES
        watches = [asyncio.create_task(watch(number, found, expected)) for number, found in enumerate(seen)]
        await asyncio.gather(*(each.wait() for each in synced))
        for number in range(1, CHANGES + 1):
            await change(number)
        await asyncio.wait_for(asyncio.gather(*watches), 30)
        for topic in topics:
            shown = [[event.document for event in found if event.document is not None and event.document.topic == topic] for found in seen]
            assert shown[0] == shown[1] and len(shown[0]) == 2 * CHANGES, "both have the same changes, each once"
            assert shown[0][-1].policies == TopicPolicies(max_producer_per_topic=CHANGES, max_consumer_per_topic=CHANGES)
        changes = [event for event in seen[0] if event.kind == "change"]
        rest: list[Event] = []
        middle = changes[len(changes) // 2]
        behind = changes[len(changes) // 2 + 1 :]
        assert middle.token is not None
        await asyncio.wait_for(watch(1, rest, len(behind), {namespace: middle.token}), 30)
        assert not [event for event in rest if event.kind == "reset"]
        resumed = {event.document.version for event in rest if event.document is not None}
        assert resumed == {event.document.version for event in behind if event.document is not None}


@pytest.mark.timeout(180)
async def test_100_repeats_during_a_kill_and_a_compaction_apply_once(pair: Pair, admin: Admin) -> None:
    chance = random.Random(11)
    update = Update(pair.topic, TopicPolicies(max_producer_per_topic=5))
    answers: list[Change] = []
    met: Counter[str] = Counter()
    begun = asyncio.Event()

    async def client() -> None:
        async with Api(pair.servers[0].address) as first, Api(pair.servers[1].address) as second:
            while len(answers) + met["in flight"] < SENDS:
                met["in flight"] += 1
                try:
                    answers.append(await chance.choice([first, second]).send(update, timeout=20))
                except Refused as error:
                    if error.code not in _INTERRUPTED:
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
        async with Api(pair.servers[1].address) as api:
            await api.update(pair.topic, {"message_ttl_in_seconds": 60})  # so that the request's own event can be compacted away
        await asyncio.to_thread(admin.compact_change_events, pair.namespace)
        met["compacted"] += 1
        await victim.start()

    await asyncio.gather(trouble(), *(client() for _ in range(CLIENTS)))
    assert met["compacted"] == 1
    assert met["interrupted"] > 0
    assert len(answers) >= SENDS
    assert len({answer.version for answer in answers if answer.version}) == 1
    assert sum(not answer.replayed for answer in answers) <= 1
    mine = [entry for entry in await pair.history(pair.servers[1]) if entry.request_id == update.request_id.replace("-", "")]
    applied = [entry for entry in mine if entry.outcome == "APPLIED"]
    assert [entry.document.version for entry in applied] == [answer.version for answer in answers if answer.version][:1]
    assert {entry.outcome for entry in mine if entry not in applied} <= {"DUPLICATE"}


@pytest.mark.stages_compaction
@pytest.mark.timeout(180)
async def test_the_history_of_a_sidecar_that_was_down_has_a_gap(pair: Pair, admin: Admin) -> None:
    up, down = pair.servers
    async with Api(up.address) as api:
        await api.update(pair.topic, {"max_producer_per_topic": 1})
        assert len(await pair.history(down)) == 1
        assert down.stop() == 0
        for number in range(2, 8):
            await api.update(pair.topic, {"max_producer_per_topic": number})
        await asyncio.to_thread(admin.compact_change_events, pair.namespace)
        await api.update(pair.topic, {"max_producer_per_topic": 8})
        await down.start()
        whole, partial = await pair.history(up), await pair.history(down)
        assert [value(entry) for entry in whole] == list(range(8, 0, -1))
        values = [value(entry) for entry in partial]
        assert values[-1] == 1 and set(values) >= {1, 7, 8} and len(values) < 8
        times = {value(entry): entry.time for entry in whole}
        moment = times[4] + timedelta(milliseconds=1)
        async with Api(down.address) as other:
            with pytest.raises(Refused) as refused:
                await other.as_of(pair.topic, moment)
            assert refused.value.code == "OUT_OF_RANGE"
            (gap,) = [event async for event in entries(other, pair.namespace) if event.kind == "gap"]
        assert gap.reason == "COMPACTED"
        found = (await api.as_of(pair.topic, moment)).policies
        assert found is not None and found.max_producer_per_topic == 4


async def entries(api: Api, namespace: str) -> AsyncIterator[Event]:
    """Yields what a watch of the whole history has, up to its end."""
    async for event in api.watch([namespace], mode="ENTRIES", until_synced=True):
        yield event


@pytest.mark.timeout(120)
async def test_the_history_has_an_administrators_change(pair: Pair, admin: Admin) -> None:
    name = f"{pair.namespace}/orders"
    await pair.history(pair.servers[0])  # from now on the sidecar follows the log
    await asyncio.to_thread(admin.call, "POST", f"persistent/{name}/messageTTL", None, messageTTL="77")
    deadline = asyncio.get_running_loop().time() + 20
    while not (found := await pair.history(pair.servers[0])):
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.1)
    newest = found[0]
    assert (newest.kind, newest.actor, newest.actor_standing) == ("BROKER", "", "UNKNOWN")
    assert newest.producer
    assert newest.document.policies == TopicPolicies(message_ttl_in_seconds=77)
    assert newest.changed == ["message_ttl_in_seconds"]
