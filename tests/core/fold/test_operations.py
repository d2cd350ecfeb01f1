"""What sidecars' events do to a head."""

from __future__ import annotations

import pytest

from tests.core.fold.script import CLUSTERS, RATE, SIZE, SUB_A, SUB_B, TTL, Script, Seen
from topicpolicies_server.core.fold.fold import Status
from topicpolicies_server.core.policies.documents import digest
from topicpolicies_server.core.policies.events import ABSENT, ListChange


def element(name: str) -> bytes:
    return b"\xc2\x01" + bytes([len(name)]) + name.encode()


def test_only_masked_settings_are_taken_from_the_event() -> None:
    script = Script()
    old = script.seen()
    script.update({TTL: b"1"})
    folded = script.update({RATE: b"2"}, on=old)
    assert script.document == {TTL: b"1", RATE: b"2"}
    assert folded.status is Status.APPLIED and folded.stale


def test_a_masked_setting_that_the_event_lacks_is_cleared() -> None:
    script = Script()
    script.update({TTL: b"1", RATE: b"2"})
    script.update({TTL: None})
    assert script.document == {RATE: b"2"}


def test_an_operation_that_clears_the_last_setting_leaves_an_empty_document() -> None:
    script = Script()
    script.update({TTL: b"1"})
    script.update({TTL: None})
    assert script.document == {} and not script.due()


def test_a_mask_of_a_whole_map_replaces_all_its_entries_of_the_head() -> None:
    script = Script()
    old = script.seen()
    script.update({SUB_A: b"1", TTL: b"1"})
    script.update({SUB_B: b"3"}, on=old, mask=("subscription_policies",))
    assert script.document == {SUB_B: b"3", TTL: b"1"}


def test_a_wildcard_replaces_the_document_whatever_the_head_is() -> None:
    script = Script()
    old = script.seen()
    script.update({TTL: b"1", RATE: b"2"})
    script.update({SIZE: b"3"}, on=old, mask=("*",))
    assert script.document == {SIZE: b"3"}


def test_a_deletion_removes_everything_before_it_and_nothing_after_it() -> None:
    script = Script()
    script.update({TTL: b"1"})
    old = script.seen()
    script.update({RATE: b"2"})
    folded = script.delete(on=old)
    assert script.gone() and folded.version == script.version and folded.changed
    script.update({SIZE: b"3"}, on=old)
    assert script.document == {SIZE: b"3"}


def test_versions_are_positions_and_results_have_the_previous_version() -> None:
    script = Script()
    first = script.update({TTL: b"1"})
    second = script.update({TTL: b"2"})
    third = script.delete()
    fourth = script.update({TTL: b"4"})
    assert (first.version, first.previous) == ("000001", ABSENT)
    assert [second.previous, third.previous, fourth.previous] == [first.version, second.version, third.version]


def test_a_list_operation_is_applied_to_the_list_of_the_head() -> None:
    script = Script()
    script.update({CLUSTERS: element("a") + element("b")})
    old = script.seen()
    script.update({CLUSTERS: element("c")})
    script.update({CLUSTERS: element("a") + element("b") + element("d")}, on=old, operands={CLUSTERS: (ListChange.UNION, element("d"))})
    assert script.document == {CLUSTERS: element("c") + element("d")}


def test_removing_the_last_element_of_a_list_unsets_it() -> None:
    script = Script()
    script.update({CLUSTERS: element("a"), TTL: b"1"})
    script.update({CLUSTERS: None}, operands={CLUSTERS: (ListChange.SUBTRACT, element("a"))})
    assert script.document == {TTL: b"1"}


# -- conditions ----------------------------------------------------------------------------------------------------------


def test_an_operation_whose_etag_is_not_the_heads_version_is_rejected() -> None:
    script = Script()
    script.update({TTL: b"1"})
    old, version = script.seen(), script.version
    script.update({RATE: b"2"})
    before = script.version
    folded = script.update({TTL: b"3"}, on=old, etag=version)
    assert folded.status is Status.REJECTED_ETAG and not folded.changed
    assert (folded.version, script.version) == (before, before)
    assert script.document == {TTL: b"1", RATE: b"2"}


