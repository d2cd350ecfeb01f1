"""Many clients change one topic at once, and no update is lost, as the links of all acknowledged updates and the final states prove."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from tests.validators.links import Link, chain
from topicpolicies.v1.policies_pb2 import INACTIVE_TOPIC_DELETE_MODE_DELETE_WHEN_NO_SUBSCRIPTIONS, TopicPolicies

from .api import Api, Update
from .conftest import Place

pytestmark = pytest.mark.slow
CLIENTS = 64
ROUNDS = 6


def _scalar(field: str) -> Callable[[TopicPolicies, int], str]:
    def put(policies: TopicPolicies, value: int) -> str:
        setattr(policies, field, value)
        return field

    return put


def _subscription(name: str) -> Callable[[TopicPolicies, int], str]:
    def put(policies: TopicPolicies, value: int) -> str:
        policies.subscription_policies[name].dispatch_rate.dispatch_throttling_rate_in_msg = value
        return f"subscription_policies.`{name}`.dispatch_rate.dispatch_throttling_rate_in_msg"

    return put


SCALARS = [
    "compaction_threshold", "deduplication_snapshot_interval_seconds", "max_consumer_per_topic", "max_consumers_per_subscription",
    "max_producer_per_topic", "max_subscriptions_per_topic", "max_unacked_messages_on_consumer", "max_unacked_messages_on_subscription",
    "message_ttl_in_seconds", "subscription_expiration_time_in_minutes", "delayed_delivery_tick_time_millis",
    "delayed_delivery_max_delay_in_millis",
]  # fmt: skip
SETTINGS = [*map(_scalar, SCALARS), *(_subscription(f"sub.{number}") for number in range(CLIENTS - len(SCALARS)))]
"""One setting for each client: different settings, and different entries of one map."""


async def test_64_clients_on_one_topic_lose_nothing(place: Place) -> None:
    topic = place.topic("hot")
    chance = random.Random(1)
    links: list[Link] = []
    conflicts = 0

    async def client(number: int, pauses: list[float]) -> None:
        nonlocal conflicts
        mine = ""
        async with Api(place.server.address) as api:
            for turn, pause in enumerate(pauses, start=1):
                await asyncio.sleep(pause)
                update = Update(topic)
                update.mask = [SETTINGS[number](update.policies, turn * 100 + number)]
                answer = await api.send(update, timeout=60)
                links.append(Link(update.request_id, answer.previous_version, answer.version))
                conflicts += mine not in ("", answer.previous_version)  # another client's update came between
                mine = answer.version

    await asyncio.gather(*(client(number, [chance.uniform(0, 0.02) for _ in range(ROUNDS)]) for number in range(CLIENTS)))
    found = chain(links)
    assert not found.broken
    assert len(found.links) == CLIENTS * ROUNDS
    assert conflicts > CLIENTS
    expected = TopicPolicies()
    for number, put in enumerate(SETTINGS):
        put(expected, ROUNDS * 100 + number)
    async with Api(place.server.address) as api:
        final = await api.get(topic)
    assert final.policies is not None and final.version == found.links[-1].version
    for name, entry in final.policies.subscription_policies.items():
        rate = entry.dispatch_rate
        assert (rate.rate_period_in_second, rate.dispatch_throttling_rate_in_byte) == (1, -1), "Pulsar's own defaults"
        assert rate.dispatch_throttling_rate_in_msg == expected.subscription_policies[name].dispatch_rate.dispatch_throttling_rate_in_msg
    assert set(final.policies.subscription_policies) == set(expected.subscription_policies)
    assert {name: getattr(final.policies, name) for name in SCALARS} == {name: getattr(expected, name) for name in SCALARS}


async def test_the_sequence_of_pip_428_back_to_back_loses_nothing(place: Place) -> None:
    """Sets inactive topic policies, replicator dispatch rate and replication clusters, of which PIP-428 reports that some were lost."""
    inactive, rate = TopicPolicies(), TopicPolicies()
    inactive.inactive_topic_policies.delete_while_inactive = False
    inactive.inactive_topic_policies.inactive_topic_delete_mode = INACTIVE_TOPIC_DELETE_MODE_DELETE_WHEN_NO_SUBSCRIPTIONS
    inactive.inactive_topic_policies.max_inactive_duration_seconds = 3600
    rate.replicator_dispatch_rate.dispatch_throttling_rate_in_msg = 100
    pipelined = 0
    async with Api(place.server.address) as api:
        for number in range(20):
            topic = place.topic(f"pip-428-{number}")
            sent = (inactive, rate, TopicPolicies(replication_clusters=["standalone"]))
            answers = await asyncio.gather(*(api.update(topic, each, timeout=60) for each in sent))
            found = chain(Link(answer.request_id, answer.previous_version, answer.version) for answer in answers)
            assert not found.broken
            assert len(found.links) == 3
            pipelined += sum(answer.previous_version != "0" for answer in answers)
            final = (await api.get(topic)).policies
            assert final is not None
            assert final.inactive_topic_policies.max_inactive_duration_seconds == 3600
            assert final.replicator_dispatch_rate.dispatch_throttling_rate_in_msg == 100
            assert final.replication_clusters == ["standalone"]
    assert pipelined == 40
