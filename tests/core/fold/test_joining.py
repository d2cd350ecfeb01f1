"""Sidecars that start to read in the middle: what they take for the head, whose word they take, and that time makes no knowledge."""

from __future__ import annotations

import pytest

from tests.core.fold.script import KEY, RATE, SIZE, SUB_A, TTL, Script, Seen, join
from topicpolicies_server.core.fold.fold import FoldContext, Status, check_all_seen, fold, restatement
from topicpolicies_server.core.policies import events
from topicpolicies_server.core.policies.documents import WHOLE, digest, whole_digest
from topicpolicies_server.core.policies.events import ABSENT, Action, Event, Remembered, StampKind

W = 30_000


def both(first: Script, second: Script, event: Event, *, wait: int = 1) -> None:
    """One event, read by two."""
    second.now = first.now
    first.put(event, wait=wait)
    second.put(event, wait=wait)


def agree(one: Script, other: Script) -> bool:
    """Whether two have the same head."""
    return (one.document, one.version) == (other.document, other.version)


def undone() -> Script:
    """A log in which a stale document undid a setting, and no repair has come yet."""
    full = Script()
    full.update({TTL: b"1"})
    full.broker({RATE: b"2"}, on={})
    assert full.document == {TTL: b"1", RATE: b"2"} and full.due()
    return full


# -- the first event that is seen ----------------------------------------------------------------------------------------


def test_an_operation_on_an_absent_document_is_taken_as_such() -> None:
    full = Script()
    full.update({TTL: b"1"})
    assert agree(join(full), full)


def test_of_any_other_operation_the_whole_document_is_taken() -> None:
    full = Script()
    full.update({TTL: b"1"})
    full.update({RATE: b"2"}, etag=full.version, reads={TTL: digest(b"1")})
    joined = join(full, last=1)
    assert agree(joined, full)
    assert joined.state.head_event == full.state.head_event


def test_what_is_remembered_travels_in_the_event() -> None:
    full = Script()
    first = full.update({TTL: b"1"}, request_id="one")
    full.update({RATE: b"2"}, request_id="two", remembered=full.state.remembered)
    joined = join(full, last=1)
    assert joined.state.remembers("one") == ("one", "digest", first.version, ABSENT)
    joined.update({TTL: b"1"}, request_id="one")
    assert joined.document == {TTL: b"1", RATE: b"2"}


def test_what_went_before_is_not_claimed_to_be_known() -> None:
    full = Script()
    full.update({TTL: b"1"})
    full.update({TTL: b"2"}, request_id="two")
    joined = join(full, last=1)
    assert joined.state.remembers("two") == ("two", "digest", "000002", "")


def test_a_deletion_is_taken_as_an_absence() -> None:
    full = Script()
    full.update({TTL: b"1"})
    full.delete()
    joined = join(full, last=1)
    assert joined.gone() and joined.version == full.version and joined.state.due


def test_a_repair_is_taken_for_the_head_that_it_restates() -> None:
    full = Script()
    old = full.seen()
    full.update({TTL: b"1"}, on=old)
    full.update({RATE: b"2"}, on=old)
    full.restate()
    joined = join(full, last=1)
    assert (joined.document, joined.version) == ({TTL: b"1", RATE: b"2"}, "000002") == (full.document, full.version)
    assert joined.state.remembered == full.state.remembered and not joined.state.due


def test_a_tombstone_is_taken_for_the_absence_that_it_restates() -> None:
    full = Script()
    full.update({TTL: b"1"})
    full.delete()
    full.restate()
    joined = join(full, last=1)
    assert joined.gone() and joined.version == "000002" and not joined.state.due


def test_a_brokers_document_is_taken_as_it_is() -> None:
    full = Script()
    full.broker({TTL: b"1"})
    full.broker({RATE: b"2"})
    joined = join(full, last=1)
    assert agree(joined, full) and not joined.state.due


def test_none_is_no_first_event() -> None:
    joined = Script(FoldContext(joining=True))
    joined.write({TTL: b"9"}, action=Action.NONE)
    joined.update({RATE: b"2"}, on=Seen({TTL: b"1"}, "000000x"))
    assert joined.document == {TTL: b"1", RATE: b"2"}


