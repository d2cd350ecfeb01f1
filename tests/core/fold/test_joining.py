"""Sidecars that start to read in the middle, and how they come to agree with those who saw everything."""

from __future__ import annotations

import pytest

from tests.core.fold.script import KEY, RATE, SIZE, SUB_A, TTL, Script, Seen, join
from topicpolicies_server.core.documents import WHOLE, digest, whole_digest
from topicpolicies_server.core.events import ABSENT, Action, Remembered, StampKind
from topicpolicies_server.core.fold import FoldContext, Status, restatement, settle

W = 30_000


def both(first: Script, second: Script, event: object) -> None:
    """One event, read by two."""
    second.now = first.now
    first.put(event)  # type: ignore[arg-type]
    second.put(event)  # type: ignore[arg-type]


# -- the first event that is seen ----------------------------------------------------------------------------------------


def test_an_operation_on_an_absent_document_is_taken_as_such() -> None:
    full = Script()
    full.update({TTL: b"1"})
    joined = join(full)
    assert (joined.document, joined.version) == (full.document, full.version)


def test_of_any_other_operation_the_whole_document_is_taken() -> None:
    full = Script()
    full.update({TTL: b"1"})
    full.update({RATE: b"2"}, etag=full.version, reads={TTL: digest(b"1")})
    joined = join(full, last=1)
    assert (joined.document, joined.version) == (full.document, full.version)
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
    assert (joined.document, joined.version) == (full.document, full.version) and not joined.state.due


def test_none_is_no_first_event() -> None:
    joined = Script(FoldContext(joining=True))
    joined.write({TTL: b"9"}, action=Action.NONE)
    joined.update({RATE: b"2"}, on=Seen({TTL: b"1"}, "000000x"))
    assert joined.document == {TTL: b"1", RATE: b"2"}


def test_where_nothing_else_was_written_nothing_is_provisional() -> None:
    context = FoldContext(joining=True, sole_writer=True, joined_at=1_000_000)
    script = Script(context)
    script.update({RATE: b"2"}, on=Seen({TTL: b"1"}, "000000x"))
    assert script.document == {TTL: b"1", RATE: b"2"} and not script.state.provisional


def test_once_the_log_is_read_an_unknown_key_is_truly_absent() -> None:
    script = Script()
    script.update({RATE: b"2"}, on=Seen({TTL: b"1"}, "000000x"))
    assert script.document == {RATE: b"2"} and script.due()


# -- provisional ---------------------------------------------------------------------------------------------------------


def test_a_key_is_provisional_and_not_repaired_for_w_after_its_first_seen_event() -> None:
    full = Script()
    full.update({TTL: b"1"})
    joined = join(full)
    assert not settle(joined.state, full.now + W - 1)
    assert joined.state.provisional
    assert settle(joined.state, full.now + W)
    assert joined.state.joined is None


def test_an_old_key_is_settled_as_soon_as_the_log_is_read() -> None:
    full = Script()
    full.update({TTL: b"1"})
    joined = join(full, late=W)
    assert settle(joined.state, full.now + W) and not joined.state.provisional


def test_what_came_soon_after_the_first_seen_event_of_an_old_key_is_understood() -> None:
    full = Script()
    full.update({TTL: b"1"})
    assert full.broker({RATE: b"2"}, on={}, wait=5).settings == (RATE,)
    joined = join(full, late=10 * W)
    assert (joined.document, joined.version) == (full.document, full.version)


def test_while_brokers_show_something_else_it_stays_provisional_for_two_w() -> None:
    full = Script()
    full.update({TTL: b"1"})
    full.update({RATE: b"2"}, on=Seen(None, ""))
    joined = join(full)
    assert joined.state.due and not joined.due()
    since = full.now - 1
    assert not settle(joined.state, since + 2 * W - 1)
    assert settle(joined.state, since + 2 * W)
    assert joined.due()


def test_the_first_clean_event_after_w_settles_it() -> None:
    full = Script()
    full.update({TTL: b"1"})
    joined = join(full)
    joined.update({RATE: b"2"}, on=Seen({}, "x"), wait=W - 10)
    assert joined.state.due and joined.state.provisional
    joined.update({SIZE: b"3"}, wait=20)
    assert joined.state.provisional  # it is clean only after this event
    joined.update({SIZE: b"4"}, wait=1)
    assert not joined.state.provisional


