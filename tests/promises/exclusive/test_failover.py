"""The leader is killed, or suspended for longer than its session, under load, and another one takes over; or a compaction runs meanwhile.

No acknowledged update is lost or applied twice, and the log has no event of a leader after its successor's first event.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
import uuid

import pytest

from tests.promises.api import Api, Refused
from tests.promises.server_process import ServerProcess
from tests.validators.links import chain
from topicpolicies.v1.policies_pb2 import TopicPolicies

from .conftest import SESSION_SECONDS, Cluster
from .load import Caller, Load, holding
from .raw_log import intruders
from .witness import Witness

KILLS = 2
MANY_KILLS = 20
"""The number of kills in each part of the further evidence."""
KILLS_WHILE_COMPACTED = 2
STOPS = 2
CLIENTS = 8
SEED = 11
HELD = "held"


class Takeovers:
    """The times of takeovers, in seconds from the fault to the first answer of another leader."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __str__(self) -> str:
        ordered = sorted(self.seconds)
        return f"{len(ordered)} in {ordered[0]:.2f} to {ordered[-1]:.2f} s, median {statistics.median(ordered):.2f} s"


async def taken_over(cluster: Cluster, load: Load, former: ServerProcess, takeovers: Takeovers, began: float) -> ServerProcess:
    """Waits until another sidecar leads and answers, and returns it. ``began``: the time of the fault, monotonic."""
    successor = await cluster.leader(after=former.address)
    load.allow_more()
    await load.until_answered(1)
    takeovers.seconds.append(time.monotonic() - began)
    return successor


async def in_the_middle(load: Load, chance: random.Random) -> int:
    """Lets the clients continue, waits for answers and for updates in flight, and returns the number of the latter."""
    load.allow_more()
    await load.until_answered(CLIENTS)
    await asyncio.sleep(chance.uniform(0.0, 0.3))
    while not load.in_flight:  # noqa: ASYNC110 - an event would be needed only here
        await asyncio.sleep(0.001)
    return len(load.in_flight)


async def stopped_for_longer_than_its_session(cluster: Cluster, load: Load, takeovers: Takeovers, value: int) -> str:
    """Suspends the leader until another one leads, and checks its answers when it resumes. Returns what became of the held update."""
    leader = await cluster.leader()
    topic = load.topics[0]
    async with Api(leader.address) as api, Caller(cluster.targets) as client:
        await api.get(topic)  # connects it
        began = time.monotonic()
        leader.pause()
        update = holding(topic, HELD, value, str(uuid.uuid4()))
        held = asyncio.ensure_future(api.send(update, timeout=60))
        await taken_over(cluster, load, leader, takeovers, began)
        assert takeovers.seconds[-1] >= SESSION_SECONDS / 2, "another sidecar leads only after the session has ended"
        await asyncio.sleep(0.5)
        leader.resume()
        try:
            await held
            said = "forwarded"
        except Refused as error:  # LOG_UNAVAILABLE: its connections were closed meanwhile
            assert (error.code, error.reason) in (("UNAVAILABLE", "LOG_UNAVAILABLE"), ("DEADLINE_EXCEEDED", "OUTCOME_UNKNOWN"))
            said = error.reason
        await load.update(client, topic, HELD, value, update.request_id)  # the repeat settles the update
        async with Caller([leader.address]) as of_former:
            await load.update(of_former, topic, HELD, 100 + value)  # it is forwarded
        read = (await api.get(topic, at_least_version=load.links[topic][-1].version)).policies or TopicPolicies()
        assert read.subscription_policies[HELD].dispatch_rate.dispatch_throttling_rate_in_msg == 100 + value, "a follower serves reads"
    return said


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(600)
async def test_killed_and_suspended_leaders_lose_nothing_and_write_nothing_later(cluster: Cluster) -> None:
    await assert_succeeded(cluster, KILLS, SEED)


@pytest.mark.evidence
@pytest.mark.broker
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(5))
async def test_many_more_killed_and_suspended_leaders_lose_nothing(cluster: Cluster, part: int) -> None:
    await assert_succeeded(cluster, MANY_KILLS, SEED + 1 + part)


