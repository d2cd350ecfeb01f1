"""Whether something was missed: the state machine, driven through random logs that are compacted and trimmed while they are read."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar.admin.topics import Compaction
from topicpolicies_server.logs.pulsar.ids import NOWHERE, MessageId, border_of, message_id_of
from topicpolicies_server.logs.pulsar.reading.continuity import Continuity, State

_AT_ONCE = 3
_SEEDS = 1_500


class Written(NamedTuple):
    """What stands at a place: an event of a key, its deletion, or (no key) a marker of the broker's."""

    place: MessageId
    key: int | None
    deleted: bool = False


class Topic:
    """A topic as a broker keeps it: ledgers, and what compaction left over."""

    def __init__(self, chance: random.Random, *, kind: str) -> None:
        self.chance = chance
        self.kind = kind
        self.written: list[Written] = []
        self.ledger, self.entry = 7, 0
        self.first_ledger = 7
        self.compaction = Compaction(-1, MessageId(7, -1))
        self.told = self.compaction
        self.left: list[Written] = []
        self.horizon = MessageId(7, -1)

    def write(self) -> None:
        """One event, now and then in a new ledger."""
        if self.entry and self.chance.random() < 0.15:
            self.ledger, self.entry = self.ledger + 1, 0
        marker = self.kind == "markers" and self.chance.random() < 0.03
        key = None if marker else self.chance.randrange(5)
        self.written.append(Written(MessageId(self.ledger, self.entry), key, self.chance.random() < 0.25))
        self.entry += 1

    def compact(self) -> None:
        """Leaves the newest event of each key. How far it went is told later than that it counts."""
        if self.written and self.written[-1].place > self.horizon:
            self.horizon = self.written[-1].place
            self.left = list(newest(self.written))
            self.compaction = Compaction(self.compaction.ledger + 10, self.horizon)
            self.told = Compaction(self.compaction.ledger, self.told.horizon)

    def tell(self) -> None:
        """Tells how far it went."""
        self.told = self.compaction

    def trim(self) -> None:
        """Old ledgers go, where all is compacted."""
        if self.kind == "trimmed":
            self.first_ledger = max(self.first_ledger, min(self.horizon.ledger, self.ledger))

    def next(self, after: MessageId) -> Written | None:
        """What a reader that reads compacted is given behind a place."""
        rest = [each for each in self.left if each.place > after] if after < self.horizon else []
        rest += [each for each in self.written if each.place > max(after, self.horizon) and each.key is not None]
        return rest[0] if rest else None

    def recalled(self, after: MessageId, before: MessageId) -> list[Written] | None:
        """The first entries between two, as they stand in the ledgers, without markers."""
        if after.ledger < self.first_ledger:
            return None
        return [each for each in self.written if after < each.place < before and each.key is not None][:_AT_ONCE]

    def messages(self, after: MessageId, before: MessageId) -> list[MessageId]:
        """The messages between two that still stand in the ledgers."""
        between = [each for each in self.written if after < each.place < before and each.place.ledger >= self.first_ledger]
        return [each.place for each in between if each.key is not None]

    def step(self) -> None:
        """Something happens."""
        self.chance.choice([self.write, self.write, self.write, self.compact, self.tell, self.trim])()


def newest(written: list[Written]) -> Iterator[Written]:
    """The newest event of each key that is not deleted."""
    last = {each.key: each for each in written if each.key is not None}
    return (each for each in written if each.key is not None and last[each.key] is each and not each.deleted)


