"""Whether a reader missed entries: the state machine, run on random logs that are compacted and trimmed while they are read."""

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
    """What stands at a place: an event of a key, its deletion, or (without a key) a marker of the broker's."""

    place: MessageId
    key: int | None
    deleted: bool = False


class Topic:
    """A topic as a broker keeps it: its ledgers, and what compaction left."""

    def __init__(self, chance: random.Random, *, kind: str) -> None:
        self.chance = chance
        self.kind = kind
        self.written: list[Written] = []
        self.ledger, self.entry = 7, 0
        self.first_ledger = 7
        self.compaction = Compaction(-1, MessageId(7, -1))
        self.reported = self.compaction
        self.left: list[Written] = []
        self.horizon = MessageId(7, -1)

    def write(self) -> None:
        """Writes one event; now and then begins a new ledger before."""
        if self.entry and self.chance.random() < 0.15:
            self.ledger, self.entry = self.ledger + 1, 0
        marker = self.kind == "markers" and self.chance.random() < 0.03
        key = None if marker else self.chance.randrange(5)
        self.written.append(Written(MessageId(self.ledger, self.entry), key, self.chance.random() < 0.25))
        self.entry += 1

    def compact(self) -> None:
        """Leaves the newest event of each key. Its horizon is reported (``report``) later than its ledger."""
        if self.written and self.written[-1].place > self.horizon:
            self.horizon = self.written[-1].place
            self.left = list(newest(self.written))
            self.compaction = Compaction(self.compaction.ledger + 10, self.horizon)
            self.reported = Compaction(self.compaction.ledger, self.reported.horizon)

    def report(self) -> None:
        """Makes the broker report the horizon of the last compaction."""
        self.reported = self.compaction

    def trim(self) -> None:
        """Removes old ledgers that are entirely compacted."""
        if self.kind == "trimmed":
            self.first_ledger = max(self.first_ledger, min(self.horizon.ledger, self.ledger))

    def next(self, after: MessageId) -> Written | None:
        """Returns what a reader that reads compacted gets after a place."""
        rest = [each for each in self.left if each.place > after] if after < self.horizon else []
        rest += [each for each in self.written if each.place > max(after, self.horizon) and each.key is not None]
        return rest[0] if rest else None

    def recalled(self, after: MessageId, before: MessageId) -> list[Written] | None:
        """Returns the first entries between two places that still stand in the ledgers, without markers; None: the ledgers are gone."""
        if after.ledger < self.first_ledger:
            return None
        return [each for each in self.written if after < each.place < before and each.key is not None][:_AT_ONCE]

    def messages(self, after: MessageId, before: MessageId) -> list[MessageId]:
        """Returns the messages between two places that still stand in the ledgers."""
        between = [each for each in self.written if after < each.place < before and each.place.ledger >= self.first_ledger]
        return [each.place for each in between if each.key is not None]

    def step(self) -> None:
        """Makes one random change."""
        self.chance.choice([self.write, self.write, self.write, self.compact, self.report, self.trim])()


def newest(written: list[Written]) -> Iterator[Written]:
    """Returns the newest event of each key that is not deleted."""
    last = {each.key: each for each in written if each.key is not None}
    return (each for each in written if each.key is not None and last[each.key] is each and not each.deleted)


class Read:
    """A reader that reads a topic from its beginning, and checks that it missed nothing."""

    def __init__(self, topic: Topic, continuity: type[Continuity] = Continuity) -> None:
        self.topic = topic
        self.opening = topic.reported
        self.continuity = continuity(topic.reported)
        self.delivered: list[Written] = []
        self.borders: list[str | None] = []
        """``complete_after`` at the time when each entry was delivered."""
        self.given = NOWHERE

    def take(self) -> bool:
        """Takes the next entry; returns whether there was one."""
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
        """Reads to the end of the topic, after which something may have been compacted away."""
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
            assert asked < 200, "the state machine must come to an end"
            if asked < 40 and topic.chance.random() < 0.5:
                topic.step()
            if state in (State.COMPACTION, State.CONFIRMING, State.SETTLING):
                if state is State.SETTLING or topic.reported.ledger == self.opening.ledger:
                    topic.report()  # a while after the compacted ledger was reported
                continuity.compacted(topic.reported)
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
        """Checks that everything after the opening's horizon was delivered, and that ``complete_after`` was true for each key."""
        start = self.opening.horizon or NOWHERE
        written = self.topic.written
        whole = [each for each in written if start < each.place <= self.continuity.complete_upto and each.key is not None]
        assert [each for each in self.delivered if each.place > start] == whole
        for key in range(0 if lost else 5):
            mine = [each for each in written if each.key == key and each.place <= self.continuity.complete_upto]
            seen = [each for each in self.delivered if each.key == key]
            if mine and not mine[-1].deleted:
                assert seen and seen[-1] == mine[-1], "the newest document was delivered"
            assert not (seen and not seen[-1].deleted and mine[-1].deleted), "a deletion was missed"
        first: set[int | None] = set()
        for each, border in zip(self.delivered, self.borders, strict=True):
            behind = border is not None and each.place > self._place(border)
            if each.key not in first and behind and border is not None:
                before = [other for other in written if other.key == each.key and other.place <= self._place(border)]
                assert not before or before[-1].deleted, "an event would be taken for the first of its key, which had a document before"
            first.add(each.key)

    @staticmethod
    def _place(border: str) -> MessageId:
        return message_id_of(border) if border else NOWHERE