def test_a_repair_leaves_etags_valid() -> None:
    script = Script()
    script.update({TTL: b"1"})
    script.broker({RATE: b"2"}, on={})
    version = script.version
    script.restate()
    assert script.update({TTL: b"2"}, etag=version).status is Status.APPLIED


def test_the_etag_of_absence_demands_that_there_is_no_document() -> None:
    script = Script()
    assert script.update({TTL: b"1"}, etag=ABSENT).status is Status.APPLIED
    assert script.update({TTL: b"2"}, etag=ABSENT).status is Status.REJECTED_ETAG


def test_the_etag_of_absence_matches_an_absence_of_any_version() -> None:
    script = Script()
    script.update({TTL: b"1"})
    script.delete()
    assert script.version != ABSENT
    assert script.update({TTL: b"2"}, etag=ABSENT).status is Status.APPLIED


def test_no_other_etag_matches_an_absence_because_sidecars_may_hold_different_versions_of_it() -> None:
    script = Script()
    script.update({TTL: b"1"})
    deleted = script.delete().version
    assert script.update({TTL: b"2"}, etag=deleted).status is Status.REJECTED_ETAG


def test_skip_if_absent_does_nothing_without_a_document_and_demands_nothing_of_one() -> None:
    script = Script()
    folded = script.update({TTL: b"1"}, skip_if_absent=True)
    assert folded.status is Status.SKIPPED_ABSENT and script.gone() and script.version == ABSENT
    script.update({TTL: b"1"})
    assert script.update({TTL: b"2"}, skip_if_absent=True).status is Status.APPLIED


@pytest.mark.parametrize("meanwhile", [b"3", None])
def test_an_operation_is_rejected_if_a_setting_that_it_read_has_changed(meanwhile: bytes | None) -> None:
    script = Script()
    script.update({RATE: b"left:right"})
    old = script.seen()
    script.update({RATE: meanwhile})
    folded = script.update({RATE: b"new:right"}, on=old, reads={RATE: digest(b"left:right")})
    assert folded.status is Status.REJECTED_READS
    assert script.document == ({RATE: b"3"} if meanwhile else {})


def test_an_operation_may_rely_on_a_setting_being_unset() -> None:
    script = Script()
    old = script.seen()
    assert script.update({RATE: b"1"}, reads={TTL: digest(None)}).status is Status.APPLIED
    script.update({TTL: b"1"})
    assert script.update({RATE: b"2"}, on=old, reads={TTL: digest(None)}).status is Status.REJECTED_READS


def test_an_operation_is_applied_if_what_it_read_is_unchanged_however_stale_its_base_is() -> None:
    script = Script()
    script.update({RATE: b"1"})
    old = script.seen()
    script.update({TTL: b"1"})
    folded = script.update({RATE: b"2"}, on=old, reads={RATE: digest(b"1")})
    assert folded.status is Status.APPLIED and folded.stale


def test_an_operation_pipelined_after_a_rejected_one_is_applied() -> None:
    script = Script()
    script.update({TTL: b"1"})
    old = script.seen()
    rejected = script.event({TTL: b"2"}, old, mask=(TTL,), etag="000000")
    pipelined = script.event({TTL: b"2", RATE: b"3"}, Seen({TTL: b"2"}, "event-2"), mask=(RATE,))
    assert script.put(rejected).status is Status.REJECTED_ETAG
    assert script.put(pipelined).status is Status.APPLIED
    assert script.document == {TTL: b"1", RATE: b"3"}


# -- bases ----------------------------------------------------------------------------------------------------------------


