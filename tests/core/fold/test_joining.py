"""Sidecars that start to read in the middle: what they take as the head, which writer they believe, and that a guess stays one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.core.fold.script import CLUSTERS, KEY, RATE, SIZE, SUB_A, TTL, Script, Seen, change, join
from topicpolicies_server.core.fold.fold import FoldContext, Status, fold, restatement
from topicpolicies_server.core.policies import events
from topicpolicies_server.core.policies.documents import WHOLE, digest, whole_digest
from topicpolicies_server.core.policies.events import ABSENT, Action, Event, Remembered, StampKind

W = 30_000


def both(first: Script, second: Script, event: Event, *, wait: int = 1) -> None:
    """Appends an event that both read."""
    second.now = first.now
    first.put(event, wait=wait)
    second.put(event, wait=wait)


def agree(one: Script, other: Script) -> bool:
    """Returns whether two have the same head."""
    return (one.document, one.version) == (other.document, other.version)


def exchange_repairs(full: Script, joined: Script) -> None:
    """Appends the repair of a newcomer that has learned nothing, and the answer to it of who has seen all, and checks that they agree."""
    assert joined.due()
    both(full, joined, restatement(KEY, joined.state, "the newcomer's"))
    assert full.due()
    both(full, joined, restatement(KEY, full.state, "the answer"))
    assert agree(joined, full)


def undone() -> Script:
    """Returns a log in which a stale document undid a setting, and no repair has come yet."""
    full = Script()
    full.update({TTL: b"1"})
    full.broker({RATE: b"2"}, on={})
    assert full.document == {TTL: b"1", RATE: b"2"} and full.due()
    return full


# -- the first event that is seen ----------------------------------------------------------------------------------------


FIRST: dict[str, tuple[bool, list[Callable[[Script], object]]]] = {
    "an update that makes the document": (False, [lambda log: log.update({TTL: b"1"})]),
    "an update": (False, [lambda log: log.broker({TTL: b"1"}), lambda log: log.update({RATE: b"2"}, reads={TTL: digest(b"1")})]),
    "a deletion": (True, [lambda log: log.update({TTL: b"1"}), Script.delete]),
    "a repair": (False, [lambda log: log.update({TTL: b"1"}), lambda log: log.update({RATE: b"2"}, on=Seen(None, "")), Script.restate]),
    "a tombstone": (False, [lambda log: log.update({TTL: b"1"}), Script.delete, Script.restate]),
    "a broker's document": (False, [lambda log: log.broker({TTL: b"1"}), lambda log: log.broker({RATE: b"2"})]),
}
"""By the newest event of a log: whether a repair is due after it, and what was written."""


@pytest.mark.parametrize("newest", FIRST)
def test_the_head_that_a_first_event_tells_is_taken(newest: str) -> None:
    due, steps = FIRST[newest]
    full = Script()
    for step in steps:
        step(full)
    joined = join(full, last=1)
    assert agree(joined, full) and joined.state.repair_due is due
    assert newest != "an update" or joined.state.head_event == full.state.head_event


def test_the_remembered_requests_of_a_first_event_are_taken_over() -> None:
    full = Script()
    first = full.update({TTL: b"1"}, request_id="one")
    full.update({RATE: b"2"}, request_id="two", remembered=full.state.remembered)
    joined = join(full, last=1)
    assert joined.state.remembers("one") == ("one", "digest", first.version, ABSENT)
    joined.update({TTL: b"1"}, request_id="one")
    assert joined.document == {TTL: b"1", RATE: b"2"}


def test_the_previous_version_of_a_first_operation_is_unknown() -> None:
    full = Script()
    full.update({TTL: b"1"})
    full.update({TTL: b"2"}, request_id="two")
    joined = join(full, last=1)
    assert joined.state.remembers("two") == ("two", "digest", "000002", "")


def test_an_event_of_the_action_none_is_no_first_event() -> None:
    joined = Script(FoldContext(joining=True))
    joined.write({TTL: b"9"}, action=Action.NONE)
    joined.update({RATE: b"2"}, on=Seen({TTL: b"1"}, "000000x"))
    assert joined.document == {TTL: b"1", RATE: b"2"}


def test_in_the_log_of_a_sole_writer_no_document_is_unseen() -> None:
    script = Script(FoldContext(joining=True, sole_writer=True))
    script.update({RATE: b"2"}, on=Seen({TTL: b"1"}, "000000x"))
    assert script.document == {TTL: b"1", RATE: b"2"} and script.state.all_seen(script.now)
    assert script.state.history is None


def test_a_rejected_first_event_of_a_sole_writer_is_not_remembered_as_applied_after_its_next_event() -> None:
    sole = FoldContext(sole_writer=True)
    full = Script(sole)
    full.update({TTL: b"1"}, request_id="first")
    full.update({TTL: b"2"}, request_id="second", reads={TTL: digest(b"0")})
    again = full.update({TTL: b"2"}, request_id="second", remembered=full.state.remembered)
    full.update({RATE: b"3"}, request_id="third", remembered=full.state.remembered)
    joined = Script(sole._replace(joining=True))
    for placed in full.log[1:]:  # compaction keeps recent events, and the rejected one is the oldest of them
        fold(joined.state, placed, joined.context)
    assert agree(joined, full)
    assert joined.state.remembered == full.state.remembered
    repeated = joined.state.remembers("second")
    assert repeated is not None and repeated.version == again.version


def test_in_a_log_that_was_read_from_its_beginning_an_unknown_key_is_truly_absent() -> None:
    script = Script()
    script.update({RATE: b"2"}, on=Seen({TTL: b"1"}, "000000x"))
    assert script.document == {RATE: b"2"} and script.due()


# -- the writer that has seen more is believed ----------------------------------------------------------------------------


@pytest.mark.parametrize("late", [0, W - 1, W, 2 * W, 1_000 * W])
def test_a_repair_is_believed_however_late_it_comes(late: int) -> None:
    full = undone()
    joined = join(full, last=1)
    assert joined.document == {RATE: b"2"}
    both(full, joined, restatement(KEY, full.state, "repair"), wait=late)
    assert agree(joined, full) and not joined.due()


@pytest.mark.parametrize("late", [1, W, 1_000 * W])
def test_a_repair_that_a_newcomer_reads_right_after_the_stale_event_is_believed(late: int) -> None:
    full = undone()
    full.put(restatement(KEY, full.state, "repair"), wait=late)
    joined = join(full, last=2, late=1)
    assert agree(joined, full) and not joined.due()


@pytest.mark.parametrize("late", [1, W, 1_000 * W])
def test_a_newcomers_repair_is_not_believed_by_a_sidecar_that_has_seen_more(late: int) -> None:
    full = undone()
    joined = join(full, last=1)
    stale = full.event(None, Seen(None, ""))._replace(document={SIZE: b"9"}, stamp=None)
    both(full, joined, stale, wait=W // 2)  # computed from a document that the newcomer has not seen
    assert not agree(joined, full) and full.due()
    guess = restatement(KEY, joined.state, "guess")
    both(full, joined, guess, wait=late)
    assert full.document == {TTL: b"1", RATE: b"2", SIZE: b"9"} and full.due()
    both(full, joined, restatement(KEY, full.state, "repair"), wait=late)
    assert agree(joined, full) and not full.due() and not joined.due()


def test_of_two_newcomers_the_one_that_came_first_is_believed() -> None:
    full = undone()
    full.update({SUB_A: b"5"}, on=Seen({}, "old"))
    first = join(full, last=2)
    second = join(full, last=1)
    assert not agree(first, second)
    both(first, second, restatement(KEY, second.state, "second"))
    assert first.document == {RATE: b"2", SUB_A: b"5"} and first.due()
    both(first, second, restatement(KEY, first.state, "first"))
    assert agree(first, second) and second.state.since == first.state.since
    full.log = list(first.log)
    both(first, second, restatement(KEY, full.state, "full"))
    assert agree(first, full) and agree(second, full)


def test_a_newcomer_that_learned_from_a_repair_is_believed_like_the_writer_of_the_repair() -> None:
    full = undone()
    joined, other = join(full, last=1), join(full, last=1)
    other.update({SIZE: b"4"}, event_id="other's", request_id="other's")
    event = other.log[-1].event
    assert event is not None
    both(full, joined, event)
    both(full, joined, restatement(KEY, full.state, "repair"))
    assert joined.state.since == "" and joined.document == {TTL: b"1", RATE: b"2", SIZE: b"4"}
    other.put(restatement(KEY, joined.state, "again"))
    assert agree(other, full)


def test_a_guess_stays_a_guess_however_old_it_is() -> None:
    full = Script()
    full.update({TTL: b"1"})
    joined = join(full, late=100 * W)
    for _ in range(5):
        joined.update({TTL: b"2"}, wait=2 * W)
        assert joined.state.all_seen(joined.now + 2 * W)
        joined.state.trim(joined.now + 10 * W)
    assert joined.state.since == "000001"
    joined.claim({TTL: b"9"}, joined.version, since="")
    assert joined.document == {TTL: b"9"}


def test_events_that_the_writer_of_a_repair_had_not_seen_are_folded_again_on_top_of_the_repair() -> None:
    full = undone()
    late = restatement(KEY, full.state, "late")
    joined = join(full, last=1)
    for number in range(3):
        both(full, joined, full.event({SIZE: b"%d" % number}, Seen(None, "old"), mask=(SIZE,)))
    full.broker({SUB_A: b"7"})
    joined.write({SIZE: b"2", SUB_A: b"7"})
    both(full, joined, late)
    assert full.document == {TTL: b"1", RATE: b"2", SIZE: b"2", SUB_A: b"7"}
    assert agree(joined, full)
    assert [request.request_id for request in joined.state.remembered] == [request.request_id for request in full.state.remembered]


def test_a_brokers_change_of_a_deleted_document_creates_none_when_it_is_folded_again() -> None:
    full = undone()
    late = restatement(KEY, full.state, "late")
    joined = join(full, last=1)
    for script in (full, joined):
        script.broker({SIZE: b"3"})
        script.write(None)
        script.write({SIZE: b"3"})  # clears the ttl, by a broker that had not seen the deletion
    both(full, joined, late)
    assert agree(joined, full) and full.document == joined.document


def test_a_rejected_first_event_is_corrected_by_its_repair_although_the_version_goes_back() -> None:
    full = Script()
    full.update({TTL: b"1"})
    full.update({TTL: b"2"}, etag="000000")
    joined = join(full, last=1)
    assert joined.version > full.version
    both(full, joined, restatement(KEY, full.state, "repair"), wait=3 * W)
    assert agree(joined, full)


def test_an_event_that_was_rejected_because_of_a_guess_is_judged_again_after_the_repair() -> None:
    full = Script()
    full.update({TTL: b"1"})
    version = full.version
    full.update({TTL: b"2"}, etag="000000")
    repair = restatement(KEY, full.state, "repair")
    joined = join(full, last=1)
    both(full, joined, full.event({TTL: b"3"}, Seen({TTL: b"1"}, version), mask=(TTL,), etag=version))
    assert full.document == {TTL: b"3"} and joined.document == {TTL: b"2"}
    both(full, joined, repair)
    assert joined.document == {TTL: b"3"} and agree(joined, full)


def test_a_repair_from_before_events_that_were_dropped_is_not_believed_but_the_next_one_is() -> None:
    full = undone()
    late = restatement(KEY, full.state, "late")
    joined = join(full, last=1)
    event = full.event({SIZE: b"3"}, Seen({}, "old"), mask=(SIZE,))
    both(full, joined, event)
    joined.state.trim(joined.now + 3 * W)
    before = joined.document
    both(full, joined, late, wait=3 * W)
    assert joined.document == before and full.due()
    both(full, joined, restatement(KEY, full.state, "next"))
    assert agree(joined, full)


def test_the_whole_document_of_an_operation_whose_writer_has_seen_more_is_taken() -> None:
    full = Script()
    full.update({TTL: b"1"})
    full.broker({RATE: b"2"}, on={})
    joined = join(full, last=1)
    assert joined.document == {RATE: b"2"}
    event = full.event({TTL: b"1", RATE: b"3"}, full.seen(), mask=(RATE,), reads={TTL: digest(b"1")}, history=full.state.history)
    both(full, joined, event, wait=2 * W)
    assert agree(joined, full) and joined.document == {TTL: b"1", RATE: b"3"} and joined.state.since == ""


def test_after_a_first_event_on_one_that_never_came_the_repair_of_a_guess_is_answered_by_one_of_who_knows_more() -> None:
    full = Script()
    full.update({TTL: b"1", RATE: b"2"})
    known, applied = full.state.history, full.state.remembered
    lost = Remembered("lost", "digest", "", "")  # a deletion
    first = full.event({SIZE: b"3"}, Seen(None, "lost-event"), mask=(SIZE,), history=known, remembered=(*applied, lost))
    full.put(first)
    joined = join(full, last=1)
    assert full.document == {TTL: b"1", RATE: b"2", SIZE: b"3"} and full.due() and joined.document == {SIZE: b"3"}
    assert first.stamp is not None
    waiting = (*applied, Remembered(first.stamp.request_id, "digest", "", ""))
    on_first, document = Seen(None, first.stamp.event_id), {TTL: b"1", RATE: b"2", SIZE: b"3", CLUSTERS: b"4"}
    both(full, joined, full.event(document, on_first, mask=(CLUSTERS,), history=known, remembered=waiting))
    assert joined.document == {SIZE: b"3", CLUSTERS: b"4"} and not agree(joined, full)
    assert joined.due() and not full.due(), "what is in the log is right, and the newcomer does not know it"
    both(full, joined, restatement(KEY, joined.state, "guess"))
    assert full.document == {TTL: b"1", RATE: b"2", SIZE: b"3", CLUSTERS: b"4"} and full.due()
    both(full, joined, restatement(KEY, full.state, "right"))
    assert agree(joined, full) and joined.state.since == "" and not joined.due()


def test_the_document_of_a_pipelined_operation_is_not_taken_if_its_predecessor_never_arrived() -> None:
    full = undone()
    joined = join(full, last=1)
    waiting = (Remembered("lost", "digest", "", ""),)
    on_top = Seen({TTL: b"9", SUB_A: b"4"}, "lost-event")
    event = full.event(on_top.document, on_top, mask=(SUB_A.replace("/", "."),), history=full.state.history, remembered=waiting)
    both(full, joined, event)
    assert joined.document == {RATE: b"2", SUB_A: b"4"} and full.document == {TTL: b"1", RATE: b"2", SUB_A: b"4"}


@pytest.mark.parametrize("behind", [0, 1])
def test_the_document_of_an_operation_is_not_taken_if_its_request_was_in_flight_before(behind: int) -> None:
    full = undone()
    joined = join(full, last=1)
    known, on = full.state.history, full.seen()
    full.broker({SUB_A: b"7"})
    joined.write({RATE: b"2", SUB_A: b"7"})
    later = full.state.history
    waiting: tuple[Remembered, ...] = ()
    for request_id, values, seen in (
        ("one", {SIZE: b"3"}, known),
        ("two", {SIZE: b"4"}, known),
        ("one", {SIZE: b"3"}, later if not behind else known),  # its first caller gave up
        ("three", {RATE: b"5"}, later),
    )[: 3 + behind]:
        document = {**(on.document or {}), **values, SUB_A: b"7"}
        event = full.event(document, on, mask=tuple(values), history=seen, request_id=request_id, remembered=waiting)
        assert event.stamp is not None
        both(full, joined, event)
        on, waiting = Seen(document, event.stamp.event_id), (*waiting, Remembered(request_id, "digest", "", ""))
    assert full.document == {TTL: b"1", RATE: b"5" if behind else b"2", SIZE: b"4", SUB_A: b"7"}
    assert joined.document == {RATE: b"5" if behind else b"2", SIZE: b"4", SUB_A: b"7"} and joined.version == full.version
    remembered = [request.request_id for request in joined.state.remembered]
    assert remembered == [request.request_id for request in full.state.remembered[-2 - behind :]]


def test_a_first_event_whose_request_was_in_flight_before_is_remembered_once() -> None:
    full = undone()
    on, waiting = full.seen(), (Remembered("one", "digest", "", ""), Remembered("two", "digest", "", ""))
    full.update({SIZE: b"3"}, request_id="one")
    full.update({SIZE: b"4"}, request_id="two", on=Seen({**(on.document or {}), SIZE: b"3"}, "event-one"), remembered=waiting[:1])
    full.update({SIZE: b"3"}, request_id="one", on=Seen({**(on.document or {}), SIZE: b"4"}, "event-two"), remembered=waiting)
    joined = join(full, last=1)
    assert [request.request_id for request in joined.state.remembered] == ["two", "one"]


def test_an_operation_whose_writer_has_seen_less_changes_only_masked_settings() -> None:
    full = undone()
    full.update({SIZE: b"4"}, on=Seen({RATE: b"2"}, full.version), history=events.Seen("000002", "000002"))
    assert full.document == {TTL: b"1", RATE: b"2", SIZE: b"4"} and full.due()


def test_a_repair_without_what_its_writer_had_seen_is_believed_only_as_a_first_event() -> None:
    full = undone()
    repair = restatement(KEY, full.state, "repair")
    assert repair.stamp is not None
    silent = repair._replace(stamp=repair.stamp._replace(history=None))
    joined = join(full, last=1)
    joined.put(silent)
    assert joined.document == {RATE: b"2"}
    first = Script(FoldContext(joining=True))
    first.put(silent)
    assert first.document == {TTL: b"1", RATE: b"2"}


@pytest.mark.parametrize("late", [0, W, 1_000 * W])
@pytest.mark.parametrize("followed", [False, True])
def test_after_a_guess_that_compaction_left_and_a_repair_that_was_on_its_way_repairs_bring_both_together(late: int, followed: bool) -> None:
    full = undone()
    guesser = join(full, last=1)
    repair = restatement(KEY, full.state, "repair")
    both(full, guesser, restatement(KEY, guesser.state, "guess"))
    if followed:
        full.broker({SIZE: b"3"}, wait=late)
    full.put(repair, wait=late)
    joined = join(full, last=3 if followed else 2, late=1)
    exchange_repairs(full, joined)
    assert joined.document == {TTL: b"1", RATE: b"2", **({SIZE: b"3"} if followed else {})}


def test_after_a_repair_that_compaction_left_a_guess_that_was_on_its_way_meanwhile_is_not_believed() -> None:
    full = undone()
    full.update({SUB_A: b"5"}, on=Seen({}, "old"))
    first, second = join(full, last=2), join(full, last=1)
    guess = restatement(KEY, second.state, "second")
    both(first, second, restatement(KEY, first.state, "first"))
    first.put(guess)
    joined = join(first, last=2, late=1)
    assert agree(joined, first) and joined.document == {RATE: b"2", SUB_A: b"5"}


def test_after_a_guess_whose_writer_had_seen_later_events_an_older_repair_is_not_believed() -> None:
    full = undone()
    guesser = join(full, last=1)
    repair = restatement(KEY, full.state, "repair")
    both(full, guesser, full.event({SIZE: b"4"}, Seen({RATE: b"2"}, "000002"), mask=(SIZE,)))
    full.put(restatement(KEY, guesser.state, "guess"))
    full.put(repair)
    joined = join(full, last=2, late=1)
    assert joined.document == {RATE: b"2", SIZE: b"4"}, "the repair lacks an event that the guess has"
    joined.put(restatement(KEY, full.state, "again"))
    assert agree(joined, full)


# -- an event that was not seen can't explain another one -----------------------------------------------------------------


def test_documents_may_be_unseen_for_w_after_the_first_event_that_was_seen() -> None:
    full = Script()
    full.update({TTL: b"1"})
    joined = join(full)
    assert not joined.state.all_seen(full.now + W - 1)
    assert joined.state.all_seen(full.now + W)


def test_no_document_of_an_old_key_is_unseen_as_soon_as_the_log_is_read() -> None:
    full = Script()
    full.update({TTL: b"1"})
    joined = join(full, late=W)
    assert joined.state.all_seen(full.now + W)


@pytest.mark.parametrize("wait", [100, 999])
def test_the_document_that_brokers_showed_before_a_first_event_is_not_assumed_to_be_none(wait: int) -> None:
    """Otherwise a removal looks like an old document from before anything was set, and is undone."""
    full = Script(FoldContext(in_place=True))
    full.broker({TTL: b"1", SIZE: b"1"})
    full.broker({TTL: b"3"}, wait=2_000)
    full.broker({SIZE: b"3"}, on={TTL: b"1", SIZE: b"1"}, wait=20)
    full.restate()
    joined = join(full, last=1)
    both(full, joined, full.event(None, Seen(None, ""))._replace(document={TTL: b"4"}, stamp=None), wait=wait)
    assert agree(joined, full) and not joined.due()


def test_a_guess_is_repaired_at_once_if_a_later_change_was_undone() -> None:
    full = Script()
    full.broker({TTL: b"1"})
    joined = join(full)
    joined.broker({RATE: b"2"})
    joined.broker({SIZE: b"3"}, on={TTL: b"1"})
    assert joined.document == {TTL: b"1", RATE: b"2", SIZE: b"3"} and joined.due()


@pytest.mark.parametrize(("wait", "own"), [(1, True), (2 * W, False)])
def test_a_head_taken_from_a_repair_is_a_guess_again_after_an_unexplained_event_within_the_window(wait: int, own: bool) -> None:
    full = undone()
    joined = join(full, last=1)
    both(full, joined, restatement(KEY, full.state, "repair"))
    assert joined.state.since == ""
    joined.write({SUB_A: b"5", SIZE: b"6"}, wait=wait)
    assert joined.state.since == ("000002" if own else "")


def test_a_head_taken_from_a_repair_is_no_guess_after_an_explained_event() -> None:
    full = undone()
    joined = join(full, last=1)
    both(full, joined, restatement(KEY, full.state, "repair"))
    joined.broker({SIZE: b"6"})
    assert joined.state.since == "" and joined.document == {TTL: b"1", RATE: b"2", SIZE: b"6"}


def test_a_key_that_compaction_forgot_too_early_gets_its_document_back_from_the_next_event() -> None:
    full = Script()
    full.update({TTL: b"1"})
    full.delete()
    tombstone = restatement(KEY, full.state, "tombstone")
    full.update({RATE: b"2"})
    full.put(tombstone)  # compaction now forgets the key
    assert full.document == {RATE: b"2"} and full.due()
    for event in (restatement(KEY, full.state, "repair"), full.event({RATE: b"2", SIZE: b"3"}, full.seen(), mask=(SIZE,))):
        for wait in (1, 100 * W):
            joined = Script(FoldContext(joined_at=full.now))
            joined.log, joined.now = list(full.log), full.now
            other = Script(state=full.state)
            other.log, other.now = list(full.log), full.now
            joined.put(event, wait=wait)
            assert joined.document == event.document


def test_a_document_from_before_an_erased_deletion_brings_nothing_back_as_long_as_some_sidecar_knows_the_deletion() -> None:
    full = Script()
    full.broker({TTL: b"1"})
    old = full.shown()
    full.write(None)  # compaction now forgets the key
    joined = Script(FoldContext(joined_at=full.now))
    joined.log = list(full.log)
    both(full, joined, Event(KEY, Action.UPDATE, change(old, {RATE: b"2"})))
    assert full.document == {RATE: b"2"} and full.due()
    assert joined.document == {TTL: b"1", RATE: b"2"} and not joined.due(), "nothing in the log tells it of the deletion"
    both(full, joined, restatement(KEY, full.state, "repair"))
    assert agree(full, joined) and joined.document == {RATE: b"2"}


def test_a_key_that_is_new_after_joining_has_the_same_head_for_all_readers() -> None:
    script, late = Script(FoldContext(joined_at=1_000_000)), Script(FoldContext(joined_at=0))
    for one in (script, late):
        one.update({TTL: b"1"})
    assert script.state.since == late.state.since == "000001" and agree(script, late)
    assert not script.state.all_seen(script.now) and late.state.all_seen(late.now)


def test_remembered_requests_are_completed_by_a_restatement() -> None:
    joined = Script(FoldContext(joining=True, joined_at=1_000_000))
    joined.update({TTL: b"1"}, on=Seen({}, "old"), request_id="mine")
    earlier = Remembered("earlier", "digest", "000000", "")
    mine = joined.state.remembered[-1]._replace(previous="000000")
    joined.claim({TTL: b"1", RATE: b"1"}, joined.version, since="", remembered=(earlier, mine))
    assert joined.state.remembers("earlier") == earlier and joined.state.remembers("mine") == mine


def test_a_request_wrongly_taken_as_applied_is_dropped_after_a_restatement_by_a_writer_that_saw_more() -> None:
    joined = Script(FoldContext(joining=True, joined_at=1_000_000))
    joined.update({TTL: b"1"}, on=Seen({}, "old"), request_id="rejected", etag="old")
    joined.claim({RATE: b"1"}, "000000", since="")
    assert joined.state.remembers("rejected") is None
    joined.update({TTL: b"1"}, request_id="rejected")
    assert joined.document == {TTL: b"1", RATE: b"1"}


# -- other clusters -------------------------------------------------------------------------------------------------------


def test_the_etag_of_a_replicated_event_is_not_judged_again() -> None:
    script = Script()
    script.update({TTL: b"1"})
    event = script.event({TTL: b"2"}, Seen({TTL: b"1"}, "elsewhere"), mask=(TTL,), etag="elsewhere")
    assert script.put(event._replace(replicated=True)).status is Status.APPLIED


def test_a_replicated_event_is_judged_by_the_digest_of_the_document_that_its_etag_named() -> None:
    cases: list[tuple[dict[str, bytes | None], Status]] = [({TTL: b"1"}, Status.APPLIED), ({TTL: b"1", RATE: b"1"}, Status.REJECTED_READS)]
    for present, status in cases:
        for kind in (StampKind.UPDATE, StampKind.DELETE):
            script = Script()
            script.update(present)
            reads = {WHOLE: whole_digest({TTL: b"1"})}
            event = script.event({TTL: b"2"}, Seen({TTL: b"1"}, "elsewhere"), mask=(TTL,), etag="elsewhere", reads=reads, kind=kind)
            assert script.put(event._replace(replicated=True)).status is status


def test_a_cluster_to_which_changes_are_replicated_shows_the_same_and_comes_to_rest_by_repairs_of_its_own() -> None:
    one, other = Script(), Script()
    one.broker({TTL: b"1"})
    one.broker({RATE: b"2"}, on={})
    one.update({SUB_A: b"3"}, on=Seen(None, ""))
    for placed in list(one.log):
        assert placed.event is not None
        other.put(placed.event._replace(replicated=True))
    for script in (one, other):
        script.restate()
        assert not script.due() and script.shown() == script.document == {TTL: b"1", RATE: b"2", SUB_A: b"3"}


def test_a_replicated_restatement_changes_no_head() -> None:
    script = Script()
    script.update({TTL: b"1"})
    script.state.since = "000001"
    folded = script.claim({TTL: b"9"}, "999999", since="", replicated=True)
    assert folded.status is Status.RESTATED and not folded.changed and script.document == {TTL: b"1"} and script.due()


def test_what_a_writer_had_seen_of_another_log_does_not_count_in_this_one() -> None:
    full = undone()
    joined = join(full, last=1)
    event = full.event({SIZE: b"3"}, Seen({}, "elsewhere"), mask=(SIZE,), history=events.Seen("", "999999"))
    joined.put(event._replace(replicated=True))
    assert joined.document == {RATE: b"2", SIZE: b"3"} and joined.state.since == "000002"


def test_requests_remembered_by_a_replicated_event_have_no_versions() -> None:
    script = Script(FoldContext(joining=True))
    event = script.event({TTL: b"2"}, Seen({}, "elsewhere"), mask=(TTL,), remembered=(Remembered("r", "d", "77", "66"),))
    script.put(event._replace(replicated=True))
    assert script.state.remembers("r") == ("r", "d", "", "")


@pytest.mark.parametrize("last", [1, 5, 40])
def test_a_newcomer_at_rest_has_the_head_and_the_requests_of_a_full_reader(last: int) -> None:
    full = Script()
    for number in range(last):
        seen = full.seen()
        full.update({TTL: b"%d" % number}, on=seen)
        full.broker({RATE: b"%d" % number}, on=seen.document or {})
    while full.due():
        full.restate()
    joined = join(full, last=1)
    assert agree(joined, full)
    assert joined.state.remembered == full.state.remembered
