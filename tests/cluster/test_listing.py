"""Many lookups of topics of one namespace are answered by its lists."""

from __future__ import annotations

import asyncio

from topicpolicies_server.cluster import admin
from topicpolicies_server.cluster.admin import AdminSource, Lists
from topicpolicies_server.cluster.levels import TopicFacts
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar.admin import Admin

NAMESPACE = "acme/orders"
TOPICS = [f"persistent://{NAMESPACE}/t-{number}" for number in range(200)]
SWITCHED = TopicFacts(True, {"x": "y"})
PLAIN, MISSING = TopicFacts(True, {}), TopicFacts(False, {})


class Brokers(AdminSource):
    """A source that asks brokers on which even topics exist, every tenth is partitioned and has a property, and odd topics do not exist."""

    def __init__(self, *, missing_topics: bool = False) -> None:
        self.asked: list[str] = []
        self.listed: list[str] = []
        self.refused: BaseException | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.now = 0.0
        super().__init__(Admin("http://nowhere:1"), "", missing_topics=missing_topics)
        self._cached_lists._now = lambda: self.now

    async def all(self, topics: list[str]) -> dict[str, TopicFacts]:
        """Looks up all topics at once."""
        return dict(zip(topics, await asyncio.gather(*map(self.topic, topics)), strict=True))

    async def _one(self, topic: str) -> TopicFacts:
        self.asked.append(topic)
        await self.gate.wait()
        await asyncio.sleep(0)
        return truth(topic)

    async def _lists(self, namespace: str) -> Lists:
        self.listed.append(namespace)
        await asyncio.sleep(0)
        if self.refused is not None:
            raise self.refused
        partitioned = {topic for topic in TOPICS if truth(topic) is SWITCHED}
        return Lists(
            frozenset(topic for topic in TOPICS if truth(topic) == PLAIN) | {f"{topic}-partition-0" for topic in partitioned},
            frozenset(partitioned),
        )


def truth(topic: str) -> TopicFacts:
    """Returns the facts of one topic."""
    number = int(topic.rpartition("-")[2])
    return SWITCHED if number % 10 == 0 else PLAIN if number % 2 == 0 else MISSING


async def test_many_lookups_are_answered_by_one_listing_with_the_same_facts_as_one_by_one() -> None:
    brokers = Brokers()
    assert await brokers.all(TOPICS) == {topic: truth(topic) for topic in TOPICS}
    assert brokers.listed == [NAMESPACE]
    avoidable = [topic for topic in brokers.asked if truth(topic) is PLAIN]
    assert len(avoidable) <= admin._MANY, "topics that the lists answer for are not requested"
    assert all(topic in brokers.asked for topic in TOPICS if truth(topic) is not PLAIN), (
        "topics that the lists do not answer for are requested"
    )


async def test_where_topics_need_not_exist_the_lists_also_answer_for_missing_topics() -> None:
    brokers = Brokers(missing_topics=True)
    assert await brokers.all(TOPICS) == {topic: truth(topic) for topic in TOPICS}
    assert brokers.listed == [NAMESPACE]
    avoidable = [topic for topic in brokers.asked if truth(topic) is not SWITCHED]
    assert len(avoidable) <= admin._MANY
    brokers.asked.clear()
    elsewhere = f"non-persistent://{NAMESPACE}/t-10"
    assert await brokers.topic(elsewhere) == SWITCHED
    assert brokers.asked == [elsewhere], "the lists have only persistent topics"


async def test_a_few_topics_are_requested_one_by_one() -> None:
    brokers = Brokers()
    for start in range(0, 40, 8):
        await brokers.all(TOPICS[start : start + 8])
    assert brokers.listed == []
    assert brokers.asked == TOPICS[:40]


async def test_lookups_are_counted_by_namespace() -> None:
    brokers = Brokers()
    topics = [f"persistent://acme/ns{number}/t-{number}" for number in range(200)]
    await brokers.all(topics)
    assert brokers.listed == []
    assert brokers.asked == topics


async def test_lists_are_used_for_two_seconds_and_topics_created_since_are_requested() -> None:
    brokers = Brokers()
    await brokers.all(TOPICS)
    brokers.asked.clear()
    late = f"persistent://{NAMESPACE}/late-2"
    assert await brokers.topic(TOPICS[2]) == PLAIN
    assert await brokers.topic(late) == PLAIN
    assert brokers.asked == [late]
    brokers.now = 2.1
    await brokers.topic(TOPICS[2])
    assert brokers.asked == [late, TOPICS[2]], "the lists have expired"
    await brokers.all(TOPICS)
    assert brokers.listed == [NAMESPACE] * 2


async def test_if_listing_fails_topics_are_requested_and_listing_is_tried_again_later() -> None:
    brokers = Brokers()
    brokers.refused = LogError(LogState.ADMIN_REFUSED, "You may not.")
    assert await brokers.all(TOPICS) == {topic: truth(topic) for topic in TOPICS}
    assert sorted(brokers.asked) == sorted(TOPICS)
    await brokers.all(TOPICS)
    assert brokers.listed == [NAMESPACE]
    brokers.now, brokers.refused = 2.1, None
    await brokers.all(TOPICS)
    assert brokers.listed == [NAMESPACE] * 2
