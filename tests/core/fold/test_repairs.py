"""When a repair is due, what it carries, and what it does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.core.fold.script import KEY, RATE, SIZE, TTL, Script, Seen, join
from topicpolicies_server.core.fold.fold import FoldContext, Folded, KeyState, Status, fold, restatement
from topicpolicies_server.core.fold.keystate import REMEMBERED_REQUESTS
from topicpolicies_server.core.policies.events import Action, Remembered, StampKind


def stale_pair() -> Script:
    """Returns a log with two changes of one base: the newest document lacks the first change."""
    script = Script()
    old = script.seen()
    script.update({TTL: b"1"}, on=old)
    script.update({RATE: b"2"}, on=old)
    return script


def test_a_repair_is_not_needed_any_more_after_an_event_that_is_not_stale() -> None:
    script = stale_pair()
    script.update({SIZE: b"3"})
    assert not script.due()


def test_a_repair_has_the_head_its_version_and_the_remembered_requests() -> None:
    script = stale_pair()
    event = restatement(KEY, script.state, "id")
    assert (event.key, event.action, event.document) == (KEY, Action.UPDATE, {TTL: b"1", RATE: b"2"})
    assert event.stamp is not None
    assert (event.stamp.event_id, event.stamp.kind, event.stamp.head_version) == ("id", StampKind.REPAIR, "000002")
    assert event.stamp.remembered == script.state.remembered and len(event.stamp.remembered) == 2


def test_a_repair_makes_no_version_and_changes_no_head() -> None:
    script = stale_pair()
    folded = script.restate()
    assert folded.status is Status.RESTATED and not folded.changed
    assert folded.version == folded.previous == script.version == "000002"


def test_a_repair_that_comes_too_late_undoes_nothing_and_makes_another_one_due() -> None:
    script = stale_pair()
    late = restatement(KEY, script.state, "late")
    script.update({SIZE: b"3"})
    script.put(late)
    assert script.document == {TTL: b"1", RATE: b"2", SIZE: b"3"} and script.version == "000003" and script.due()
    script.restate()
    assert script.shown() == script.document and not script.due()


def test_a_repair_is_due_after_a_rejected_event_although_its_document_equals_the_head() -> None:
    script = Script()
    script.update({TTL: b"1"})
    script.update({TTL: b"1"}, etag="000000")
    assert script.shown() == script.document and script.due()


def test_a_repair_is_due_after_a_copy_of_an_event() -> None:
    script = Script()
    event = script.event({TTL: b"1"}, script.seen(), mask=(TTL,))
    script.put(event)
    script.put(event)
    assert script.due()
    script.restate()
    assert not script.due()


@pytest.mark.parametrize(("came", "due"), [(True, False), (False, True)])
def test_a_repair_is_due_after_an_event_that_remembers_a_request_that_never_arrived(came: bool, due: bool) -> None:
    script = Script()
    script.update({TTL: b"1"})
    if came:
        script.update({TTL: b"2"}, request_id="on its way")
    script.update({RATE: b"3"}, remembered=(*script.state.remembered[:1], Remembered("on its way", "digest", "", "")))
    assert script.due() is due
    if due:
        script.restate()
        assert not script.due()


@pytest.mark.parametrize("there", [False, True], ids=["on an absence", "on a document"])
@pytest.mark.parametrize("carries", [True, False])
def test_a_repair_is_due_after_an_event_that_lacks_an_applied_request(there: bool, carries: bool) -> None:
    script = Script()
    if there:
        script.update({TTL: b"0"})
    before, known = script.seen(), script.state.remembered
    script.update({TTL: b"1"}, on=before, request_id="overtaken", remembered=known)
    carried = script.state.remembered if carries else known
    script.update({TTL: b"2"}, on=before, remembered=carried)
    assert script.document == script.shown() == {TTL: b"2"}
    assert script.due() is not carries
    if script.due():
        script.restate()
    newcomer = join(script, last=1)
    assert newcomer.state.remembers("overtaken") is not None and not newcomer.due()


def test_a_repair_is_due_after_a_chain_whose_first_event_lacks_an_applied_request() -> None:
    script = Script()
    script.update({TTL: b"0"})
    before, known = script.seen(), script.state.remembered
    script.update({TTL: b"1"}, on=before, request_id="overtaken", remembered=known)
    script.update({TTL: b"2"}, on=before, request_id="first", event_id="first", remembered=known)
    on_its_way = Remembered("first", "digest", "", "")
    folded = script.update({TTL: b"3"}, on=Seen({TTL: b"2"}, "first"), remembered=(*known, on_its_way))
    assert not folded.stale and script.document == script.shown() and script.due()
    script.restate()
    assert join(script, last=1).state.remembers("overtaken") is not None and not script.due()


def test_a_repair_is_due_after_a_newcomers_event_that_lacks_an_applied_request() -> None:
    script = Script()
    script.update({TTL: b"0"}, request_id="earlier")
    script.broker({RATE: b"1"})
    newcomer = join(script, last=1)
    assert newcomer.state.remembers("earlier") is None
    newcomer.update({TTL: b"2"}, event_id="newcomer's", request_id="newcomer's")
    event = newcomer.log[-1].event
    assert event is not None and not script.put(event).stale
    assert script.document == script.shown() and script.due()
    script.restate()
    assert join(script, last=1).state.remembers("earlier") is not None and not script.due()


def test_a_repair_is_due_after_an_event_that_a_reader_of_it_alone_takes_as_skipped() -> None:
    script = Script()
    script.update({TTL: b"1"})
    folded = script.update({TTL: b"2"}, on=Seen(None, ""), skip_if_absent=True, remembered=script.state.remembered)
    assert folded.status is Status.APPLIED and script.document == script.shown() == {TTL: b"2"} and script.due()
    script.restate()
    newcomer = join(script, last=1)
    assert (newcomer.document, newcomer.version) == (script.document, script.version) and not script.due()


def test_a_deletion_is_followed_by_a_tombstone_that_changes_nothing() -> None:
    script = Script()
    script.update({TTL: b"1"})
    script.delete()
    assert script.gone() and script.shown() == {} and script.due()
    event = restatement(KEY, script.state, "t")
    assert event.document is None and event.stamp is not None
    assert (event.stamp.kind, event.stamp.head_version) == (StampKind.TOMBSTONE, "000002")
    folded = script.restate()
    assert folded.status is Status.RESTATED and not folded.changed and script.version == "000002"
    assert script.shown() is None and not script.due()


def test_a_tombstone_after_a_concurrent_change_loses_nothing() -> None:
    script = Script()
    script.update({TTL: b"1"})
    script.delete()
    late = restatement(KEY, script.state, "late")
    script.update({RATE: b"2"})
    script.put(late)
    assert script.document == {RATE: b"2"} and script.shown() is None and script.due()
    script.restate()
    assert script.shown() == {RATE: b"2"} and not script.due()


def test_a_deleted_document_that_brokers_still_show_is_emptied_before_its_tombstone() -> None:
    script = Script()
    script.update({TTL: b"1"})
    late = restatement(KEY, script.state, "late")
    script.delete()
    script.put(late)
    assert script.gone() and script.shown() == {TTL: b"1"} and script.due()
    first = restatement(KEY, script.state, "first")
    assert first.document == {} and first.action is Action.UPDATE and first.stamp is not None and first.stamp.kind is StampKind.TOMBSTONE
    script.put(first)
    assert script.due()
    second = restatement(KEY, script.state, "second")
    assert second.document is None
    script.put(second)
    assert script.gone() and script.version == "000002" and not script.due()


def test_the_document_of_a_skipped_operation_is_removed_from_brokers_by_repairs() -> None:
    script = Script()
    script.update({TTL: b"1"}, skip_if_absent=True)
    assert script.shown() == {TTL: b"1"} and script.due()
    script.restate()
    script.restate()
    assert script.shown() is None and not script.due()


def test_a_reader_of_the_newest_event_alone_gets_the_head_exactly_if_no_repair_is_due() -> None:
    script = Script()
    old = script.seen()
    outcomes: set[bool] = set()

    def check() -> None:
        alone = KeyState()
        fold(alone, script.log[-1], FoldContext(joining=True))
        same = alone.document == script.document and (script.gone() or alone.version == script.version)
        stamp = script.log[-1].event.stamp if script.log[-1].event is not None else None
        if same and stamp is not None and not script.gone():  # a broker's event remembers nothing
            same = {each.request_id for each in script.state.remembered} <= {each.request_id for each in alone.remembered}
        assert (same and alone.raw == script.document) == (not script.due())
        outcomes.add(script.due())

    script.update({TTL: b"1"})
    check()
    steps: list[Callable[[], Folded]] = [
        lambda: script.update({RATE: b"2"}, on=old),
        script.restate,
        lambda: script.update({SIZE: b"2"}, etag="000000"),
        script.restate,
        lambda: script.broker({SIZE: b"3"}, on={TTL: b"1"}),
        lambda: script.write(None),
        lambda: script.update({TTL: b"1"}, remembered=script.state.remembered),
        lambda: script.update({TTL: b"2"}, on=Seen(None, "")),
        script.restate,
        lambda: script.write({RATE: b"1"}, action=Action.NONE),
        script.restate,
        lambda: script.write({RATE: b"5"}, action=Action.INSERT),
    ]
    for step in steps:
        step()
        check()
    assert outcomes == {True, False}


def test_a_restatement_of_an_unknown_version_is_not_believed_by_a_full_reader() -> None:
    script = Script()
    script.update({TTL: b"1"})
    for since in ("000001", "000001x"):
        folded = script.claim({TTL: b"9"}, "000001x", since=since)
        assert not folded.changed and script.document == {TTL: b"1"} and script.due()


def test_a_contradiction_is_not_believed_however_often_it_is_repeated() -> None:
    script = stale_pair()
    script.restate()
    for _ in range(5):
        script.claim({TTL: b"9"}, script.version)
    assert script.document == {TTL: b"1", RATE: b"2"} and script.due()


def test_two_sidecars_that_cannot_agree_do_not_repair_for_ever() -> None:
    here, there = stale_pair(), stale_pair()
    there.state.document = {TTL: b"9"}  # folded by other rules
    repairs = 0
    while here.due() or there.due():
        writer, reader = (here, there) if here.due() else (there, here)
        event = restatement(KEY, writer.state, f"repair-{repairs}")
        repairs += 1
        assert repairs < 20
        for script in (writer, reader):
            script.put(event)
    assert here.document == there.document == here.shown()
    assert repairs > 2


def test_two_sidecars_that_disagree_about_the_version_agree_in_the_end() -> None:
    here, there = Script(), Script()
    for script in (here, there):
        script.update({TTL: b"1"}, event_id="same")
    there.state.document, there.state.version = {TTL: b"2"}, "000002"
    there.state.repair_due = True
    for number in range(20):
        writer = here if here.due() else there
        if not writer.due():
            break
        event = restatement(KEY, writer.state, f"repair-{number}")
        for script in (here, there):
            script.put(event)
    assert not here.due() and not there.due()
    assert here.document == there.document and here.version == there.version


def test_a_stale_repair_of_an_unknown_key_creates_no_document() -> None:
    script = Script()
    script.claim({TTL: b"1"}, "000000x")
    assert script.gone() and script.due()
    assert restatement(KEY, script.state, "t").document == {}


def test_the_base_is_the_version_or_empty_without_a_document() -> None:
    script = Script()
    assert script.state.base == ""
    script.update({TTL: b"1"})
    assert script.seen() == Seen({TTL: b"1"}, "000001")
    script.delete()
    assert script.state.base == ""


def test_a_late_restatement_of_an_older_absence_removes_no_remembered_request() -> None:
    script = Script()
    script.update({TTL: b"1"}, request_id="first")
    script.delete()
    late = restatement(KEY, script.state, "tombstone")
    for number in range(REMEMBERED_REQUESTS):
        script.update({TTL: b"%d" % number}, request_id=f"later-{number}")
    script.delete()
    newest = script.state.remembered
    script.put(late)
    assert script.gone() and script.state.remembered == newest
