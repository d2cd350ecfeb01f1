"""Answers that write nothing, where others write too: none is given before the view has come to where the log ended at the arrival."""

from __future__ import annotations

import pytest

from tests.core.chains import FIELD, KEY, LOST, Bench
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.chains.sequencer import Outcome, Request, Result
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.events import ABSENT, Action, Event, Stamp, StampKind
from topicpolicies_server.core.reasons import Reason

CONSUMERS = "max_consumer_per_topic"
UNKNOWN = PolicyError(Kind.UNAVAILABLE, Reason.NOT_CONFIRMED, "Nobody tells where the log ends.")


@pytest.fixture
def bench() -> Bench:
    """One document, at version 0001, in a log that others write too."""
    bench = Bench(shared=True, queue=10)
    bench.set(1)
    bench.land()
    return bench


# One answer


def test_nothing_to_change_is_told_when_the_view_has_come_to_the_end_of_the_log(bench: Bench) -> None:
    same = bench.set(1)
    assert bench.open(same) and bench.unconfirmed == [same]
    bench.confirm()
    assert bench.result(same)[:1] + bench.result(same)[2:4] == (Outcome.UNCHANGED, "0001", "0001")
    assert not bench.wanted and bench.sequencer.chains == 0


def test_what_others_had_changed_by_then_is_set_again(bench: Bench) -> None:
    same = bench.set(1)
    bench.elsewhere(2)
    bench.confirm()
    assert bench.open(same) and not bench.unconfirmed
    bench.land()
    assert bench.result(same)[:1] + bench.result(same)[2:4] == (Outcome.APPLIED, "0003", "0002")
    assert bench.document() == TopicPolicies(max_producer_per_topic=1)


def test_what_another_sidecar_writes_before_the_confirmation_does_not_replace_it(bench: Bench) -> None:
    same = bench.set(1)
    bench.elsewhere(1, field=CONSUMERS)
    assert bench.open(same)
    bench.confirm()
    assert bench.result(same).version == "0002"


def test_nothing_is_skipped_and_nothing_is_absent_before_it_is_known() -> None:
    bench = Bench(shared=True)
    skipped, deleted = bench.set(5, skip_if_absent=True), bench.submit(bench.deletion())
    bench.elsewhere(2)
    bench.confirm()
    assert bench.open(skipped) and bench.open(deleted)
    bench.land_all()
    assert bench.result(skipped).outcome is Outcome.APPLIED
    assert bench.result(deleted).outcome is Outcome.APPLIED
    assert bench.states[KEY].document is None


def test_what_is_absent_indeed_is_told_so() -> None:
    bench = Bench(shared=True)
    skipped, deleted = bench.set(5, skip_if_absent=True), bench.submit(bench.deletion())
    bench.confirm()
    assert bench.result(skipped)[:4] == (Outcome.SKIPPED, None, ABSENT, ABSENT)
    assert bench.result(deleted)[:4] == (Outcome.UNCHANGED, None, ABSENT, ABSENT)


def test_a_dry_run_tells_what_would_be_of_what_was_there_when_it_came(bench: Bench) -> None:
    changing, same = bench.set(5, field=CONSUMERS, validate_only=True), bench.set(1, validate_only=True)
    assert bench.open(changing) and bench.open(same)
    bench.elsewhere(2)
    bench.confirm()
    assert (bench.result(changing).outcome, bench.result(changing).version) == (Outcome.WOULD_APPLY, "0002")
    assert bench.result(same).outcome is Outcome.WOULD_APPLY
    assert not bench.wanted and bench.sequencer.chains == 0


def test_a_document_that_may_have_been_deleted_is_no_conflict_yet(bench: Bench) -> None:
    create = bench.set(7, must_not_exist=True)
    assert bench.open(create) and bench.unconfirmed == [create]
    bench.land(Event(KEY, Action.UPDATE, {}, Stamp("theirs", StampKind.DELETE, "their-request")))
    bench.confirm()
    bench.land()
    assert bench.result(create).outcome is Outcome.APPLIED