def test_where_nothing_else_was_written_nothing_may_be_missing() -> None:
    script = Script(FoldContext(joining=True, sole_writer=True))
    script.update({RATE: b"2"}, on=Seen({TTL: b"1"}, "000000x"))
    assert script.document == {TTL: b"1", RATE: b"2"} and check_all_seen(script.state, script.now)
    assert script.state.history is None


def test_what_a_sole_writer_had_refused_is_not_remembered_as_applied_once_it_has_spoken_again() -> None:
    sole = FoldContext(sole_writer=True)
    full = Script(sole)
    full.update({TTL: b"1"}, request_id="first")
    full.update({TTL: b"2"}, request_id="second", reads={TTL: digest(b"0")})
    again = full.update({TTL: b"2"}, request_id="second", remembered=full.state.remembered)
    full.update({RATE: b"3"}, request_id="third", remembered=full.state.remembered)
    joined = Script(sole._replace(joining=True))
    for placed in full.log[1:]:  # young events are kept, and the one that was refused is the oldest of them
        fold(joined.state, placed, joined.context)
    assert agree(joined, full)
    assert joined.state.remembered == full.state.remembered
    repeated = joined.state.remembers("second")
    assert repeated is not None and repeated.version == again.version


def test_in_a_log_that_was_read_from_its_beginning_an_unknown_key_is_truly_absent() -> None:
    script = Script()
    script.update({RATE: b"2"}, on=Seen({TTL: b"1"}, "000000x"))
    assert script.document == {RATE: b"2"} and script.due()


# -- who has seen more is believed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [0, W - 1, W, 2 * W, 1_000 * W])
def test_a_repair_is_believed_however_late_it_comes(late: int) -> None:
    full = undone()
    joined = join(full, last=1)
    assert joined.document == {RATE: b"2"}
    both(full, joined, restatement(KEY, full.state, "repair"), wait=late)
    assert agree(joined, full) and not joined.due()


@pytest.mark.parametrize("late", [1, W, 1_000 * W])
def test_a_repair_is_believed_that_a_newcomer_reads_behind_the_stale_event_in_one_go(late: int) -> None:
    full = undone()
    full.put(restatement(KEY, full.state, "repair"), wait=late)
    joined = join(full, last=2, late=1)
    assert agree(joined, full) and not joined.due()