def test_without_a_time_of_joining_nothing_is_provisional_and_heads_are_guesses() -> None:
    script = Script(FoldContext(joining=True))
    script.write({TTL: b"1"})
    assert not script.state.provisional and script.state.joined is not None
    script.claim({TTL: b"2"}, script.version)
    assert script.document == {TTL: b"2"}


# -- put right ------------------------------------------------------------------------------------------------------------


def test_a_stale_first_event_is_put_right_by_its_repair() -> None:
    full = Script()
    full.update({TTL: b"1"})
    full.update({RATE: b"2"}, on=Seen({SIZE: b"0"}, "old"))
    joined = join(full, last=1)
    assert joined.document != full.document
    both(full, joined, restatement(KEY, full.state, "repair"))
    assert (joined.document, joined.version) == (full.document, full.version) and not joined.state.due


def test_a_rejected_first_event_is_put_right_by_its_repair_although_the_version_goes_back() -> None:
    full = Script()
    full.update({TTL: b"1"})
    full.update({TTL: b"2"}, etag="000000")
    joined = join(full, last=1)
    assert joined.version > full.version
    both(full, joined, restatement(KEY, full.state, "repair"))
    assert (joined.document, joined.version) == (full.document, full.version)


def test_what_was_seen_after_the_restated_version_is_folded_again() -> None:
    full = Script()
    full.update({TTL: b"1"})
    full.update({RATE: b"2"}, on=Seen(None, "old"))
    late = restatement(KEY, full.state, "late")
    joined = join(full, last=1)
    for number in range(3):
        both(full, joined, full.event({SIZE: b"%d" % number}, Seen(None, "old"), mask=(SIZE,)))
    full.broker({SUB_A: b"7"})
    joined.write({SIZE: b"2", SUB_A: b"7"})
    both(full, joined, late)
    assert full.document == {TTL: b"1", RATE: b"2", SIZE: b"2", SUB_A: b"7"}
    assert (joined.document, joined.version) == (full.document, full.version)
    assert [request.request_id for request in joined.state.remembered] == [request.request_id for request in full.state.remembered]


def test_a_rejected_event_among_them_is_judged_again() -> None:
    full = Script()
    full.update({TTL: b"1"})
    version = full.version
    full.update({TTL: b"2"}, etag="000000")
    joined = join(full, last=1)
    event = full.event({TTL: b"3"}, Seen({TTL: b"1"}, version), mask=(TTL,), etag=version)
    both(full, joined, event)
    assert full.document == {TTL: b"3"} and joined.document == {TTL: b"2"}
    both(full, joined, restatement(KEY, full.state, "repair"))
    assert (joined.document, joined.version) == (full.document, full.version)


def test_an_event_computed_from_this_very_version_brings_its_whole_document() -> None:
    full = Script()
    full.update({TTL: b"1"})
    full.broker({RATE: b"2"}, on={})
    joined = join(full, last=1)
    assert joined.document == {RATE: b"2"}
    both(full, joined, full.event({TTL: b"1", RATE: b"3"}, full.seen(), mask=(RATE,), reads={TTL: digest(b"1")}))
    assert (joined.document, joined.version) == ({TTL: b"1", RATE: b"3"}, "000003") == (full.document, full.version)


def test_a_restatement_older_than_one_that_was_believed_is_not() -> None:
    full = Script()
    full.update({TTL: b"1"})
    old = restatement(KEY, full.state, "old")
    full.update({RATE: b"2"})
    joined = Script(FoldContext(joining=True, joined_at=full.now))
    joined.put(restatement(KEY, full.state, "first"))
    joined.put(old)
    assert (joined.document, joined.version) == (full.document, full.version)


def test_a_restatement_older_than_a_brokers_first_event_is_not_believed_for_its_change_cannot_be_told() -> None:
    full = Script()
    full.update({TTL: b"1"})
    old = restatement(KEY, full.state, "old")
    full.broker({RATE: b"2"})
    joined = join(full, last=1)
    both(full, joined, old)
    assert (joined.document, joined.version) == (full.document, full.version)


def test_once_settled_a_smaller_version_is_not_believed_any_more() -> None:
    full = Script()
    full.update({TTL: b"1"})
    old = restatement(KEY, full.state, "old")
    full.update({RATE: b"2"})
    joined = join(full, last=1)
    assert settle(joined.state, full.now + W)
    joined.put(old)
    assert (joined.document, joined.version) == (full.document, full.version)


