"""Which changes are inferred from brokers' events."""

from __future__ import annotations

import pytest

from tests.core.fold.script import RATE, SIZE, SUB_A, TTL, Script
from topicpolicies_server.core.fold.fold import FoldContext, Status
from topicpolicies_server.core.policies.documents import Document
from topicpolicies_server.core.policies.events import Action


def test_a_change_computed_from_the_newest_document_is_inferred() -> None:
    script = Script()
    script.broker({TTL: b"1"})
    folded = script.broker({RATE: b"2"})
    assert folded.settings == (RATE,) and not (folded.stale or folded.unexplained or folded.ambiguous)
    assert script.document == {TTL: b"1", RATE: b"2"} and not script.due()


def test_a_change_computed_from_an_older_document_undoes_nothing() -> None:
    script = Script()
    script.broker({TTL: b"1"})
    old = script.document
    script.update({SIZE: b"2"})
    script.update({SIZE: b"3"})
    folded = script.broker({RATE: b"4"}, on=old)
    assert folded.settings == (RATE,) and folded.stale
    assert script.document == {TTL: b"1", SIZE: b"3", RATE: b"4"} and script.due()


def test_a_setting_that_a_broker_clears_is_cleared() -> None:
    script = Script()
    script.broker({TTL: b"1"})
    script.broker({RATE: b"2"})
    old = script.document
    script.update({SIZE: b"3"})
    script.broker({TTL: None}, on=old)
    assert script.document == {RATE: b"2", SIZE: b"3"}


def test_the_document_of_a_rejected_event_is_a_base_because_brokers_show_it() -> None:
    script = Script()
    script.update({TTL: b"1"})
    rejected = script.event({TTL: b"2", SIZE: b"2"}, script.seen(), mask=(TTL, SIZE), etag="000000")
    assert script.put(rejected).status is Status.REJECTED_ETAG
    script.broker({RATE: b"3"})
    assert script.document == {TTL: b"1", RATE: b"3"}


def test_a_head_that_no_broker_ever_saw_is_no_base() -> None:
    script = Script()
    script.broker({TTL: b"1"})
    old = script.document
    script.update({TTL: b"2"})
    script.broker({RATE: b"3"}, on=old)
    assert script.document == {TTL: b"2", RATE: b"3"}  # the head; brokers show TTL 1
    folded = script.broker({TTL: b"2"})
    assert folded.settings == (TTL,)
    assert script.document == {TTL: b"2", RATE: b"3"}


def test_the_newest_document_that_explains_an_event_is_its_base() -> None:
    script = Script()
    script.broker({TTL: b"1"})
    script.broker({TTL: b"2"})
    folded = script.broker({TTL: b"1"})
    assert folded.settings == (TTL,) and script.document == {TTL: b"1"}  # a deliberate revert


def test_a_write_of_several_settings_is_unexplained_and_changes_what_differs_from_the_newest() -> None:
    script = Script()
    script.broker({TTL: b"1"})
    folded = script.broker({RATE: b"2", SIZE: b"3"})
    assert folded.unexplained and set(folded.settings) == {RATE, SIZE}
    assert script.document == {TTL: b"1", RATE: b"2", SIZE: b"3"}


def test_an_unexplained_write_keeps_settings_that_only_the_head_has() -> None:
    script = Script()
    script.broker({TTL: b"1"})
    script.update({SUB_A: b"1"})
    script.broker({TTL: b"2"}, on={TTL: b"1"})
    assert script.document == {TTL: b"2", SUB_A: b"1"}  # brokers show the TTL only
    folded = script.broker({RATE: b"2", SIZE: b"3"})
    assert folded.unexplained
    assert script.document == {TTL: b"2", SUB_A: b"1", RATE: b"2", SIZE: b"3"}


def test_a_document_that_was_superseded_longer_than_the_window_ago_is_no_base() -> None:
    def late(wait: int) -> tuple[bool, bool]:
        script = Script(FoldContext(window_ms=1_000))
        script.broker({TTL: b"1"})
        old = script.document
        script.broker({SIZE: b"2"}, wait=5_000)
        script.broker({SUB_A: b"2"})
        folded = script.broker({RATE: b"4"}, on=old, wait=wait)
        return folded.unexplained, script.document == {TTL: b"1", SIZE: b"2", SUB_A: b"2", RATE: b"4"}

    assert late(999) == (False, True)
    assert late(1_000) == (True, False)


def test_no_more_than_4096_documents_are_tried_as_the_base() -> None:
    def after(events: int) -> bool:
        script = Script()
        script.broker({TTL: b"1"})
        old = script.document
        script.broker({SIZE: b"2"})
        for number in range(events):
            script.broker({SUB_A: b"%d" % number}, wait=0)
        return script.broker({RATE: b"4"}, on=old).unexplained

    assert not after(4_094)
    assert after(4_096)


def test_an_event_that_two_documents_explain_differently_is_counted_as_ambiguous() -> None:
    script = Script()
    script.broker({TTL: b"1"})
    old = script.document
    script.broker({RATE: b"2"})
    folded = script.broker({TTL: b"1"}, on=old)  # changed nothing; looks as if the rate were cleared
    assert folded.ambiguous and folded.settings == (RATE,)


def test_explanations_with_the_same_effect_are_not_ambiguous() -> None:
    script = Script()
    script.broker({TTL: b"1"})
    script.broker({RATE: b"2"})
    script.broker({RATE: b"3"})
    assert not script.broker({RATE: b"4"}).ambiguous


