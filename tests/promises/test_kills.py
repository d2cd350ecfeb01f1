"""The server is killed at random moments under load.

No acknowledged update is lost, none is applied twice, and a repeat with the same id settles every interrupted one.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict

import pytest

from tests.validators.links import Link, chain

from .api import INTERRUPTED, Api, Refused, Update
from .conftest import Place

KILLS = 4
CLIENTS = 12
TOPICS = 3
SEED = 7


class Load:
    """Clients that change settings until ``stopping`` is set, and repeat interrupted updates until they are settled."""

    def __init__(self, place: Place, chance: random.Random) -> None:
        self.place = place
        self.chance = chance
        self.stopping = False
        self.in_flight: set[str] = set()
        self.interrupted: set[str] = set()
        self.answered = 0
        self.repeated = 0
        """The number of updates that had been applied before the answer to their repeat."""
        self.links: dict[str, list[Link]] = defaultdict(list)
        self.last: dict[tuple[str, str], int] = {}
        """The newest acknowledged value by topic and subscription, each of which has one writer."""

    async def client(self, number: int) -> None:
        """Changes the entry of one subscription, which no other client changes, in every topic."""
        async with Api(self.place.server.address) as api:
            value = 0
            while not self.stopping:
                value += 1
                topic = self.place.topic(f"killed-{self.chance.randrange(TOPICS)}")
                name = f"client-{number}"
                update = Update(topic, mask=[f"subscription_policies.{name}"])
                update.policies.subscription_policies[name].dispatch_rate.dispatch_throttling_rate_in_msg = value
                while True:
                    self.in_flight.add(update.request_id)
                    try:
                        answer = await api.send(update, timeout=20)
                    except Refused as error:
                        if error.code not in INTERRUPTED:
                            raise
                        self.interrupted.add(update.request_id)
                        await asyncio.sleep(0.05)
                        continue
                    finally:
                        self.in_flight.discard(update.request_id)
                    break
                self.answered += 1
                self.repeated += answer.replayed
                self.links[topic].append(Link(update.request_id, answer.previous_version, answer.version))
                self.last[topic, name] = value
                await asyncio.sleep(self.chance.uniform(0, 0.02))  # a server that starts needs the processors too


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_server_killed_again_and_again_loses_nothing_and_repeats_nothing(place: Place) -> None:
    chance = random.Random(SEED)
    load = Load(place, chance)
    clients = [asyncio.create_task(load.client(number)) for number in range(CLIENTS)]
    caught = 0
    for kill in range(KILLS):
        answered = load.answered
        while load.answered < answered + CLIENTS:  # noqa: ASYNC110 - every process answers something before it is killed
            await asyncio.sleep(0.01)
        await asyncio.sleep(chance.uniform(0.0, 0.6))
        while not load.in_flight:  # noqa: ASYNC110 - an event would be needed only here
            await asyncio.sleep(0.001)
        caught += len(load.in_flight)
        place.server.kill()
        if place.admin is not None and kill == KILLS // 2:  # brokers do this by themselves once a minute
            await asyncio.to_thread(place.admin.compact_change_events, place.namespace)
        await place.server.start()
    await asyncio.sleep(0.5)
    load.stopping = True
    await asyncio.gather(*clients)
    assert place.server.lives == KILLS + 1
    assert caught >= KILLS, "every kill met updates in flight"
    assert len(load.interrupted) >= KILLS
    applied = f"{load.repeated} of them had been applied"
    print(f"{place.log}: {KILLS} kills met {caught} updates in flight; {len(load.interrupted)} were repeated, {applied}")
    async with Api(place.server.address) as api:
        for topic, links in load.links.items():
            found = chain(links)
            assert not found.twice
            assert not found.forks
            assert not found.loose
            final = await api.get(topic)
            assert final.policies is not None and final.version == found.links[-1].version
            entries = final.policies.subscription_policies.items()
            values = {name: entry.dispatch_rate.dispatch_throttling_rate_in_msg for name, entry in entries}
            assert values == {name: value for (at, name), value in load.last.items() if at == topic}
    assert sum(map(len, load.links.values())) > KILLS * CLIENTS