class Read:
    """A reader of a topic from the beginning on, and whether that was all it should have read."""

    def __init__(self, topic: Topic, continuity: type[Continuity] = Continuity) -> None:
        self.topic = topic
        self.opening = topic.told
        self.continuity = continuity(topic.told)
        self.delivered: list[Written] = []
        self.borders: list[str | None] = []
        """Behind which position nothing was compacted away, as it was known when each was delivered."""
        self.given = NOWHERE
        self.most = 0

    def take(self) -> bool:
        """Takes the next entry; whether there was one."""
        given = self.topic.next(self.given)
        if given is None:
            return False
        self.given = given.place
        if not self.continuity.goes_on(given.place):
            self.continuity.come_to(given.place)
            self._make_sure()
        self._deliver(given)
        return True

    def end(self) -> None:
        """The end of the topic, where something may have been compacted away."""
        end = self.topic.written[-1].place if self.topic.written else None
        while self.take():
            pass
        if end is not None:
            self.continuity.ended(end)
            self._make_sure()

    def _make_sure(self) -> None:
        continuity, topic = self.continuity, self.topic
        asked = 0
        while (state := continuity.state) is not State.WHOLE:
            asked += 1
            assert asked < 200, "it comes to an end"
            if asked < 40 and topic.chance.random() < 0.5:
                topic.step()
            if state in (State.COMPACTION, State.CONFIRMING, State.SETTLING):
                if state is State.SETTLING or topic.told.ledger == self.opening.ledger:
                    topic.tell()  # a while after it counted
                continuity.compacted(topic.told)
            elif state is State.MESSAGES:
                continuity.messages(topic.messages(*continuity.stretch))
            else:
                found = topic.recalled(*continuity.stretch)
                if found is None:
                    continuity.not_recalled()
                    continue
                for each in found:
                    self._deliver(each)
                continuity.recalled(bool(found))
        assert not continuity.unreadable

    def _deliver(self, each: Written) -> None:
        if not self.delivered or each.place > self.delivered[-1].place:
            self.delivered.append(each)
            self.borders.append(self.continuity.complete_after)
            self.continuity.delivered(each.place)

    def check(self, *, lost: bool) -> None:
        """Everything behind the opening's horizon was delivered, and what is told of the beginning holds."""
        start = self.opening.horizon or NOWHERE
        written = self.topic.written
        whole = [each for each in written if start < each.place <= self.continuity.complete_upto and each.key is not None]
        assert [each for each in self.delivered if each.place > start] == whole
        for key in range(0 if lost else 5):
            mine = [each for each in written if each.key == key and each.place <= self.continuity.complete_upto]
            seen = [each for each in self.delivered if each.key == key]
            if mine and not mine[-1].deleted:
                assert seen and seen[-1] == mine[-1], "the newest document is known"
            assert not (seen and not seen[-1].deleted and mine[-1].deleted), "no deletion was missed"
        first: set[int | None] = set()
        for each, border in zip(self.delivered, self.borders, strict=True):
            behind = border is not None and each.place > self._place(border)
            if each.key not in first and behind and border is not None:
                before = [other for other in written if other.key == each.key and other.place <= self._place(border)]
                assert not before or before[-1].deleted, "an event whose key had a document before is not taken for its first"
            first.add(each.key)

    @staticmethod
    def _place(border: str) -> MessageId:
        return message_id_of(border) if border else NOWHERE


def a_run(seed: int, kind: str, continuity: type[Continuity] = Continuity) -> tuple[Read, LogError | None]:
    """One topic, read while it lives."""
    chance = random.Random(seed)
    topic = Topic(chance, kind=kind)
    for _ in range(chance.randrange(40)):
        topic.step()
    if chance.random() < 0.8:
        topic.tell()
    reading = Read(topic, continuity)
    try:
        for _ in range(chance.randrange(60)):
            topic.step() if chance.random() < 0.6 else reading.take()
        reading.end()
        for _ in range(chance.randrange(20)):
            topic.step() if chance.random() < 0.6 else reading.take()
        reading.end()
    except LogError as error:
        return reading, error
    return reading, None


@pytest.mark.parametrize("kind", ["whole", "trimmed", "markers"])
def test_whoever_reads_on_has_missed_nothing_and_knows_whose_beginning_it_has_not_seen(kind: str) -> None:
    moved = lost = recalled = 0
    for seed in range(_SEEDS):
        reading, error = a_run(seed, kind)
        reading.check(lost=error is not None)
        if error is not None:
            assert error.reason in (Reason.LOG_COMPACTED, Reason.LOG_SKIPPED)
            lost += 1
        moved += reading.continuity.complete_after != Continuity(reading.opening).complete_after
        recalled += len(reading.delivered) > len({each.key for each in reading.delivered})
    assert moved > _SEEDS / 50 and recalled > _SEEDS / 2, "the case"
    if kind == "trimmed":
        assert 0 < lost < _SEEDS / 2
    else:
        assert lost == 0, "what still stands in the ledgers is had, however often the log is compacted meanwhile"