def test_a_guess_gives_way_to_who_contradicts_it() -> None:
    full = Script()
    full.update({TTL: b"1"})
    joined = Script(FoldContext(joining=True))
    joined.log = list(full.log)
    joined.update({RATE: b"2"}, on=Seen({SIZE: b"0"}, "old"))
    joined.context = FoldContext()
    assert joined.document == {SIZE: b"0", RATE: b"2"}
    joined.claim({TTL: b"1", RATE: b"2"}, joined.version)
    assert joined.document == {TTL: b"1", RATE: b"2"}


@pytest.mark.parametrize(("wait", "guess"), [(1, True), (W, False)])
def test_a_new_key_is_provisional_once_an_event_soon_after_joining_goes_unexplained(wait: int, guess: bool) -> None:
    script = Script(FoldContext(joined_at=1_000_000))
    script.update({TTL: b"1"})
    old = restatement(KEY, script.state, "old")
    script.update({SUB_A: b"1"})
    assert script.broker({RATE: b"2", SIZE: b"2"}, wait=wait).unexplained
    assert script.state.provisional is guess
    script.put(old)
    assert script.document == {TTL: b"1", SUB_A: b"1", RATE: b"2", SIZE: b"2"}
    script.claim({TTL: b"2"}, script.version)
    assert (script.document == {TTL: b"2"}) is guess


def test_a_new_key_whose_events_are_explained_is_not() -> None:
    script = Script(FoldContext(joined_at=1_000_000))
    script.update({TTL: b"1"})
    script.broker({RATE: b"2"})
    assert not script.state.provisional
    script.claim({TTL: b"2"}, script.version)
    assert script.document == {TTL: b"1", RATE: b"2"}


def test_a_key_that_was_forgotten_too_early_goes_on_where_it_was() -> None:
    full = Script()
    full.update({TTL: b"1"})
    full.delete()
    tombstone = restatement(KEY, full.state, "tombstone")
    full.update({RATE: b"2"})
    full.put(tombstone)  # compaction now forgets the key
    assert full.document == {RATE: b"2"} and full.due()
    for event in (restatement(KEY, full.state, "repair"), full.event({RATE: b"2", SIZE: b"3"}, full.seen(), mask=(SIZE,))):
        joined = Script(FoldContext(joined_at=full.now))
        joined.log, joined.now = list(full.log), full.now
        other = Script(state=full.state)
        other.log, other.now = list(full.log), full.now
        both(other, joined, event)
        assert (joined.document, joined.version) == (other.document, other.version)
        assert joined.state.provisional


def test_a_key_that_is_new_soon_after_joining_makes_nobody_wait() -> None:
    script = Script(FoldContext(joined_at=1_000_000))
    script.update({TTL: b"1"})
    assert not script.state.provisional and script.state.joined is None


def test_what_is_remembered_is_completed_by_a_restatement() -> None:
    joined = Script(FoldContext(joining=True, joined_at=1_000_000))
    joined.update({TTL: b"1"}, on=Seen({}, "old"), request_id="mine")
    earlier = Remembered("earlier", "digest", "000000", "")
    joined.claim({TTL: b"1", RATE: b"1"}, joined.version, remembered=(earlier,))
    assert joined.state.remembers("earlier") == earlier and joined.state.remembers("mine") is not None


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
    folded = script.claim({TTL: b"9"}, "999999", replicated=True)
    assert folded.status is Status.RESTATED and not folded.changed and script.document == {TTL: b"1"} and script.due()


def test_what_a_replicated_event_remembers_has_no_versions_here() -> None:
    script = Script(FoldContext(joining=True))
    event = script.event({TTL: b"2"}, Seen({}, "elsewhere"), mask=(TTL,), remembered=(Remembered("r", "d", "77", "66"),))
    script.put(event._replace(replicated=True))
    assert script.state.remembers("r") == ("r", "d", "", "")


@pytest.mark.parametrize("events", [1, 5, 40])
def test_a_joiner_at_rest_knows_what_everybody_knows(events: int) -> None:
    full = Script()
    for number in range(events):
        seen = full.seen()
        full.update({TTL: b"%d" % number}, on=seen)
        full.broker({RATE: b"%d" % number}, on=seen.document or {})
    while full.due():
        full.restate()
    joined = join(full, last=1)
    assert (joined.document, joined.version) == (full.document, full.version)
    assert joined.state.remembered == full.state.remembered
