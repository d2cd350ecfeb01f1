"""What was not handed over is remembered over openings, as long as it is worth something."""

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
    """Reading comes to a gap in which messages stand that nobody hands over."""
    continuity.come_to(messages[-1]._replace(entry=messages[-1].entry + 1))
    continuity.compacted(_NEVER)
    continuity.not_recalled()
    continuity.messages(messages)
    continuity.compacted(_NEVER)


def test_an_opening_knows_what_the_one_before_was_not_given_and_nothing_of_other_topics() -> None:
    remembered = NotHandedOver()
    with pytest.raises(LogError) as lost:
        missed(opened(remembered, "one"), MessageId(7, 1), MessageId(7, 2))
    assert lost.value.reason == Reason.LOG_SKIPPED
    again = opened(remembered, "one")
    missed(again, MessageId(7, 1), MessageId(7, 2))
    assert again.unreadable == (MessageId(7, 1), MessageId(7, 2))
    with pytest.raises(LogError):
        missed(opened(remembered, "two"), MessageId(7, 1))


def test_of_topics_of_which_everything_is_handed_over_nothing_is_kept() -> None:
    remembered = NotHandedOver()
    for number in range(1_000):
        opened(remembered, f"topic-{number}").delivered(MessageId(7, 0))
    assert len(remembered) == 0
    with pytest.raises(LogError):
        missed(opened(remembered, "one"), MessageId(7, 0))
    assert len(remembered) == 1
    opened(remembered, "one").delivered(MessageId(7, 0))
    assert len(remembered) == 0


def test_what_compaction_has_gone_beyond_goes_with_the_next_opening() -> None:
    remembered = NotHandedOver()
    with pytest.raises(LogError):
        missed(opened(remembered, "one"), MessageId(7, 0))
    opened(remembered, "one", Compaction(20, MessageId(7, 5)))
    assert len(remembered) == 0


def test_of_more_topics_than_are_remembered_the_oldest_go() -> None:
    remembered = NotHandedOver(2)
    for topic in ("one", "two", "three", "two", "four"):
        remembered.of(topic).add(MessageId(7, 0))
    assert [topic for topic in ("one", "two", "three", "four") if MessageId(7, 0) in remembered.of(topic)] == ["two", "four"]