def test_a_version_that_may_be_still_to_come_is_no_conflict_yet(bench: Bench) -> None:
    following, wrong = bench.set(7, etag="0002"), bench.set(8, etag="0003")
    bench.elsewhere(1, field=CONSUMERS)
    bench.confirm()
    bench.land_all()
    assert bench.result(following).previous == "0002"
    assert bench.result(wrong).previous == "0003"
    never = bench.set(9, etag="0099")
    bench.confirm()
    assert bench.error(never).reason == "ETAG_MISMATCH"


def test_a_version_that_the_key_has_left_behind_is_a_conflict_at_once(bench: Bench) -> None:
    bench.set(2)
    bench.land()
    assert bench.error(bench.set(3, etag="0001")).reason == "ETAG_MISMATCH"
    assert not bench.unconfirmed


def test_an_update_of_the_demanded_version_that_changes_nothing_conflicts_with_what_others_had_written(bench: Bench) -> None:
    same = bench.set(1, etag="0001")
    bench.elsewhere(2)
    bench.confirm()
    assert bench.error(same).reason == "ETAG_MISMATCH"


def test_a_repeat_of_what_another_sidecar_applied_meanwhile_gets_its_answer(bench: Bench) -> None:
    same = bench.set(1, request_id="same")
    bench.elsewhere(1, request_id="same", digest=f"{FIELD}=1")
    bench.elsewhere(2)
    bench.confirm()
    assert bench.result(same)[2:5] == ("0002", "0001", True)
    assert not bench.wanted


def test_where_nobody_else_writes_nothing_is_asked() -> None:
    bench = Bench()
    assert bench.result(bench.submit(bench.deletion())).outcome is Outcome.UNCHANGED
    assert bench.result(bench.set(1, validate_only=True)).outcome is Outcome.WOULD_APPLY
    assert not bench.unconfirmed


# A chain with it


def test_the_chain_goes_on_meanwhile_and_what_others_changed_is_set_on_top_of_it(bench: Bench) -> None:
    same, later = bench.set(1), bench.set(5, field=CONSUMERS)
    assert len(bench.wanted) == 1
    bench.elsewhere(2)
    bench.land()
    assert bench.result(later).outcome is Outcome.APPLIED and bench.open(same)
    bench.confirm()
    bench.land()
    assert bench.result(same).version == "0004"
    assert bench.document() == TopicPolicies(max_producer_per_topic=1, max_consumer_per_topic=5)


def test_behind_what_is_in_flight_it_waits_for_both(bench: Bench) -> None:
    bench.set(2)
    same = bench.set(2)
    bench.confirm()
    assert bench.open(same)
    bench.land()
    assert bench.result(same).outcome is Outcome.UNCHANGED
    again = bench.set(3)
    other = bench.set(3)
    bench.land()
    assert bench.open(other) and bench.result(again).version == "0003"
    bench.confirm()
    assert bench.result(other).version == "0003"


def test_what_waited_while_nobody_else_wrote_is_doubted_once_others_do() -> None:
    bench = Bench()
    bench.set(2)
    same = bench.set(2)
    assert not bench.unconfirmed
    bench.shared = True
    bench.land()
    assert bench.open(same) and bench.unconfirmed == [same]
    bench.confirm()
    assert bench.result(same).outcome is Outcome.UNCHANGED


def test_a_stream_keeps_its_order_where_something_is_to_be_written_after_all(bench: Bench) -> None:
    stream: dict[PolicyKey, list[Request]] = {}
    first, second = bench.set(1, stream=stream), bench.set(5, stream=stream)
    other = bench.set(8, field=CONSUMERS)
    assert len(bench.wanted) == 0, "the second must not be written before it is known whether the first is"
    bench.elsewhere(2)
    bench.confirm()
    bench.land_all()
    assert [bench.result(request).version for request in (first, second, other)] == ["0003", "0004", "0005"]
    assert bench.document() == TopicPolicies(max_producer_per_topic=5, max_consumer_per_topic=8)
    assert not stream


