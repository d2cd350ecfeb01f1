"""Messages that were not handed over are remembered beyond one opening, as long as that is useful."""

from __future__ import annotations

import pytest

from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar.admin.topics import Compaction
from topicpolicies_server.logs.pulsar.ids import MessageId
from topicpolicies_server.logs.pulsar.reading.continuity import Continuity
from topicpolicies_server.logs.pulsar.reading.not_handed_over import NotHandedOver

_NEVER = Compaction(-1, MessageId(7, -1))


def opened(remembered: NotHandedOver, topic: str, compaction: Compaction = _NEVER) -> Continuity:
    return Continuity(compaction, remembered.of(topic))


def missed(continuity: Continuity, *messages: MessageId) -> None:
    """Brings a reader to a gap with messages that can't be read."""
    continuity.come_to(messages[-1]._replace(entry=messages[-1].entry + 1))
    continuity.compacted(_NEVER)
    continuity.not_recalled()
    continuity.messages(messages)
    continuity.compacted(_NEVER)


def test_an_opening_knows_the_messages_that_the_previous_one_missed_and_none_of_other_topics() -> None:
    remembered = NotHandedOver()
    with pytest.raises(LogError) as lost:
        missed(opened(remembered, "one"), MessageId(7, 1), MessageId(7, 2))
    assert lost.value.reason == Reason.LOG_UNAVAILABLE
    again = opened(remembered, "one")
    missed(again, MessageId(7, 1), MessageId(7, 2))
    assert again.unreadable == (MessageId(7, 1), MessageId(7, 2))
    with pytest.raises(LogError):
        missed(opened(remembered, "two"), MessageId(7, 1))


def test_a_topic_whose_messages_are_all_handed_over_is_not_kept() -> None:
    remembered = NotHandedOver()
    for number in range(1_000):
        opened(remembered, f"topic-{number}").delivered(MessageId(7, 0))
    assert len(remembered) == 0
    with pytest.raises(LogError):
        missed(opened(remembered, "one"), MessageId(7, 0))
    assert len(remembered) == 1
    opened(remembered, "one").delivered(MessageId(7, 0))
    assert len(remembered) == 0


def test_messages_before_the_horizon_are_forgotten_at_the_next_opening() -> None:
    remembered = NotHandedOver()
    with pytest.raises(LogError):
        missed(opened(remembered, "one"), MessageId(7, 0))
    opened(remembered, "one", Compaction(20, MessageId(7, 5)))
    assert len(remembered) == 0


def test_above_the_limit_of_topics_the_one_with_the_oldest_last_message_is_forgotten() -> None:
    remembered = NotHandedOver(2)
    for topic in ("one", "two", "three", "two", "four"):
        remembered.of(topic).add(MessageId(7, 0))
    assert [topic for topic in ("one", "two", "three", "four") if MessageId(7, 0) in remembered.of(topic)] == ["two", "four"]