class GoingOn(Continuity):
    """Takes what can't be had any more for read: of each key there is a newer entry, whose history is known no further back."""

    def not_recalled(self) -> None:
        if self.state is State.ERASED:
            self.moved_to = self._erased_upto
            super().recalled(some=False)
        else:
            super().not_recalled()


def test_whoever_went_on_without_what_is_gone_for_good_would_miss_deletions_which_leave_nothing() -> None:
    missed = set()
    for seed in range(_SEEDS):
        reading, error = a_run(seed, "trimmed", GoingOn)
        last = {each.key: each for each in reading.topic.written if each.key is not None and each.place <= reading.continuity.complete_upto}
        seen = {each.key: each for each in reading.delivered}
        if error is None:
            missed |= {seed for key, each in last.items() if each.deleted and key in seen and not seen[key].deleted}
    assert missed, "so a log is opened anew: nothing but the compacted beginning tells which keys are left"


def states(continuity: Continuity, *answers: Callable[[], None]) -> list[State]:
    """The state now, and after each answer."""
    passed = [continuity.state]
    for answer in answers:
        answer()
        passed.append(continuity.state)
    return passed


def test_how_far_the_topic_is_compacted_is_asked_once_behind_the_openings_horizon() -> None:
    opening = Compaction(20, MessageId(7, 4))
    continuity = Continuity(opening)
    for entry in (2, 4):
        assert continuity.goes_on(MessageId(7, entry))
        continuity.delivered(MessageId(7, entry))
    assert not continuity.goes_on(MessageId(7, 5)), "though it follows directly"
    continuity.come_to(MessageId(7, 5))
    assert states(continuity, lambda: continuity.compacted(opening)) == [State.COMPACTION, State.WHOLE]
    continuity.delivered(MessageId(7, 5))
    assert continuity.goes_on(MessageId(7, 6))


def test_a_beginning_whose_end_a_compaction_moved_is_not_over_before_it_was_read_to_there() -> None:
    continuity, later = Continuity(Compaction(20, MessageId(7, 4))), Compaction(30, MessageId(9, 2))
    continuity.delivered(MessageId(7, 4))
    continuity.ended(MessageId(7, 4))
    answers = (lambda: continuity.compacted(later), lambda: continuity.compacted(later), continuity.not_recalled)
    assert states(continuity, *answers) == [State.COMPACTION, State.SETTLING, State.ERASED, State.WHOLE]
    assert continuity.complete_after == border_of(MessageId(9, 2)) and not continuity.begun
    continuity.ended(MessageId(9, 2))
    assert states(continuity, lambda: continuity.compacted(later)) == [State.COMPACTION, State.GAP]
    with pytest.raises(LogError, match="opened again"):
        continuity.not_recalled()


def test_how_far_the_openings_compaction_went_is_asked_again_before_what_it_may_have_erased_is_given_up() -> None:
    opening = Compaction(30, MessageId(7, 4))  # it counts, but this is how far the one before went
    continuity = Continuity(opening)
    continuity.delivered(MessageId(7, 4))
    continuity.come_to(MessageId(8, 5))
    answers = (lambda: continuity.compacted(opening), continuity.not_recalled)
    assert states(continuity, *answers) == [State.COMPACTION, State.GAP, State.SETTLING]
    answers = (lambda: continuity.compacted(Compaction(30, MessageId(8, 7))), continuity.not_recalled)
    assert states(continuity, *answers) == [State.SETTLING, State.ERASED, State.GAP]
    assert continuity.complete_after == border_of(MessageId(8, 7))
    with pytest.raises(LogError, match="opened again"):
        continuity.not_recalled()