def test_a_write_that_changes_nothing_changes_only_the_version() -> None:
    script = Script()
    script.broker({TTL: b"1"})
    folded = script.write({TTL: b"1"})
    assert folded.changed and folded.settings == () and folded.version == "000002"
    assert script.document == {TTL: b"1"} and not script.due()


# -- schemas --------------------------------------------------------------------------------------------------------------

OLDER = frozenset({TTL, RATE, "subscription_policies"})


def test_a_broker_of_an_older_schema_does_not_clear_settings_that_it_does_not_know() -> None:
    script = Script()
    script.update({TTL: b"1", SIZE: b"2"})
    folded = script.write({TTL: b"1", RATE: b"3"}, known=OLDER)
    assert folded.settings == (RATE,) and not folded.stale
    assert script.document == {TTL: b"1", SIZE: b"2", RATE: b"3"}
    assert script.due()  # because what it wrote lacks the size, and brokers apply what it wrote


def test_bases_are_compared_only_in_settings_that_the_writer_knows() -> None:
    script = Script()
    script.update({TTL: b"1", SIZE: b"2"})
    script.update({SIZE: b"3"})
    script.update({RATE: b"3"})
    folded = script.write({TTL: b"1", SUB_A: b"4"}, known=OLDER)
    assert folded.settings == (SUB_A,) and not folded.unexplained
    assert script.document == {TTL: b"1", SIZE: b"3", RATE: b"3", SUB_A: b"4"}


def test_settings_of_a_newer_broker_are_not_compared_for_a_broker_of_our_schema() -> None:
    script = Script()
    script.write({TTL: b"1", "?newField": b"{}"}, known=frozenset({TTL, "?newField"}))
    folded = script.write({TTL: b"1", RATE: b"2"})
    assert folded.settings == (RATE,)
    assert script.document == {TTL: b"1", RATE: b"2", "?newField": b"{}"}


def test_a_newer_broker_changes_its_own_settings() -> None:
    script = Script()
    known = frozenset({TTL, "?newField"})
    script.write({TTL: b"1", "?newField": b"1"}, known=known)
    folded = script.write({TTL: b"1", "?newField": b"2"}, known=known)
    assert folded.settings == ("?newField",) and script.document == {TTL: b"1", "?newField": b"2"}


# -- other actions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("action", "document"), [(Action.DELETE, None), (Action.UPDATE, None), (Action.DELETE, {TTL: b"1"})])
def test_a_tombstone_and_the_delete_of_an_old_broker_remove_the_document(action: Action, document: dict[str, bytes] | None) -> None:
    script = Script()
    script.update({TTL: b"1"})
    folded = script.write(document, action=action)
    assert folded.status is Status.APPLIED and folded.changed and folded.version == "000002"
    assert script.gone() and script.shown() is None and not script.due()


def test_a_tombstone_changes_nothing_where_there_is_no_document() -> None:
    script = Script()
    script.update({TTL: b"1"})
    script.write(None)
    folded = script.write(None)
    assert folded.status is Status.IGNORED and not folded.changed and script.version == "000002"


def test_a_change_to_a_deleted_document_keeps_the_change_and_does_not_restore_the_rest() -> None:
    script = Script()
    script.update({TTL: b"1", SIZE: b"2"})
    old = script.document
    script.delete()
    script.broker({RATE: b"3"}, on=old)
    assert script.document == {RATE: b"3"} and script.due()


def test_clearing_a_setting_of_a_deleted_document_does_not_restore_it() -> None:
    script = Script()
    script.update({TTL: b"1", RATE: b"1", SIZE: b"2"})
    old = script.document
    script.delete()
    script.broker({SIZE: None}, on=old)
    assert script.gone() and script.due()


def test_an_empty_document_written_where_none_was_is_a_document() -> None:
    script = Script()
    script.write({})
    assert script.document == {} and not script.due()


def test_an_insert_makes_a_document_where_there_is_none() -> None:
    script = Script()
    script.write({TTL: b"1", RATE: b"2"}, action=Action.INSERT)
    assert script.document == {TTL: b"1", RATE: b"2"} == script.shown() and not script.due()


def test_an_insert_adds_to_a_present_document_although_brokers_keep_theirs() -> None:
    script = Script()
    script.update({TTL: b"1", SIZE: b"3"})
    folded = script.write({TTL: b"2", RATE: b"2"}, action=Action.INSERT)
    assert folded.changed and set(folded.settings) == {TTL, RATE}
    assert script.document == {TTL: b"2", SIZE: b"3", RATE: b"2"}
    assert script.shown() == {TTL: b"1", SIZE: b"3"} and script.due()
    script.restate()
    assert script.shown() == script.document and not script.due()


@pytest.mark.parametrize("document", [{RATE: b"2"}, None])
def test_an_event_of_the_action_none_changes_nothing_but_needs_a_repair(document: Document | None) -> None:
    """Without a document it is what the codec makes of an event of another kind."""
    script = Script()
    script.update({TTL: b"1"})
    folded = script.write(document, action=Action.NONE)
    assert folded.status is Status.IGNORED and not folded.changed
    assert script.document == script.shown() == {TTL: b"1"} and script.version == "000001" and script.due()
    script.restate()
    assert not script.due()


@pytest.mark.parametrize("document", [{RATE: b"2"}, None])
def test_an_event_of_the_action_none_needs_no_repair_where_there_is_no_document(document: Document | None) -> None:
    script = Script()
    script.write(document, action=Action.NONE)
    assert script.gone() and not script.due()
