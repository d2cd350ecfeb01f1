"""Answers to requests that write nothing, in a shared log: they wait until the view has read up to the log's end at their arrival."""

from __future__ import annotations

import pytest

from tests.core.chains import FIELD, KEY, LOST, Bench
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.chains.request import Outcome, Result
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.events import ABSENT, Action, Event, Stamp, StampKind

CONSUMERS = "max_consumer_per_topic"
UNKNOWN = "the end of the log is unknown"


@pytest.fixture
def bench() -> Bench:
    """A bench with one document, at version 0001, in a log that has other writers."""
    bench = Bench(shared=True, queue=10)
    bench.set(1)
    bench.land()
    return bench


# One answer


def test_an_update_that_changes_nothing_is_answered_once_it_is_confirmed(bench: Bench) -> None:
    same = bench.set(1)
    assert bench.open(same) and bench.unconfirmed == [same]
    bench.confirm()
    assert bench.result(same)[:1] + bench.result(same)[2:4] == (Outcome.UNCHANGED, "0001", "0001")
    assert not bench.wanted and not bench.sequencer.chains


def test_an_update_that_seemed_to_change_nothing_is_written_if_another_writer_had_changed_the_value(bench: Bench) -> None:
    same = bench.set(1)
    bench.elsewhere(2)
    bench.confirm()
    assert bench.open(same) and not bench.unconfirmed
    bench.land()
    assert bench.result(same)[:1] + bench.result(same)[2:4] == (Outcome.APPLIED, "0003", "0002")
    assert bench.document() == TopicPolicies(max_producer_per_topic=1)


def test_a_document_counts_as_absent_only_once_that_is_confirmed() -> None:
    bench = Bench(shared=True)
    skipped = bench.set(5, skip_if_absent=True)
    bench.elsewhere(2)
    bench.confirm()
    assert bench.open(skipped)
    bench.land_all()
    assert bench.result(skipped).outcome is Outcome.APPLIED


def test_a_deletion_is_written_if_another_writer_had_made_the_document() -> None:
    bench = Bench(shared=True)
    deleted = bench.submit(bench.deletion())
    assert bench.open(deleted)
    bench.elsewhere(2)
    bench.confirm()
    bench.land_all()
    assert bench.result(deleted).outcome is Outcome.APPLIED and bench.states[KEY].document is None


def test_a_confirmed_absence_is_the_answer_to_a_skipped_update_and_a_deletion() -> None:
    bench = Bench(shared=True)
    skipped, deleted = bench.set(5, skip_if_absent=True), bench.submit(bench.deletion())
    bench.confirm()
    bench.confirm()
    assert bench.result(skipped)[:4] == (Outcome.SKIPPED, None, ABSENT, ABSENT)
    assert bench.result(deleted)[:4] == (Outcome.UNCHANGED, None, ABSENT, ABSENT)


def test_a_dry_run_is_computed_on_the_document_at_its_confirmation(bench: Bench) -> None:
    changing, same = bench.set(5, field=CONSUMERS, validate_only=True), bench.set(1, validate_only=True)
    assert bench.open(changing) and bench.open(same)
    bench.elsewhere(2)
    bench.confirm()
    bench.confirm()
    assert (bench.result(changing).outcome, bench.result(changing).version) == (Outcome.WOULD_APPLY, "0002")
    assert bench.result(same).outcome is Outcome.WOULD_APPLY
    assert not bench.wanted and not bench.sequencer.chains


def test_a_document_that_may_have_been_deleted_conflicts_with_must_not_exist_only_once_confirmed(bench: Bench) -> None:
    create = bench.set(7, exists=False)
    assert bench.open(create) and bench.unconfirmed == [create]
    bench.land(Event(KEY, Action.UPDATE, {}, Stamp("theirs", StampKind.DELETE, "their-request")))
    bench.confirm()
    bench.land()
    assert bench.result(create).outcome is Outcome.APPLIED


def test_an_etag_that_the_log_may_still_reach_conflicts_only_once_confirmed(bench: Bench) -> None:
    following, wrong = bench.set(7, version="0002"), bench.set(8, version="0003")
    bench.elsewhere(1, field=CONSUMERS)
    bench.confirm()
    bench.land_all()
    assert bench.result(following).previous == "0002"
    assert bench.result(wrong).previous == "0003"
    never = bench.set(9, version="0099")
    bench.confirm()
    assert bench.error(never).reason == "PRECONDITION_FAILED"


def test_an_etag_older_than_the_keys_version_conflicts_at_once(bench: Bench) -> None:
    bench.set(2)
    bench.land()
    assert bench.error(bench.set(3, version="0001")).reason == "PRECONDITION_FAILED"
    assert not bench.unconfirmed


def test_a_conditional_update_without_effect_conflicts_if_another_writer_had_changed_the_document(bench: Bench) -> None:
    same = bench.set(1, version="0001")
    bench.elsewhere(2)
    bench.confirm()
    assert bench.error(same).reason == "PRECONDITION_FAILED"


def test_a_repeat_of_a_request_that_another_sidecar_applied_meanwhile_gets_that_answer(bench: Bench) -> None:
    same = bench.set(1, request_id="same")
    bench.elsewhere(1, request_id="same", digest=f"{FIELD}=1")
    bench.elsewhere(2)
    bench.confirm()
    assert bench.result(same)[2:5] == ("0002", "0001", True)
    assert not bench.wanted