def a_run(seed: int, kind: str, continuity: type[Continuity] = Continuity) -> tuple[Read, LogError | None]:
    """Reads one topic while it changes."""
    chance = random.Random(seed)
    topic = Topic(chance, kind=kind)
    for _ in range(chance.randrange(40)):
        topic.step()
    if chance.random() < 0.8:
        topic.report()
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
def test_a_reader_that_is_not_lost_missed_no_entry_and_knows_up_to_where_histories_are_incomplete(kind: str) -> None:
    moved = lost = recalled = 0
    for seed in range(_SEEDS):
        reading, error = a_run(seed, kind)
        reading.check(lost=error is not None)
        if error is not None:
            assert error.reason in (Reason.LOG_UNAVAILABLE, Reason.LOG_UNAVAILABLE)
            lost += 1
        moved += reading.continuity.complete_after != Continuity(reading.opening).complete_after
        recalled += len(reading.delivered) > len({each.key for each in reading.delivered})
    assert moved > _SEEDS / 50 and recalled > _SEEDS / 2, "both cases must occur"
    if kind == "trimmed":
        assert 0 < lost < _SEEDS / 2
    else:
        assert lost == 0, "entries that still stand in the ledgers are read, however often the log is compacted meanwhile"


class SkippingErased(Continuity):
    """Treats entries that are gone for good as read, because each key has a newer entry; histories are known no further back."""

    def not_recalled(self) -> None:
        if self.state is State.ERASED:
            self.moved_to = self._erased_upto
            super().recalled(some=False)
        else:
            super().not_recalled()


def test_a_reader_that_continued_without_entries_that_are_gone_for_good_would_miss_deletions() -> None:
    missed = set()
    for seed in range(_SEEDS):
        reading, error = a_run(seed, "trimmed", SkippingErased)
        last = {each.key: each for each in reading.topic.written if each.key is not None and each.place <= reading.continuity.complete_upto}
        seen = {each.key: each for each in reading.delivered}
        if error is None:
            missed |= {seed for key, each in last.items() if each.deleted and key in seen and not seen[key].deleted}
    assert missed, "a log is opened again because only its compacted beginning shows which keys are left"


def states(continuity: Continuity, *answers: Callable[[], None]) -> list[State]:
    """Returns the current state, and the state after each answer."""
    passed = [continuity.state]
    for answer in answers:
        answer()
        passed.append(continuity.state)
    return passed


def test_the_compacted_ledger_is_requested_once_after_the_openings_horizon() -> None:
    opening = Compaction(20, MessageId(7, 4))
    continuity = Continuity(opening)
    for entry in (2, 4):
        assert continuity.goes_on(MessageId(7, entry))
        continuity.delivered(MessageId(7, entry))
    assert not continuity.goes_on(MessageId(7, 5)), "although it directly follows"
    continuity.come_to(MessageId(7, 5))
    assert states(continuity, lambda: continuity.compacted(opening)) == [State.COMPACTION, State.WHOLE]
    continuity.delivered(MessageId(7, 5))
    assert continuity.goes_on(MessageId(7, 6))


def test_an_initial_replay_whose_end_a_compaction_moved_continues_to_the_new_end() -> None:
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


def test_the_horizon_of_the_openings_compaction_is_requested_again_before_a_gap_loses_the_log() -> None:
    opening = Compaction(30, MessageId(7, 4))  # its ledger is already reported, but the horizon is still that of the previous compaction
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


def test_a_gap_is_examined_as_usual_if_the_openings_compaction_went_no_further() -> None:
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


def test_a_compaction_after_reading_passed_the_openings_horizon_does_not_move_complete_after() -> None:
    continuity = Continuity(Compaction(20, MessageId(7, 4)))
    continuity.come_to(MessageId(7, 5))
    continuity.compacted(Compaction(20, MessageId(7, 4)))
    for entry in (5, 6, 7):
        continuity.delivered(MessageId(7, entry))
    border, later = continuity.complete_after, Compaction(30, MessageId(7, 9))
    continuity.come_to(MessageId(7, 10))  # 8 and 9 were erased
    answers = [lambda: continuity.compacted(later), lambda: continuity.compacted(later)]
    assert states(continuity, *answers) == [State.COMPACTION, State.SETTLING, State.ERASED]
    assert continuity.stretch == (MessageId(7, 7), MessageId(7, 10)), "the erased entries are read from the ledgers"
    assert continuity.complete_after == border
    continuity.not_recalled()
    with pytest.raises(LogError, match="was compacted"):
        continuity.not_recalled()


def behind_a_gap(known: set[MessageId]) -> tuple[Continuity, Compaction]:
    """Returns the state at a gap of a topic that was never compacted: entry 2 comes first, and the entries before it can't be read."""
    opening = Compaction(-1, MessageId(7, -1))
    continuity = Continuity(opening, known)
    continuity.come_to(MessageId(7, 2))
    assert states(continuity, lambda: continuity.compacted(opening), continuity.not_recalled) == [
        State.COMPACTION,
        State.GAP,
        State.MESSAGES,
    ]
    return continuity, opening


def test_a_message_that_is_not_handed_over_at_two_openings_is_delivered_as_unreadable() -> None:
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
    assert known == set(), "the message was handed over after all"


def test_messages_not_handed_over_are_forgotten_once_compaction_has_gone_beyond_them() -> None:
    known = {MessageId(7, 1), MessageId(7, 3), MessageId(8, 0)}
    Continuity(Compaction(-1, MessageId(7, -1)), known)
    assert len(known) == 3
    Continuity(Compaction(20, None), known)
    assert len(known) == 3, "the horizon is not known"
    Continuity(Compaction(20, MessageId(7, 3)), known)
    assert known == {MessageId(8, 0)}
    Continuity(Compaction(30, MessageId(9, -1)), known)
    assert known == set()


def test_a_compaction_while_messages_are_looked_for_invalidates_the_answer() -> None:
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
