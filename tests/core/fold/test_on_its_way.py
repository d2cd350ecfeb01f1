"""Events that were in flight for long: their writers had seen a key's history from its beginning, but not what a newcomer has learned.

Each newcomer is compared with a reader of the whole log (``full``), which is right.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.fold.script import KEY, RATE, SIZE, SUB_A, SUB_B, TTL, Script, Seen, join
from tests.core.fold.test_joining import W, agree, both, exchange_repairs, undone
from topicpolicies_server.core.fold.fold import FoldContext, Status, restatement
from topicpolicies_server.core.policies import events
from topicpolicies_server.core.policies.documents import digest
from topicpolicies_server.core.policies.events import Event, Remembered, StampKind


def overtaken() -> tuple[Script, Event, Event]:
    """Returns a log whose newest event restates its head, and an operation and a repair that were computed before the last change."""
    full = Script()
    full.update({TTL: b"1"})
    operation = full.event({TTL: b"1", SIZE: b"9"}, full.seen(), mask=(SIZE,), history=full.state.history)
    repair = restatement(KEY, full.state, "late")
    full.broker({RATE: b"2"})
    full.put(restatement(KEY, full.state, "repair"))
    return full, operation, repair


def test_an_overtaken_operation_undoes_nothing_that_a_newcomer_has_learned() -> None:
    full, operation, _ = overtaken()
    joined = join(full, last=1)
    both(full, joined, operation)
    assert joined.document == full.document == {TTL: b"1", RATE: b"2", SIZE: b"9"}


def test_an_overtaken_repair_undoes_nothing_that_a_newcomer_has_learned() -> None:
    full, _, repair = overtaken()
    joined = join(full, last=1)
    both(full, joined, repair)
    assert joined.document == full.document == {TTL: b"1", RATE: b"2"}
    both(full, joined, restatement(KEY, full.state, "next"))
    assert agree(joined, full) and not joined.due() and not full.due()


def test_a_key_whose_history_has_a_gap_is_not_known_from_its_beginning() -> None:
    for idle in (False, True):
        full = Script()
        full.update({TTL: b"1"})
        one, copy = restatement(KEY, full.state, "one"), restatement(KEY, full.state, "copy")
        full.broker({SIZE: b"2"})
        full.put(one)
        joined = join(full, last=1, late=3 * W)
        assert joined.state.all_seen(joined.now)
        if idle:
            joined.state.trim(joined.now)
        both(full, joined, copy)
        assert not agree(joined, full)
        assert joined.state.since == "000003"


def test_a_key_with_a_gap_that_appeared_long_after_joining_is_not_known_from_its_beginning() -> None:
    full = Script()
    full.update({TTL: b"1"})
    known = full.state.history
    first = full.event({TTL: b"1", RATE: b"2"}, full.seen(), mask=(RATE,), history=known)
    assert first.stamp is not None
    waiting = (*full.state.remembered, Remembered(first.stamp.request_id, "digest", "", ""))
    on_top = Seen(first.document, first.stamp.event_id)
    second = full.event({TTL: b"1", RATE: b"2", SIZE: b"3"}, on_top, mask=(SIZE,), history=known, remembered=waiting)
    full.write(None)  # compaction forgets the key
    joined = Script(FoldContext(joined_at=full.now))
    joined.log = list(full.log)
    both(full, joined, first, wait=2 * W)
    both(full, joined, second)
    assert full.document == {RATE: b"2", SIZE: b"3"} and not agree(joined, full)
    assert joined.state.since == "000003"


def test_documents_count_as_unseen_for_longer_because_clocks_may_differ() -> None:
    full = undone()
    full.restate()
    joined = join(full, last=1)
    joined.claim({TTL: b"1", RATE: b"2"}, joined.version, since="")
    assert joined.state.since == "" and joined.state.all_seen(joined.now + W)
    joined.write({SUB_A: b"5", SIZE: b"6"}, wait=W // 2)  # by a clock that is behind
    assert joined.state.since == "000003"


def test_a_replicated_event_stays_in_doubt_whatever_its_writer_had_seen_of_another_log() -> None:
    full = undone()
    joined = join(full, last=1)
    both(full, joined, restatement(KEY, full.state, "repair"))
    assert joined.state.since == ""
    event = full.event({SIZE: b"3"}, Seen({}, "elsewhere"), mask=(SIZE,), history=events.Seen("", "999999"))
    joined.put(event._replace(replicated=True))
    assert joined.state.since == "000002"


def test_a_newcomers_repair_does_not_make_a_request_applied_that_never_arrived() -> None:
    full = Script()
    full.update({TTL: b"0"})
    known = full.state.history
    lost = full.event({TTL: b"1"}, full.seen(), mask=(TTL,), request_id="lost", history=known)
    assert lost.stamp is not None
    waiting = (*full.state.remembered, Remembered("lost", "digest", "", ""))
    full.put(full.event({TTL: b"2"}, Seen({TTL: b"1"}, lost.stamp.event_id), mask=(TTL,), remembered=waiting, history=known))
    joined = join(full, last=1)
    assert agree(full, joined) and joined.state.remembers("lost") is not None
    both(full, joined, restatement(KEY, joined.state, "guess"))
    assert full.state.remembers("lost") is None
    full.put(lost)  # its writer appends it again
    assert full.document == {TTL: b"1"}


def test_a_request_that_never_arrived_counts_for_a_newcomer_too_when_it_is_repeated_after_a_deletion() -> None:
    full = Script(FoldContext(joined_at=1_000_000))
    lost = full.event({TTL: b"1"}, full.seen(), mask=(TTL,), request_id="lost")
    assert lost.stamp is not None
    full.delete(on=Seen({TTL: b"1"}, lost.stamp.event_id), remembered=(Remembered("lost", "digest", "", ""),))
    joined = join(full, last=1)
    assert full.gone() and joined.gone() and full.state.since == joined.state.since == "000001"
    both(full, joined, full.event({TTL: b"1"}, full.seen(), mask=(TTL,), request_id="lost", history=full.state.history))
    assert agree(joined, full) and joined.document == {TTL: b"1"}


def test_a_request_that_is_folded_again_is_not_taken_for_its_own_repeat() -> None:
    teacher = Script(FoldContext(joining=True, joined_at=1_000_000))
    teacher.update({TTL: b"0"}, on=Seen({}, "gone"), remembered=(Remembered("again", "digest", "", ""),))
    teacher.update({TTL: b"1"}, remembered=teacher.state.remembered)
    teacher.broker({SIZE: b"2"}, on={TTL: b"0"})
    joined = join(teacher, last=1)
    late = restatement(KEY, teacher.state, "late")
    both(teacher, joined, teacher.event({TTL: b"1", SIZE: b"2", RATE: b"3"}, teacher.seen(), mask=(RATE,), request_id="again"))
    assert teacher.document == {TTL: b"1", SIZE: b"2", RATE: b"3"} and joined.document == {TTL: b"0", SIZE: b"2", RATE: b"3"}
    both(teacher, joined, late)
    assert agree(joined, teacher)


def test_a_document_that_rests_on_an_event_that_never_came_is_not_believed() -> None:
    full = Script()
    full.update({TTL: b"1"})
    lost = Remembered("lost", "digest", "", "")
    document = {TTL: b"1", SIZE: b"9", RATE: b"2"}  # the size is that of the lost event
    carried = (*full.state.remembered, lost)
    first = full.event(document, Seen(None, "lost-event"), mask=(RATE,), request_id="first", remembered=carried)
    assert first.stamp is not None and full.put(first).status is Status.APPLIED
    joined, known = join(full, last=1), full.state.history
    document = {**document, SUB_A: b"3"}
    carried = (*carried, Remembered("first", "digest", "", ""))
    on_first = Seen(None, first.stamp.event_id)
    second = full.event(document, on_first, mask=(SUB_A.replace("/", "."),), request_id="second", remembered=carried)
    assert second.stamp is not None
    carried = (*full.state.remembered, lost, Remembered("second", "digest", "", ""))
    on_second = Seen(None, second.stamp.event_id)
    mask = (SUB_B.replace("/", "."),)
    third = full.event({**document, SUB_B: b"4"}, on_second, mask=mask, history=known, remembered=carried)
    both(full, joined, second)
    both(full, joined, third)
    assert full.document == {TTL: b"1", RATE: b"2", SUB_A: b"3", SUB_B: b"4"}
    assert joined.state.since == "000002"
    both(full, joined, restatement(KEY, full.state, "repair"))
    assert agree(joined, full) and joined.state.since == ""


@pytest.mark.parametrize("told", [True, False], ids=["it carries that request", "it carries too many others"])
def test_a_document_that_rests_on_a_repeat_of_an_applied_request_is_not_believed(told: bool) -> None:
    full = Script()
    full.update({TTL: b"1"})
    repeat = full.event({TTL: b"1", RATE: b"5"}, full.seen(), mask=(RATE,), request_id="again", history=full.state.history)
    assert repeat.stamp is not None
    full.update({RATE: b"5"}, request_id="again")
    full.broker({RATE: b"6"})
    joined = join(full, last=1 if told else 2)  # at the broker's event, or at that request
    since = joined.state.since
    carried = (*(full.state.remembered if told else ()), Remembered("again", "digest", "", ""))
    document = {TTL: b"1", RATE: b"5", SIZE: b"7"}  # as if the repeat counted
    on_repeat = Seen(None, repeat.stamp.event_id)
    operation = full.event(document, on_repeat, mask=(SIZE,), history=full.state.history, remembered=carried)
    both(full, joined, repeat)
    both(full, joined, operation)
    assert full.document == {TTL: b"1", RATE: b"6", SIZE: b"7"}
    assert joined.state.since == since != ""
    both(full, joined, restatement(KEY, full.state, "repair"))
    assert agree(joined, full) and joined.state.since == ""


def test_a_request_wrongly_taken_for_a_repeat_is_folded_again_after_a_restatement_of_the_same_absence() -> None:
    full = Script()
    full.update({TTL: b"1"})
    waiting = (*full.state.remembered, Remembered("again", "digest", "", ""))
    full.update({TTL: b"2"}, on=Seen({TTL: b"1"}, "lost-event"), remembered=waiting)
    joined = join(full, last=1)
    repeat = full.event({TTL: b"1", SIZE: b"3"}, Seen(None, "000001"), mask=(SIZE,), request_id="again")
    both(full, joined, full.event({}, full.seen(), kind=StampKind.DELETE))
    late = restatement(KEY, full.state, "late")
    both(full, joined, repeat)
    assert full.document == {SIZE: b"3"} and joined.gone()
    both(full, joined, late)
    assert agree(joined, full) and joined.state.remembered == full.state.remembered


def test_a_restatement_of_the_same_absence_tells_that_a_request_was_rejected() -> None:
    full = Script()
    full.update({TTL: b"1"})
    full.update({TTL: b"2"}, etag="000000", request_id="rejected")
    joined = join(full, last=1)
    both(full, joined, full.event({}, full.seen(), kind=StampKind.DELETE))
    both(full, joined, restatement(KEY, full.state, "repair"))
    assert joined.gone() and joined.state.since == ""
    assert joined.state.remembers("rejected") is None
    assert joined.state.remembered == full.state.remembered


@pytest.mark.parametrize("condition", [{"etag": "000001"}, {"reads": {RATE: digest(None)}}], ids=["a version", "a setting"])
def test_after_a_rejected_operation_that_compaction_left_and_a_repair_that_was_on_its_way_repairs_bring_both_together(
    condition: dict[str, Any],
) -> None:
    full = Script()
    full.update({TTL: b"1"})
    operation = full.event({TTL: b"1", RATE: b"9"}, full.seen(), mask=(RATE,), history=full.state.history, **condition)
    full.broker({RATE: b"2"}, on={TTL: b"1"})
    older = restatement(KEY, full.state, "older")
    full.broker({SIZE: b"3"}, on={TTL: b"1"})
    repair = restatement(KEY, full.state, "repair")
    assert full.put(operation).status in (Status.REJECTED_ETAG, Status.REJECTED_READS)
    joined = join(full, last=1)
    both(full, joined, repair)
    exchange_repairs(full, joined)
    assert joined.document == {TTL: b"1", RATE: b"2", SIZE: b"3"}
    assert not joined.due() and not full.due()
    both(full, joined, older)
    assert agree(joined, full)


def test_an_operation_that_counted_is_kept_after_a_repair_that_was_on_its_way() -> None:
    full = Script()
    full.update({TTL: b"1"})
    operation = full.event({TTL: b"1", SIZE: b"9"}, full.seen(), mask=(SIZE,), history=full.state.history)
    full.broker({RATE: b"2"}, on={})
    repair = restatement(KEY, full.state, "repair")
    full.put(operation)
    joined = join(full, last=1)
    both(full, joined, repair)
    exchange_repairs(full, joined)
    assert joined.document == {TTL: b"1", RATE: b"2", SIZE: b"9"}


class Compared(str):
    """A position that counts how often it is compared."""

    __slots__ = ()
    times = 0

    def __lt__(self, other: str) -> bool:
        Compared.times += 1
        return str.__lt__(self, other)


def test_the_events_after_a_position_of_a_busy_key_are_found_with_few_comparisons() -> None:
    full = undone()
    joined = join(full, last=1)
    for number in range(1_000):
        joined.update({SIZE: b"%d" % number}, history=None)
    assert joined.state.joined is not None and len(joined.state.joined.trail) > 1_000
    Compared.times = 0
    joined.update({SIZE: b"9"}, history=events.Seen("", Compared("000900")))  # of a writer that has seen more, but was overtaken
    assert 0 < Compared.times < 30
    assert joined.document == {RATE: b"2", SIZE: b"9"} and joined.state.since == "000002"