@pytest.mark.parametrize("late", [1, W, 1_000 * W])
def test_a_newcomers_own_repair_is_not_believed_by_who_has_seen_more(late: int) -> None:
    full = undone()
    joined = join(full, last=1)
    stale = full.event(None, Seen(None, ""))._replace(document={SIZE: b"9"}, stamp=None)
    both(full, joined, stale, wait=W // 2)  # computed from what the newcomer has not seen
    assert not agree(joined, full) and full.due()
    guess = restatement(KEY, joined.state, "guess")
    both(full, joined, guess, wait=late)
    assert full.document == {TTL: b"1", RATE: b"2", SIZE: b"9"} and full.due()
    both(full, joined, restatement(KEY, full.state, "repair"), wait=late)
    assert agree(joined, full) and not full.due() and not joined.due()


def test_of_two_newcomers_the_one_who_came_first_is_believed() -> None:
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


def test_a_newcomer_that_was_told_tells_others_with_the_same_right() -> None:
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


def test_time_makes_no_knowledge_of_a_guess() -> None:
    full = Script()
    full.update({TTL: b"1"})
    joined = join(full, late=100 * W)
    for _ in range(5):
        joined.update({TTL: b"2"}, wait=2 * W)
        assert check_all_seen(joined.state, joined.now + 2 * W)
        joined.state.trim(joined.now + 10 * W)
    assert joined.state.since == "000001"
    joined.claim({TTL: b"9"}, joined.version, since="")
    assert joined.document == {TTL: b"9"}


def test_what_a_writer_had_not_seen_yet_is_folded_again_on_top_of_what_it_restates() -> None:
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


def test_a_brokers_change_of_a_document_that_is_gone_brings_none_into_being_when_it_is_folded_again() -> None:
    full = undone()
    late = restatement(KEY, full.state, "late")
    joined = join(full, last=1)
    for script in (full, joined):
        script.broker({SIZE: b"3"})
        script.write(None)
        script.write({SIZE: b"3"})  # ttl cleared, by somebody who had not seen that
    both(full, joined, late)
    assert agree(joined, full) and full.document == joined.document


def test_a_rejected_first_event_is_put_right_by_its_repair_although_the_version_goes_back() -> None:
    full = Script()
    full.update({TTL: b"1"})
    full.update({TTL: b"2"}, etag="000000")
    joined = join(full, last=1)
    assert joined.version > full.version
    both(full, joined, restatement(KEY, full.state, "repair"), wait=3 * W)
    assert agree(joined, full)


def test_a_rejected_event_among_what_was_seen_is_judged_again() -> None:
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


def test_a_repair_that_comes_too_late_to_be_told_apart_from_what_followed_is_left_to_the_next() -> None:
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


def test_an_operation_of_who_has_seen_more_brings_its_whole_document() -> None:
    full = Script()
    full.update({TTL: b"1"})
    full.broker({RATE: b"2"}, on={})
    joined = join(full, last=1)
    assert joined.document == {RATE: b"2"}
    event = full.event({TTL: b"1", RATE: b"3"}, full.seen(), mask=(RATE,), reads={TTL: digest(b"1")}, seen=full.state.history)
    both(full, joined, event, wait=2 * W)
    assert agree(joined, full) and joined.document == {TTL: b"1", RATE: b"3"} and joined.state.since == ""


def test_so_does_one_that_followed_others_of_its_writer_which_were_on_their_way() -> None:
    full = undone()
    joined = join(full, last=1)
    known = full.state.history
    first = full.event({TTL: b"1", RATE: b"2", SIZE: b"3"}, full.seen(), mask=(SIZE,), seen=known)
    assert first.stamp is not None
    waiting = (Remembered(first.stamp.request_id, "digest", "", ""),)
    on_top = Seen({**(first.document or {}), SUB_A: b"4"}, first.stamp.event_id)
    second = full.event(on_top.document, on_top, mask=(SUB_A.replace("/", "."),), seen=known, remembered=waiting)
    joined.state.since = "000002"
    both(full, joined, first._replace(stamp=first.stamp._replace(seen=None)))
    assert not agree(joined, full)
    both(full, joined, second)
    assert agree(joined, full) and joined.state.since == ""


def test_but_not_one_whose_predecessor_never_came() -> None:
    full = undone()
    joined = join(full, last=1)
    waiting = (Remembered("lost", "digest", "", ""),)
    on_top = Seen({TTL: b"9", SUB_A: b"4"}, "lost-event")
    event = full.event(on_top.document, on_top, mask=(SUB_A.replace("/", "."),), seen=full.state.history, remembered=waiting)
    both(full, joined, event)
    assert joined.document == {RATE: b"2", SUB_A: b"4"} and full.document == {TTL: b"1", RATE: b"2", SUB_A: b"4"}


@pytest.mark.parametrize("behind", [0, 1])
def test_nor_one_whose_request_was_on_its_way_already_nor_what_followed_that(behind: int) -> None:
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
        event = full.event(document, on, mask=tuple(values), seen=seen, request_id=request_id, remembered=waiting)
        assert event.stamp is not None
        both(full, joined, event)
        on, waiting = Seen(document, event.stamp.event_id), (*waiting, Remembered(request_id, "digest", "", ""))
    assert full.document == {TTL: b"1", RATE: b"5" if behind else b"2", SIZE: b"4", SUB_A: b"7"}
    assert joined.document == {RATE: b"5" if behind else b"2", SIZE: b"4", SUB_A: b"7"} and joined.version == full.version
    remembered = [request.request_id for request in joined.state.remembered]
    assert remembered == [request.request_id for request in full.state.remembered[-2 - behind :]]


def test_a_first_event_whose_request_was_on_its_way_already_is_remembered_once() -> None:
    full = undone()
    on, waiting = full.seen(), (Remembered("one", "digest", "", ""), Remembered("two", "digest", "", ""))
    full.update({SIZE: b"3"}, request_id="one")
    full.update({SIZE: b"4"}, request_id="two", on=Seen({**(on.document or {}), SIZE: b"3"}, "event-one"), remembered=waiting[:1])
    full.update({SIZE: b"3"}, request_id="one", on=Seen({**(on.document or {}), SIZE: b"4"}, "event-two"), remembered=waiting)
    joined = join(full, last=1)
    assert [request.request_id for request in joined.state.remembered] == ["two", "one"]


def test_an_operation_of_who_has_seen_less_changes_what_it_names_and_nothing_else() -> None:
    full = undone()
    full.update({SIZE: b"4"}, on=Seen({RATE: b"2"}, full.version), seen=events.Seen("000002", "000002"))
    assert full.document == {TTL: b"1", RATE: b"2", SIZE: b"4"} and full.due()


def test_who_does_not_say_what_he_had_seen_is_not_believed_but_by_who_has_seen_nothing() -> None:
    full = undone()
    repair = restatement(KEY, full.state, "repair")
    assert repair.stamp is not None
    silent = repair._replace(stamp=repair.stamp._replace(seen=None))
    joined = join(full, last=1)
    joined.put(silent)
    assert joined.document == {RATE: b"2"}
    first = Script(FoldContext(joining=True))
    first.put(silent)
    assert first.document == {TTL: b"1", RATE: b"2"}


def test_a_restatement_older_than_one_that_was_believed_is_not() -> None:
    full = Script()
    full.update({TTL: b"1"})
    old = restatement(KEY, full.state, "old")
    full.update({RATE: b"2"})
    joined = join(full, last=1)
    newest = restatement(KEY, full.state, "newest")
    both(full, joined, newest)
    both(full, joined, old)
    assert agree(joined, full)


# -- what was not seen can't explain -------------------------------------------------------------------------------------


def test_something_may_be_missing_for_w_after_the_first_event_that_was_seen() -> None:
    full = Script()
    full.update({TTL: b"1"})
    joined = join(full)
    assert not check_all_seen(joined.state, full.now + W - 1)
    assert check_all_seen(joined.state, full.now + W)


def test_of_an_old_key_nothing_is_missing_as_soon_as_the_log_is_read() -> None:
    full = Script()
    full.update({TTL: b"1"})
    joined = join(full, late=W)
    assert check_all_seen(joined.state, full.now + W)


def test_what_came_soon_after_the_first_seen_event_of_an_old_key_is_understood() -> None:
    full = Script()
    full.update({TTL: b"1"})
    assert full.broker({RATE: b"2"}, on={}, wait=5).settings == (RATE,)
    joined = join(full, late=10 * W)
    assert agree(joined, full)


@pytest.mark.parametrize("wait", [100, 999])
def test_what_brokers_showed_before_a_first_event_that_goes_on_is_not_taken_for_nothing(wait: int) -> None:
    """Else a removal reads as the return of a time when nothing was set, and is taken back."""
    full = Script(FoldContext(in_place=True))
    full.broker({TTL: b"1", SIZE: b"1"})
    full.broker({TTL: b"3"}, wait=2_000)
    full.broker({SIZE: b"3"}, on={TTL: b"1", SIZE: b"1"}, wait=20)
    full.restate()
    joined = join(full, last=1)
    both(full, joined, full.event(None, Seen(None, ""))._replace(document={TTL: b"4"}, stamp=None), wait=wait)
    assert agree(joined, full) and not joined.due()


def test_a_guess_is_repaired_at_once_where_a_change_that_came_later_was_undone() -> None:
    full = Script()
    full.broker({TTL: b"1"})
    joined = join(full)
    joined.broker({RATE: b"2"})
    joined.broker({SIZE: b"3"}, on={TTL: b"1"})
    assert joined.document == {TTL: b"1", RATE: b"2", SIZE: b"3"} and joined.due()


@pytest.mark.parametrize(("wait", "own"), [(1, True), (2 * W, False)])
def test_a_head_that_was_told_rests_on_what_was_seen_here_once_an_event_soon_after_goes_unexplained(wait: int, own: bool) -> None:
    full = undone()
    joined = join(full, last=1)
    both(full, joined, restatement(KEY, full.state, "repair"))
    assert joined.state.since == ""
    joined.write({SUB_A: b"5", SIZE: b"6"}, wait=wait)
    assert joined.state.since == ("000002" if own else "")


def test_one_that_is_explained_leaves_it_as_it_is() -> None:
    full = undone()
    joined = join(full, last=1)
    both(full, joined, restatement(KEY, full.state, "repair"))
    joined.broker({SIZE: b"6"})
    assert joined.state.since == "" and joined.document == {TTL: b"1", RATE: b"2", SIZE: b"6"}


def test_a_key_that_was_forgotten_too_early_goes_on_where_it_was() -> None:
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


def test_a_key_that_is_new_after_joining_is_known_to_everybody_alike() -> None:
    script, late = Script(FoldContext(joined_at=1_000_000)), Script(FoldContext(joined_at=0))
    for one in (script, late):
        one.update({TTL: b"1"})
    assert script.state.since == late.state.since == "000001" and agree(script, late)
    assert not check_all_seen(script.state, script.now) and check_all_seen(late.state, late.now)


def test_what_is_remembered_is_completed_by_a_restatement() -> None:
    joined = Script(FoldContext(joining=True, joined_at=1_000_000))
    joined.update({TTL: b"1"}, on=Seen({}, "old"), request_id="mine")
    earlier = Remembered("earlier", "digest", "000000", "")
    mine = joined.state.remembered[-1]._replace(previous="000000")
    joined.claim({TTL: b"1", RATE: b"1"}, joined.version, since="", remembered=(earlier, mine))
    assert joined.state.remembers("earlier") == earlier and joined.state.remembers("mine") == mine


def test_a_request_that_was_taken_for_applied_is_not_any_more_once_somebody_knows_better() -> None:
    joined = Script(FoldContext(joining=True, joined_at=1_000_000))
    joined.update({TTL: b"1"}, on=Seen({}, "old"), request_id="rejected", etag="old")
    joined.claim({RATE: b"1"}, "000000", since="")
    assert joined.state.remembers("rejected") is None
    joined.update({TTL: b"1"}, request_id="rejected")
    assert joined.document == {TTL: b"1", RATE: b"1"}


# -- other clusters -------------------------------------------------------------------------------------------------------


def test_a_replicated_events_etag_was_judged_where_it_came_from() -> None:
    script = Script()
    script.update({TTL: b"1"})
    event = script.event({TTL: b"2"}, Seen({TTL: b"1"}, "elsewhere"), mask=(TTL,), etag="elsewhere")
    assert script.put(event._replace(replicated=True)).status is Status.APPLIED


def test_in_place_of_a_replicated_events_etag_the_document_that_it_named_is_judged() -> None:
    cases: list[tuple[dict[str, bytes | None], Status]] = [({TTL: b"1"}, Status.APPLIED), ({TTL: b"1", RATE: b"1"}, Status.REJECTED_READS)]
    for present, status in cases:
        for kind in (StampKind.UPDATE, StampKind.DELETE):
            script = Script()
            script.update(present)
            reads = {WHOLE: whole_digest({TTL: b"1"})}
            event = script.event({TTL: b"2"}, Seen({TTL: b"1"}, "elsewhere"), mask=(TTL,), etag="elsewhere", reads=reads, kind=kind)
            assert script.put(event._replace(replicated=True)).status is status


def test_a_replicated_event_that_was_computed_from_an_old_base_is_repaired_here_too() -> None:
    script = Script()
    script.broker({TTL: b"1"})
    script.broker({RATE: b"2"}, on={}, replicated=True)
    assert script.document == {TTL: b"1", RATE: b"2"} and script.due()


def test_a_replicated_restatement_says_nothing_about_this_log() -> None:
    script = Script()
    script.update({TTL: b"1"})
    script.state.since = "000001"
    folded = script.claim({TTL: b"9"}, "999999", since="", replicated=True)
    assert folded.status is Status.RESTATED and not folded.changed and script.document == {TTL: b"1"} and script.due()


def test_how_much_of_another_log_a_writer_had_seen_says_nothing_about_this_one() -> None:
    full = undone()
    joined = join(full, last=1)
    event = full.event({SIZE: b"3"}, Seen({}, "elsewhere"), mask=(SIZE,), seen=events.Seen("", "999999"))
    joined.put(event._replace(replicated=True))
    assert joined.document == {RATE: b"2", SIZE: b"3"} and joined.state.since == "000002"


def test_what_a_replicated_event_remembers_has_no_versions_here() -> None:
    script = Script(FoldContext(joining=True))
    event = script.event({TTL: b"2"}, Seen({}, "elsewhere"), mask=(TTL,), remembered=(Remembered("r", "d", "77", "66"),))
    script.put(event._replace(replicated=True))
    assert script.state.remembers("r") == ("r", "d", "", "")


@pytest.mark.parametrize("last", [1, 5, 40])
def test_a_joiner_at_rest_knows_what_everybody_knows(last: int) -> None:
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