# Chains with unconfirmed requests


def test_updates_behind_an_unconfirmed_one_wait_for_it_and_are_computed_on_its_result(bench: Bench) -> None:
    same, later = bench.set(1), bench.set(5, field=CONSUMERS)
    assert not bench.wanted
    bench.elsewhere(2)
    bench.confirm()
    bench.land_all()
    assert bench.result(same).version == "0003"
    assert bench.result(later).version == "0004"
    assert bench.document() == TopicPolicies(max_producer_per_topic=1, max_consumer_per_topic=5)


def test_an_update_without_effect_waits_for_the_event_in_flight_and_the_confirmation(bench: Bench) -> None:
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


def test_an_update_that_waited_as_sole_writer_needs_a_confirmation_once_the_log_is_shared() -> None:
    bench = Bench()
    bench.set(2)
    same = bench.set(2)
    assert not bench.unconfirmed
    bench.others_write = True
    bench.land()
    assert bench.open(same) and bench.unconfirmed == [same]
    bench.confirm()
    assert bench.result(same).outcome is Outcome.UNCHANGED


def test_a_stream_keeps_its_order_if_its_unconfirmed_request_must_be_written(bench: Bench) -> None:
    batch: dict[PolicyKey, int] = {}
    first, second = bench.set(1, batch=batch), bench.set(5, batch=batch)
    other = bench.set(8, field=CONSUMERS)
    assert len(bench.wanted) == 0, "the second must not be written before it is known whether the first is"
    bench.elsewhere(2)
    bench.confirm()
    bench.land_all()
    assert [bench.result(request).version for request in (first, second, other)] == ["0003", "0004", "0005"]
    assert bench.document() == TopicPolicies(max_producer_per_topic=5, max_consumer_per_topic=8)


def test_one_confirmation_is_of_all_requests_that_had_arrived_before_the_log_was_asked(bench: Bench) -> None:
    requests = [bench.set(1) for _ in range(8)]
    assert bench.unconfirmed == requests[:1]
    bench.confirm()
    assert bench.unconfirmed == requests[1:2]
    bench.confirm()
    assert {bench.result(request).outcome for request in requests} == {Outcome.UNCHANGED}


def test_the_number_of_requests_that_wait_for_a_confirmation_is_bounded(bench: Bench) -> None:
    waiting = [bench.set(1, validate_only=number % 2 == 0) for number in range(10)]
    assert bench.error(bench.set(1)).reason == "LIMIT_REACHED"
    assert bench.error(bench.set(1, validate_only=True)).reason == "LIMIT_REACHED"
    bench.confirm()
    bench.confirm()
    assert {bench.result(request).outcome for request in waiting} == {Outcome.UNCHANGED}


# No answer


def test_a_failed_confirmation_fails_only_the_requests_that_waited_for_it(bench: Bench) -> None:
    same, dry, changing = bench.set(1), bench.set(1, validate_only=True), bench.set(5, field=CONSUMERS)
    bench.sequencer.confirmed([same, dry], UNKNOWN)
    bench.perform()
    for request in (same, dry):
        assert UNKNOWN in bench.error(request).message
        assert bench.error(request).metadata == {"request_id": request.request_id}
    bench.land()
    assert bench.result(changing).outcome is Outcome.APPLIED
    assert not bench.sequencer.chains


def test_a_failed_confirmation_does_not_fail_a_request_that_was_confirmed_before(bench: Bench) -> None:
    same = bench.set(1)
    bench.elsewhere(2)
    bench.confirm()
    bench.sequencer.confirmed([same], UNKNOWN)
    bench.perform()
    bench.land()
    assert bench.result(same).outcome is Outcome.APPLIED


def test_a_request_withdrawn_during_its_confirmation_changes_nothing(bench: Bench) -> None:
    same, dry = bench.set(1), bench.set(1, validate_only=True)
    assert bench.sequencer.withdraw(same) and bench.sequencer.withdraw(dry)
    bench.elsewhere(2)
    bench.confirm()
    assert not bench.wanted and not bench.sequencer.chains
    assert bench.open(dry)


def test_a_repeat_of_a_request_withdrawn_during_its_confirmation_gets_its_own_confirmation(bench: Bench) -> None:
    first = bench.set(1, request_id="same")
    assert bench.sequencer.withdraw(first), "its caller got the answer that nothing was done"
    bench.elsewhere(2)
    bench.elsewhere(1)
    answers: list[Result | PolicyError] = []
    repeat = bench.request(1, request_id="same", on_answer=lambda _, answer: answers.append(answer))
    bench.submit(repeat)
    assert bench.unconfirmed == [first, repeat]
    bench.confirm(first)
    bench.elsewhere(2)
    assert not answers
    bench.confirm(repeat)
    bench.land()
    (answer,) = answers
    assert isinstance(answer, Result) and answer.outcome is Outcome.APPLIED
    assert bench.document() == TopicPolicies(max_producer_per_topic=1)


def test_unconfirmed_requests_fail_when_the_namespace_is_abandoned(bench: Bench) -> None:
    same, dry = bench.set(1), bench.set(1, validate_only=True)
    bench.sequencer.abandon(LOST)
    bench.perform()
    assert bench.error(same) is LOST and bench.error(dry) is LOST
    bench.confirm()
    assert not bench.sequencer.chains