def test_requests_of_a_stream_that_change_nothing_do_not_wait_for_each_other(bench: Bench) -> None:
    stream: dict[PolicyKey, list[Request]] = {}
    requests = [bench.set(1, stream=stream) for _ in range(8)]
    assert bench.unconfirmed == requests
    bench.confirm()
    assert {bench.result(request).outcome for request in requests} == {Outcome.UNCHANGED}
    assert not stream


def test_of_two_in_a_stream_that_seemed_to_change_nothing_the_second_has_the_last_word(bench: Bench) -> None:
    stream: dict[PolicyKey, list[Request]] = {}
    first = bench.set(1, stream=stream)
    bench.elsewhere(2)
    second = bench.set(2, stream=stream)
    assert bench.unconfirmed == [first, second]
    bench.confirm(first)
    bench.confirm(second)
    assert bench.open(second), "it follows the first"
    bench.land_all()
    assert bench.result(first).version == "0003"
    assert bench.result(second).version == "0004"
    assert bench.document() == TopicPolicies(max_producer_per_topic=2)
    assert not stream


def test_what_waits_to_be_confirmed_is_bounded(bench: Bench) -> None:
    waiting = [bench.set(1) for _ in range(10)]
    assert bench.error(bench.set(1)).reason == "TOO_MANY_UPDATES"
    dry = [bench.set(1, validate_only=True) for _ in range(10)]
    assert bench.error(bench.set(1, validate_only=True)).reason == "TOO_MANY_UPDATES"
    bench.confirm()
    assert {bench.result(request).outcome for request in (*waiting, *dry)} == {Outcome.UNCHANGED}


# No answer


def test_where_nobody_tells_the_end_they_fail_with_nothing_done_and_nobody_else_does(bench: Bench) -> None:
    same, dry, changing = bench.set(1), bench.set(1, validate_only=True), bench.set(5, field=CONSUMERS)
    bench.perform(bench.sequencer.confirmation_failed([same, dry], UNKNOWN))
    assert bench.error(same) is UNKNOWN and bench.error(dry) is UNKNOWN
    bench.land()
    assert bench.result(changing).outcome is Outcome.APPLIED
    assert bench.sequencer.chains == 0


def test_a_failed_question_settles_nothing_that_was_confirmed_before(bench: Bench) -> None:
    same = bench.set(1)
    bench.elsewhere(2)
    bench.confirm()
    bench.perform(bench.sequencer.confirmation_failed([same], UNKNOWN))
    bench.land()
    assert bench.result(same).outcome is Outcome.APPLIED


def test_who_gives_up_while_it_is_asked_has_certainly_changed_nothing(bench: Bench) -> None:
    same, dry = bench.set(1), bench.set(1, validate_only=True)
    assert bench.sequencer.withdraw(same) and bench.sequencer.withdraw(dry)
    bench.elsewhere(2)
    bench.confirm()
    assert not bench.wanted and bench.sequencer.chains == 0
    assert bench.open(dry)


def test_a_repeat_of_one_whose_caller_gave_up_while_it_was_asked_is_asked_for_by_itself(bench: Bench) -> None:
    first = bench.set(1, request_id="same")
    assert bench.sequencer.withdraw(first), "its caller was told that nothing was done"
    bench.elsewhere(2)
    bench.elsewhere(1)
    told: list[Result | PolicyError] = []
    repeat = bench.request(1, request_id="same", on_answer=lambda _, answer: told.append(answer))
    bench.submit(repeat)
    assert bench.unconfirmed == [first, repeat]
    bench.confirm(first)
    bench.elsewhere(2)
    assert not told
    bench.confirm(repeat)
    bench.land()
    (answer,) = told
    assert isinstance(answer, Result) and answer.outcome is Outcome.APPLIED
    assert bench.document() == TopicPolicies(max_producer_per_topic=1)


def test_whoever_is_left_when_the_namespace_is_given_up_is_told(bench: Bench) -> None:
    same, dry = bench.set(1), bench.set(1, validate_only=True)
    bench.perform(bench.sequencer.abandon(LOST))
    assert bench.error(same) is LOST and bench.error(dry) is LOST
    bench.confirm()
    assert bench.sequencer.chains == 0