def test_where_the_openings_compaction_went_no_further_a_gap_is_looked_into_as_ever() -> None:
    opening = Compaction(30, MessageId(7, 4))
    continuity = Continuity(opening)
    continuity.delivered(MessageId(7, 4))
    continuity.come_to(MessageId(8, 0))
    answers = (
        lambda: continuity.compacted(opening),
        continuity.not_recalled,
        lambda: continuity.compacted(opening),
        continuity.not_recalled,
    )
    assert states(continuity, *answers) == [State.COMPACTION, State.GAP, State.SETTLING, State.GAP, State.MESSAGES]
    assert states(continuity, lambda: continuity.messages(()), lambda: continuity.compacted(opening))[-1] is State.WHOLE
    assert continuity.complete_after == border_of(MessageId(7, 4))


def test_a_compaction_behind_the_openings_horizon_once_it_was_passed_takes_nothing_from_what_was_read() -> None:
    continuity = Continuity(Compaction(20, MessageId(7, 4)))
    continuity.come_to(MessageId(7, 5))
    continuity.compacted(Compaction(20, MessageId(7, 4)))
    for entry in (5, 6, 7):
        continuity.delivered(MessageId(7, entry))
    border, later = continuity.complete_after, Compaction(30, MessageId(7, 9))
    continuity.come_to(MessageId(7, 10))  # 8 and 9 were erased
    answers = [lambda: continuity.compacted(later), lambda: continuity.compacted(later)]
    assert states(continuity, *answers) == [State.COMPACTION, State.SETTLING, State.ERASED]
    assert continuity.stretch == (MessageId(7, 7), MessageId(7, 10)), "they are read where they still stand"
    assert continuity.complete_after == border
    continuity.not_recalled()
    with pytest.raises(LogError, match="was compacted"):
        continuity.not_recalled()


def behind_a_gap(known: set[MessageId]) -> tuple[Continuity, Compaction]:
    """Of a topic that was never compacted entry 2 is to be delivered first, and those before it can't be had."""
    opening = Compaction(-1, MessageId(7, -1))
    continuity = Continuity(opening, known)
    continuity.come_to(MessageId(7, 2))
    assert states(continuity, lambda: continuity.compacted(opening), continuity.not_recalled) == [
        State.COMPACTION,
        State.GAP,
        State.MESSAGES,
    ]
    return continuity, opening


def test_a_message_that_is_not_handed_over_twice_is_delivered_as_unreadable() -> None:
    known: set[MessageId] = set()
    continuity, opening = behind_a_gap(known)
    continuity.messages([MessageId(7, 1)])
    with pytest.raises(LogError, match="was not delivered"):
        continuity.compacted(opening)
    continuity, opening = behind_a_gap(known)
    continuity.messages([MessageId(7, 1)])
    assert states(continuity, lambda: continuity.compacted(opening)) == [State.CONFIRMING, State.WHOLE]
    assert continuity.unreadable == [MessageId(7, 1)]
    continuity.delivered(MessageId(7, 1), readable=False)
    assert known == {MessageId(7, 1)}
    continuity.delivered(MessageId(7, 1))
    assert known == set(), "it came after all"


def test_what_compaction_has_gone_beyond_is_not_remembered_as_not_handed_over() -> None:
    known = {MessageId(7, 1), MessageId(7, 3), MessageId(8, 0)}
    Continuity(Compaction(-1, MessageId(7, -1)), known)
    assert len(known) == 3
    Continuity(Compaction(20, None), known)
    assert len(known) == 3, "nobody can tell how far"
    Continuity(Compaction(20, MessageId(7, 3)), known)
    assert known == {MessageId(8, 0)}
    Continuity(Compaction(30, MessageId(9, -1)), known)
    assert known == set()


def test_a_compaction_while_messages_are_looked_for_makes_that_answer_worthless() -> None:
    continuity, _ = behind_a_gap(set())
    continuity.messages([])
    answers = [
        lambda: continuity.compacted(Compaction(20, MessageId(7, -1))),
        lambda: continuity.compacted(Compaction(20, MessageId(7, 1))),
        continuity.not_recalled,
    ]
    assert states(continuity, *answers) == [State.CONFIRMING, State.SETTLING, State.ERASED, State.GAP]
    with pytest.raises(LogError, match="was compacted"):
        continuity.not_recalled()