def test_an_event_whose_base_is_the_heads_version_or_event_id_is_not_stale() -> None:
    script = Script()
    script.update({TTL: b"1"}, event_id="first")
    assert not script.update({TTL: b"2"}, event_id="second").stale
    assert not script.update({TTL: b"3"}, on=Seen({TTL: b"2"}, "second")).stale
    assert script.update({TTL: b"4"}, on=Seen({TTL: b"1"}, "first")).stale


def test_an_event_computed_from_no_document_is_stale_where_there_is_one() -> None:
    script = Script()
    assert not script.update({TTL: b"1"}, on=Seen(None, "")).stale
    assert script.update({TTL: b"2"}, on=Seen(None, "")).stale
    script.delete()
    assert not script.update({TTL: b"3"}, on=Seen(None, "")).stale


# -- repeats --------------------------------------------------------------------------------------------------------------


def test_an_event_that_is_published_twice_is_applied_once_and_reports_the_first_version() -> None:
    script = Script()
    script.update({TTL: b"1"})
    event = script.event({TTL: b"2"}, script.seen(), mask=(TTL,))
    first = script.put(event)
    script.update({TTL: b"3"})
    again = script.put(event)
    assert again.status is Status.DUPLICATE and not again.changed
    assert (again.version, again.previous) == (first.version, first.previous)
    assert script.document == {TTL: b"3"}


def test_a_request_that_another_sidecar_repeats_is_applied_once() -> None:
    script = Script()
    first = script.update({TTL: b"1"}, request_id="same")
    script.update({TTL: b"2"})
    again = script.update({TTL: b"1"}, request_id="same")
    assert again.status is Status.DUPLICATE and again.version == first.version
    assert script.document == {TTL: b"2"}


def test_a_rejected_request_may_be_tried_again_under_its_own_id() -> None:
    script = Script()
    script.update({TTL: b"1"})
    old = script.seen()
    script.update({TTL: b"2"})
    reads = {TTL: digest(b"1")}
    assert script.update({TTL: b"3"}, on=old, request_id="same", reads=reads).status is Status.REJECTED_READS
    assert script.update({TTL: b"3"}, request_id="same", reads={TTL: digest(b"2")}).status is Status.APPLIED


def test_a_rejected_event_that_is_published_twice_stays_rejected_although_its_condition_now_holds() -> None:
    script = Script()
    event = script.event({TTL: b"2"}, Seen({}, "000001"), mask=(TTL,), skip_if_absent=True)
    assert script.put(event).status is Status.SKIPPED_ABSENT
    script.update({RATE: b"1"})
    again = script.put(event)
    assert again.status is Status.DUPLICATE and again.version == ""
    assert script.document == {RATE: b"1"}


def test_the_last_sixteen_applied_requests_are_remembered_with_their_answers() -> None:
    script = Script()
    for number in range(20):
        script.update({TTL: b"%d" % number}, request_id=f"r{number}", digest=f"d{number}")
    assert [request.request_id for request in script.state.remembered] == [f"r{number}" for number in range(4, 20)]
    assert script.state.remembers("r7") == ("r7", "d7", "000008", "000007")
    assert script.state.remembers("r3") is None


def test_events_without_a_request_are_not_remembered_but_their_copies_are_recognized() -> None:
    script = Script()
    event = script.event({TTL: b"2"}, script.seen(), mask=(TTL,), request_id="")
    script.put(event)
    script.update({TTL: b"3"})
    assert script.put(event).status is Status.DUPLICATE
    assert script.document == {TTL: b"3"} and len(script.state.remembered) == 1


def test_a_copy_is_recognized_within_the_window() -> None:
    script = Script()
    event = script.event({TTL: b"2"}, script.seen(), mask=(TTL,))
    script.put(event)
    for number in range(40):  # more than are remembered
        script.update({RATE: b"%d" % number}, wait=500)
    assert script.put(event).status is Status.DUPLICATE


def test_an_unreadable_entry_is_ignored() -> None:
    script = Script()
    script.update({TTL: b"1"})
    folded = script.put(None)
    assert folded.status is Status.IGNORED and not folded.changed
    assert script.version == "000001" and not script.due()