async def assert_succeeded(cluster: Cluster, killed: int, seed: int) -> None:
    """Kills the leader ``killed`` times and suspends it a few times, under load; asserts that its successors lose no update."""
    chance = random.Random(seed)
    load = Load(cluster.targets, cluster.topics, seed)
    kills, stops, caught, held = Takeovers(), Takeovers(), 0, list[str]()
    async with asyncio.TaskGroup() as clients:
        for number in range(CLIENTS):
            clients.create_task(load.client(f"client-{number}"))
        for _ in range(killed):
            caught += await in_the_middle(load, chance)
            leader = await cluster.leader()
            began = time.monotonic()
            await asyncio.to_thread(leader.kill)
            await taken_over(cluster, load, leader, kills, began)
            await cluster.start(leader)
        for number in range(STOPS):
            caught += await in_the_middle(load, chance)
            held.append(await stopped_for_longer_than_its_session(cluster, load, stops, number + 1))
        load.stop()
    print(
        f"\n{cluster.namespace}: after SIGKILL {kills}; after SIGSTOP {stops} (session {SESSION_SECONDS} to {2 * SESSION_SECONDS} s);"
        f" {caught} updates met in flight, {load.answered} answered, {load.repeated} of them had been applied before they were answered;"
        f" what stopped leaders held: {', '.join(held)}"
    )
    assert sum(server.lives - 1 for server in cluster.servers) == killed == len(kills.seconds)
    assert len(stops.seconds) == STOPS
    assert caught >= killed + STOPS, "every fault met updates in flight"
    await no_update_was_lost(cluster, load)
    assert load.answered > killed * CLIENTS
    assert written_in_turns(cluster, load) > killed + STOPS, "each fault began a new term"


async def no_update_was_lost(cluster: Cluster, load: Load) -> None:
    """Asserts that the links of all answers are one chain for each topic, and that every sidecar reads the last version."""
    for topic, links in load.links.items():
        found = chain(links)
        assert not found.twice
        assert not found.forks
        assert not found.loose
        for server in cluster.servers:
            async with Api(server.address) as api:
                final = await api.get(topic, at_least_version=found.links[-1].version)
            assert final.policies is not None and final.version == found.links[-1].version
            entries = final.policies.subscription_policies.items()
            values = {name: entry.dispatch_rate.dispatch_throttling_rate_in_msg for name, entry in entries}
            assert values == {name: value for (at, name), value in load.last.items() if at == topic}
    assert sum(map(len, load.links.values())) == load.answered


def written_in_turns(cluster: Cluster, load: Load) -> int:
    """Asserts on the stored log that leaders wrote only in their own terms. Returns the number of terms."""
    raw = cluster.raw
    stored = raw.stored()
    assert intruders(stored) == []
    assert sum(len(producers) for _, producers in stored) >= load.answered
    terms = raw.terms(raw.partitions[0])
    assert len(terms) == len(set(terms))
    for partition in raw.partitions:
        in_turn = iter(terms)
        assert all(term in in_turn for term in raw.terms(partition)), "the terms have the order of partition 0"
    return len(terms)


@pytest.mark.broker
@pytest.mark.timeout(180)
async def test_a_followers_watch_has_every_change_across_failovers(cluster: Cluster) -> None:
    load, kills, chance = Load(cluster.targets, cluster.topics, SEED), Takeovers(), random.Random(SEED)
    witnesses = [Witness(server.address, cluster.namespace) for server in cluster.servers]
    watching = [asyncio.create_task(witness.watch()) for witness in witnesses]
    caught = 0
    killed: list[ServerProcess] = []
    try:
        async with asyncio.timeout(30):
            await asyncio.gather(*(witness.synced.wait() for witness in witnesses))
        async with asyncio.TaskGroup() as clients:
            for number in range(CLIENTS):
                clients.create_task(load.client(f"client-{number}"))
            for _ in range(KILLS_WHILE_COMPACTED):
                if killed:
                    await cluster.start(killed[-1])  # it reads the compacted log
                caught += await in_the_middle(load, chance)
                leader, began = await cluster.leader(), time.monotonic()
                compaction = asyncio.create_task(cluster.compact())
                await asyncio.to_thread(leader.kill)
                await taken_over(cluster, load, leader, kills, began)
                await compaction
                killed.append(leader)
            load.allow_more()
            await load.until_answered(CLIENTS)
            load.stop()
        chains = {topic: chain(links) for topic, links in load.links.items()}
        spared = [witness for witness in witnesses if all(witness.address != server.address for server in killed)]
        for topic, found in chains.items():
            for witness in spared:
                await witness.until_shown(topic, found.links[-1].version)
    finally:
        for task in watching:
            task.cancel()
    print(f"\n{cluster.namespace}: after SIGKILL during a compaction {kills}; {load.answered} answered, {load.repeated} applied before")
    assert spared
    assert caught >= KILLS_WHILE_COMPACTED, "every leader was killed with updates in flight"
    for witness in spared:
        assert not witness.restarted
        assert witness.leaders >= {server.address for server in killed}, "the watch streamed changes of every killed leader"
        for topic, found in chains.items():
            assert not found.broken
            versions = [link.version for link in found.links]
            assert witness.shown[topic] == list(zip(["0", *versions], versions, strict=False)), "each change once, in order"
    assert len(cluster.raw.terms(cluster.raw.partitions[0])) > KILLS_WHILE_COMPACTED
    assert intruders(cluster.raw.stored()) == []
