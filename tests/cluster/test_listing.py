"""Many questions about the topics of a namespace, answered by lists."""

from __future__ import annotations

import asyncio

import pytest

from topicpolicies_server.cluster import listing
from topicpolicies_server.cluster.listing import Lists, TopicLookups
from topicpolicies_server.cluster.source import TopicFacts
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.change_log import LogError

NAMESPACE = "acme/orders"
TOPICS = [f"persistent://{NAMESPACE}/t-{number}" for number in range(200)]
SWITCHED = TopicFacts(True, {"x": "y"})
PLAIN, MISSING = TopicFacts(True, {}), TopicFacts(False, {})


class Brokers:
    """Even topics exist, every tenth is partitioned and has a property, odd ones do not exist."""

    def __init__(self, *, missing_topics: bool = False) -> None:
        self.asked: list[str] = []
        self.listed: list[str] = []
        self.refused: BaseException | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.now = 0.0
        self.questions = TopicLookups(self._one, self._lists, lambda: self.now, missing_topics=missing_topics)

    async def all(self, topics: list[str]) -> dict[str, TopicFacts]:
        """Asks at once."""
        return dict(zip(topics, await asyncio.gather(*map(self.questions.topic, topics)), strict=True))

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
    """What a question about one topic answers."""
    number = int(topic.rpartition("-")[2])
    return SWITCHED if number % 10 == 0 else PLAIN if number % 2 == 0 else MISSING


async def test_many_questions_are_answered_by_one_list_and_say_the_same_as_one_by_one() -> None:
    brokers = Brokers()
    assert await brokers.all(TOPICS) == {topic: truth(topic) for topic in TOPICS}
    assert brokers.listed == [NAMESPACE]
    asked_in_vain = [topic for topic in brokers.asked if truth(topic) is PLAIN]
    assert len(asked_in_vain) <= listing._MANY, "what the list tells is not asked"
    assert all(topic in brokers.asked for topic in TOPICS if truth(topic) is not PLAIN), "what it does not tell is"


async def test_where_topics_need_not_exist_the_lists_tell_of_those_that_do_not_too() -> None:
    brokers = Brokers(missing_topics=True)
    assert await brokers.all(TOPICS) == {topic: truth(topic) for topic in TOPICS}
    assert brokers.listed == [NAMESPACE]
    asked_in_vain = [topic for topic in brokers.asked if truth(topic) is not SWITCHED]
    assert len(asked_in_vain) <= listing._MANY
    brokers.asked.clear()
    elsewhere = f"non-persistent://{NAMESPACE}/t-10"
    assert await brokers.questions.topic(elsewhere) == SWITCHED
    assert brokers.asked == [elsewhere], "the lists do not have it"


async def test_a_few_questions_are_asked_one_by_one() -> None:
    brokers = Brokers()
    for start in range(0, 40, 8):
        await brokers.all(TOPICS[start : start + 8])
    assert brokers.listed == []
    assert brokers.asked == TOPICS[:40]


async def test_many_questions_about_many_namespaces_are_few_about_each() -> None:
    brokers = Brokers()
    topics = [f"persistent://acme/ns{number}/t-{number}" for number in range(200)]
    await brokers.all(topics)
    assert brokers.listed == []
    assert brokers.asked == topics


async def test_a_list_holds_for_some_seconds_and_what_came_meanwhile_is_asked_about() -> None:
    brokers = Brokers()
    await brokers.all(TOPICS)
    brokers.asked.clear()
    late = f"persistent://{NAMESPACE}/late-2"
    assert await brokers.questions.topic(TOPICS[2]) == PLAIN
    assert await brokers.questions.topic(late) == PLAIN
    assert brokers.asked == [late]
    brokers.now = 6.0
    await brokers.questions.topic(TOPICS[2])
    assert brokers.asked == [late, TOPICS[2]], "the list is too old"
    await brokers.all(TOPICS)
    assert brokers.listed == [NAMESPACE] * 2


REFUSED = LogError(Reason.PULSAR_ADMIN_REFUSED, "You may not.")


@pytest.mark.parametrize("error", [REFUSED, KeyError("partitions"), asyncio.CancelledError()])
async def test_where_nothing_can_be_listed_topics_are_asked_about_and_lists_again_a_minute_later(error: BaseException) -> None:
    brokers = Brokers()
    brokers.refused = error
    assert await brokers.all(TOPICS) == {topic: truth(topic) for topic in TOPICS}
    assert sorted(brokers.asked) == sorted(TOPICS)
    await brokers.all(TOPICS)
    assert brokers.listed == [NAMESPACE]
    brokers.now = 61.0
    await brokers.all(TOPICS)
    assert brokers.listed == [NAMESPACE] * 2


async def test_lists_of_a_few_namespaces_are_kept() -> None:
    brokers = Brokers()
    for number in range(3 * listing._KEPT):
        await brokers.all([topic.replace("orders", f"orders-{number}") for topic in TOPICS])
    assert len(brokers.listed) == 3 * listing._KEPT
    assert len(brokers.questions._listed) == listing._KEPT
    assert not brokers.questions._unanswered and not brokers.questions._listing


async def test_whoever_gives_up_waiting_for_a_list_takes_it_from_nobody() -> None:
    brokers = Brokers()
    brokers.gate.clear()
    waiting = [asyncio.create_task(brokers.questions.topic(topic)) for topic in TOPICS]
    await asyncio.sleep(0)
    for each in waiting[listing._MANY :: 2]:
        each.cancel()
    brokers.gate.set()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    cancelled = sum(isinstance(each, asyncio.CancelledError) for each in done)
    assert cancelled == len(waiting[listing._MANY :: 2]) > 0
    assert all(each == truth(topic) for topic, each in zip(TOPICS, done, strict=True) if not isinstance(each, BaseException))
    assert brokers.listed == [NAMESPACE]


async def test_closing_ends_what_is_being_listed() -> None:
    brokers = Brokers()
    never = asyncio.Event()

    async def list_all(_: str) -> Lists:
        await never.wait()
        raise AssertionError

    questions = TopicLookups(brokers._one, list_all, lambda: 0.0)
    asking = [asyncio.create_task(questions.topic(topic)) for topic in TOPICS]
    brokers.gate.clear()
    await asyncio.sleep(0.01)
    await questions.close()
    brokers.gate.set()
    done = await asyncio.gather(*asking, return_exceptions=True)
    assert sum(isinstance(each, asyncio.CancelledError) for each in done) == len(TOPICS) - listing._MANY
