"""The sequencer: chains of updates, pipelined, over a log that the tests write by hand."""

from __future__ import annotations

import pytest

from tests.core.chains import FIELD, KEY, LOST, Bench
from topicpolicies.v1.policies_pb2 import RetentionPolicies, TopicPolicies
from topicpolicies.v1.service_pb2 import ListOperation
from topicpolicies_server.core.chains.request import Outcome, Request, Result
from topicpolicies_server.core.chains.sequencer import ATTEMPTS
from topicpolicies_server.core.changes.change import Change, compile_change
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.fold.fold import Status
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import WHOLE, join, whole_digest
from topicpolicies_server.core.policies.events import ABSENT, Action, Event, Remembered, StampKind


@pytest.fixture
def bench() -> Bench:
    return Bench()


def retention(size: int, minutes: int | None) -> RetentionPolicies:
    return RetentionPolicies(retention_size_in_mb=size, retention_time_in_minutes=minutes)


def whole(size: int, minutes: int) -> Change:
    return compile_change(TopicPolicies(retention_policies=retention(size, minutes)), ["retention_policies"], {})


LEAF = compile_change(TopicPolicies(retention_policies=retention(9, None)), ["retention_policies.retention_size_in_mb"], {})
"""A change that reads the other leaf of its setting."""


# A chain


def test_an_update_is_answered_with_its_result_when_its_event_is_folded(bench: Bench) -> None:
    one = bench.set(1)
    assert bench.open(one)
    bench.land()
    two = bench.set(2)
    bench.land()
    assert bench.result(one)[:1] + bench.result(one)[2:4] == (Outcome.APPLIED, "0001", ABSENT)
    assert bench.result(two)[2:4] == ("0002", "0001")
    document = bench.result(two).document
    assert document is not None and join(document).max_producer_per_topic == 2


def test_an_update_is_computed_on_the_result_of_the_updates_in_flight_before_it(bench: Bench) -> None:
    bench.set(1)
    bench.set(7, field="max_consumer_per_topic")
    bench.set(3)
    assert len(bench.wanted) == 3
    last = bench.wanted[-1].document
    assert last is not None and join(last) == TopicPolicies(max_producer_per_topic=3, max_consumer_per_topic=7)
    bench.land_all()
    assert bench.document() == TopicPolicies(max_producer_per_topic=3, max_consumer_per_topic=7)


def test_no_more_events_are_in_flight_than_the_depth_and_further_updates_wait() -> None:
    bench = Bench(depth=2)
    requests = [bench.set(value) for value in range(1, 6)]
    assert len(bench.wanted) == 2
    bench.land()
    assert len(bench.wanted) == 2
    bench.land_all()
    assert [bench.result(request).version for request in requests] == ["0001", "0002", "0003", "0004", "0005"]


def test_an_update_is_refused_when_the_queue_is_full() -> None:
    bench = Bench(depth=1, queue=2)
    requests = [bench.set(value) for value in range(1, 5)]
    assert bench.error(requests[3]).kind is Kind.RESOURCE_EXHAUSTED
    bench.land_all()
    assert all(bench.result(request).outcome is Outcome.APPLIED for request in requests[:3])


# Conditions


def test_an_etag_is_compared_with_the_version_that_the_updates_before_it_have_made(bench: Bench) -> None:
    bench.set(1)
    right, wrong = bench.set(2, version="0001"), bench.set(3, version="0001")
    assert len(bench.wanted) == 1
    bench.land()
    bench.land()
    assert bench.result(right).previous == "0001"
    assert bench.error(wrong).reason == "PRECONDITION_FAILED"
    assert bench.error(wrong).metadata["version"] == "0002"


def test_an_update_with_an_etag_is_rejected_by_the_fold_if_another_writer_was_faster(bench: Bench) -> None:
    bench.set(1)
    bench.land()
    mine = bench.set(2, version="0001")
    bench.land(Event(KEY, Action.UPDATE, {**(bench.states[KEY].document or {}), "compaction_threshold": b"\x18\x05"}))
    assert bench.land().status is Status.REJECTED_ETAG
    assert bench.error(mine).metadata["version"] == "0002"


def test_an_update_with_an_etag_in_the_global_scope_has_the_digest_of_the_whole_document(bench: Bench) -> None:
    for scope in Scope:
        key = KEY._replace(scope=scope)
        bench.set(1, key=key)
        bench.land()
        version, document = bench.states[key].version, bench.states[key].document
        bench.set(2, key=key, version=version)
        stamp = bench.wanted[0].stamp
        assert stamp is not None and stamp.reads == ({WHOLE: whole_digest(document)} if scope is Scope.GLOBAL else {})
        bench.land()


def test_a_deletion_is_an_event_with_everything_unset_and_then_a_tombstone(bench: Bench) -> None:
    bench.set(1)
    deletion = bench.submit(bench.deletion())
    bench.land_all()
    assert bench.result(deletion).outcome is Outcome.APPLIED
    assert [(event.action, event.document) for event in bench.log[1:]] == [(Action.UPDATE, {}), (Action.DELETE, None)]
    assert [event.stamp.kind for event in bench.log[1:] if event.stamp is not None] == [StampKind.DELETE, StampKind.TOMBSTONE]
    assert bench.result(bench.submit(bench.deletion())).outcome is Outcome.UNCHANGED


# Updates that change nothing


def test_an_update_that_changes_nothing_writes_nothing_and_returns_the_document(bench: Bench) -> None:
    bench.set(1)
    bench.land()
    same = bench.set(1)
    assert bench.result(same)[:1] + bench.result(same)[2:4] == (Outcome.UNCHANGED, "0001", "0001")
    assert bench.result(same).document == bench.states[KEY].document
    assert not bench.wanted


def test_after_a_failure_an_update_that_seemed_to_have_no_effect_is_written_before_all_later_updates(bench: Bench) -> None:
    bench.set(1)
    same, later = bench.set(1), bench.set(5, field="max_consumer_per_topic")
    bench.fail(bench.wanted.popleft(), outcome_unknown=False)
    document = bench.wanted[-1].document
    assert document is not None and join(document) == TopicPolicies(max_producer_per_topic=1, max_consumer_per_topic=5)
    bench.land_all()
    assert bench.result(same).version < bench.result(later).version
    fresh = bench.set(5, field="max_consumer_per_topic")
    assert bench.result(fresh).document == bench.states[KEY].document


# Failures


def test_an_unacknowledged_event_that_was_in_the_log_after_all_is_applied_once(bench: Bench) -> None:
    request = bench.set(1)
    event = bench.wanted.popleft()
    bench.fail(event, outcome_unknown=True)
    bench.land(event)  # the first copy is read
    assert bench.result(request).version == "0001"
    assert bench.land().status is Status.DUPLICATE
    assert bench.states[KEY].version == "0001"


def test_an_unacknowledged_event_is_not_appended_again_while_later_events_are_in_flight(bench: Bench) -> None:
    first, second = bench.set(1), bench.set(2, field="max_consumer_per_topic")
    bench.fail(bench.wanted.popleft(), outcome_unknown=True)
    assert len(bench.wanted) == 1
    bench.land()  # the second event: so the first is not in the log, and is computed again
    assert bench.open(first)
    bench.land()
    assert bench.result(second).version < bench.result(first).version
    assert bench.document() == TopicPolicies(max_producer_per_topic=1, max_consumer_per_topic=2)


def test_nothing_is_computed_on_an_event_that_a_later_one_has_shown_to_be_missing(bench: Bench) -> None:
    first = bench.set(1)
    lost = bench.wanted.popleft()  # the news of that is still to come
    second = bench.set(2, field="max_consumer_per_topic")
    bench.land()
    third = bench.set(3, field="message_ttl_in_seconds")
    event = bench.wanted[0]
    assert event.stamp is not None and event.document is not None
    assert join(event.document) == TopicPolicies(max_consumer_per_topic=2, message_ttl_in_seconds=3)
    assert event.stamp.base == "0001"
    assert [request.request_id for request in event.stamp.remembered] == [second.request_id]
    bench.land()
    assert bench.open(first)
    bench.fail(lost, outcome_unknown=True)
    bench.land_all()
    assert bench.result(first).previous == bench.result(third).version
    assert bench.document() == TopicPolicies(max_producer_per_topic=1, max_consumer_per_topic=2, message_ttl_in_seconds=3)


def test_of_several_unacknowledged_events_the_last_is_appended_again_and_settles_the_others(bench: Bench) -> None:
    requests = [bench.set(value) for value in (1, 2, 3)]
    events = [bench.wanted.popleft() for _ in requests]
    for event in events:
        bench.fail(event, outcome_unknown=True)
    assert list(bench.wanted) == events[2:]
    bench.land(events[1])  # it was there
    assert bench.result(requests[1]).version == "0001"
    bench.land_all()
    assert all(bench.result(request).outcome is Outcome.APPLIED for request in requests)
    assert [event.stamp.request_id for event in bench.log if event.stamp] == ["request-1", "request-2", "request-0"]


def test_requests_of_one_stream_are_never_applied_out_of_order(bench: Bench) -> None:
    batch: dict[PolicyKey, int] = {}
    first, second = bench.set(1, batch=batch), bench.set(2, batch=batch)
    bench.fail(bench.wanted.popleft(), outcome_unknown=True)
    bench.land()
    assert bench.error(first).reason == "NOT_APPENDED"
    assert bench.result(second).outcome is Outcome.APPLIED
    assert not bench.wanted


def test_the_outcome_is_unknown_if_the_second_append_of_an_event_is_refused(bench: Bench) -> None:
    request = bench.set(1)
    event = bench.wanted.popleft()
    bench.fail(event, outcome_unknown=True)
    bench.fail(bench.wanted.popleft(), outcome_unknown=False)
    assert bench.error(request).reason == "OUTCOME_UNKNOWN"
    bench.land(event)  # it was there
    repeat = bench.submit(bench.request(1, request_id=request.request_id))
    assert bench.result(repeat).version == "0001"


def test_an_unacknowledged_event_whose_caller_has_given_up_is_not_appended_again(bench: Bench) -> None:
    request = bench.set(1)
    event = bench.wanted.popleft()
    request.given_up = True
    bench.fail(event, outcome_unknown=True)
    assert not bench.wanted and not bench.sequencer.chains


def test_only_a_request_that_is_not_computed_yet_can_be_withdrawn() -> None:
    bench = Bench(depth=1)
    computed, waiting = bench.set(1), bench.set(2)
    assert not bench.sequencer.withdraw(computed)
    assert bench.sequencer.withdraw(waiting)
    bench.land_all()
    assert bench.open(waiting) and bench.document() == TopicPolicies(max_producer_per_topic=1)


def test_an_update_computed_from_a_setting_that_has_changed_is_computed_again(bench: Bench) -> None:
    bench.elsewhere(change=whole(1, 1))
    mine = bench.submit(Request(KEY, LEAF, "leaf", "digest"))
    bench.elsewhere(change=whole(5, 5))
    assert bench.land().status is Status.REJECTED_READS
    bench.land()
    assert bench.result(mine).outcome is Outcome.APPLIED
    assert bench.document() == TopicPolicies(retention_policies=retention(9, 5))


def test_an_update_that_other_writers_overtake_too_often_fails_with_contention(bench: Bench) -> None:
    bench.elsewhere(change=whole(1, 1))
    mine = bench.submit(Request(KEY, LEAF, "leaf", "digest"))
    for minutes in range(2, ATTEMPTS + 3):
        bench.elsewhere(change=whole(1, minutes))
        assert bench.land().status is Status.REJECTED_READS
    assert bench.error(mine).reason == "CONTENTION"


# Repeats


def test_a_repeat_of_a_request_in_flight_gets_that_requests_answer(bench: Bench) -> None:
    first = bench.set(1, request_id="same")
    repeat = bench.request(1, request_id="same")
    answers: list[Result | PolicyError] = []
    repeat.on_answer = lambda _, answer: answers.append(answer)
    bench.submit(repeat)
    assert len(bench.wanted) == 1 and not answers
    bench.land()
    (answer,) = answers
    assert isinstance(answer, Result) and answer.replayed and answer.version == "0001"
    assert first.repeats == []


def test_a_request_id_that_another_sidecar_used_for_another_body_is_refused_when_it_is_read(bench: Bench) -> None:
    bench.elsewhere(1)
    mine = bench.set(2, request_id="same")
    event = bench.wanted.popleft()
    bench.elsewhere(7, request_id="same", digest="another body")
    assert bench.land(event).status is Status.DUPLICATE
    error = bench.error(mine)
    assert (error.kind, error.reason) == (Kind.INVALID_ARGUMENT, "REQUEST_ID_REUSED")
    assert bench.document() == TopicPolicies(max_producer_per_topic=7)


def test_a_request_id_that_was_used_for_another_body_is_refused_when_the_log_is_reopened(bench: Bench) -> None:
    bench.set(1)
    bench.land()
    mine = bench.set(2, request_id="same")
    bench.wanted.clear()
    state = bench.states[KEY]
    state.remembered = (*state.remembered, Remembered("same", "another body", "0002", "0001"))
    bench.sequencer.reopened()
    bench.perform()
    assert bench.error(mine).reason == "REQUEST_ID_REUSED"


def test_a_request_whose_caller_gave_up_is_appended_once_more_for_its_repeat(bench: Bench) -> None:
    first = bench.set(1, request_id="same")
    event = bench.wanted.popleft()
    assert not bench.sequencer.withdraw(first)
    answers: list[Result | PolicyError] = []
    repeat = bench.request(1, request_id="same")
    repeat.on_answer = lambda _, answer: answers.append(answer)
    bench.submit(repeat)
    bench.fail(event, outcome_unknown=True)
    assert [again.stamp for again in bench.wanted] == [event.stamp], "its repeat waits for it"
    bench.land()
    (answer,) = answers
    assert isinstance(answer, Result) and (answer.outcome, answer.version) == (Outcome.APPLIED, "0001")


def test_a_request_whose_caller_gave_up_is_computed_again_for_its_repeat(bench: Bench) -> None:
    bench.elsewhere(change=whole(1, 1))
    first = bench.submit(Request(KEY, LEAF, "same", "digest"))
    assert not bench.sequencer.withdraw(first)
    bench.submit(Request(KEY, LEAF, "same", "digest"))
    bench.elsewhere(change=whole(5, 5))
    assert bench.land().status is Status.REJECTED_READS
    bench.land()
    assert bench.document() == TopicPolicies(retention_policies=retention(9, 5))


def test_a_request_is_not_appended_again_when_the_caller_of_its_repeat_has_given_up_too(bench: Bench) -> None:
    first = bench.set(1, request_id="same")
    event = bench.wanted.popleft()
    repeat = bench.set(1, request_id="same")
    assert not bench.sequencer.withdraw(first) and not bench.sequencer.withdraw(repeat)
    bench.answers.clear()
    bench.fail(event, outcome_unknown=True)
    assert not bench.wanted and not bench.sequencer.chains


def test_a_waiting_request_is_withdrawn_when_its_caller_and_those_of_its_repeats_have_given_up() -> None:
    bench = Bench(depth=1)
    bench.set(1)
    first, repeat = bench.set(2, request_id="same"), bench.set(2, request_id="same")
    assert not bench.sequencer.withdraw(first), "its repeat waits for it"
    assert bench.sequencer.withdraw(repeat)
    bench.land_all()
    assert bench.document() == TopicPolicies(max_producer_per_topic=1)


def test_a_request_that_was_sent_to_two_sidecars_is_applied_once(bench: Bench) -> None:
    request = bench.set(1, request_id="same")
    mine = bench.wanted.popleft()
    assert mine.stamp is not None
    bench.land(mine._replace(stamp=mine.stamp._replace(event_id="elsewhere")))
    assert bench.land(mine).status is Status.DUPLICATE
    assert bench.result(request)[2:5] == ("0001", ABSENT, True)


def test_a_waiting_request_that_another_sidecar_has_applied_gets_that_answer() -> None:
    bench = Bench(depth=1)
    bench.set(1)
    waiting = bench.set(2, request_id="same", version="0001")
    bench.elsewhere(2, request_id="same", digest=f"{FIELD}=2")
    bench.land()
    assert bench.result(waiting)[2:5] == ("0001", ABSENT, True)


# The log is reopened


def test_after_a_reopening_events_found_in_the_log_are_answered_and_the_others_appended_in_order(bench: Bench) -> None:
    bench.others_write = True
    found, first, second = bench.set(1), bench.set(2), bench.set(3)
    events = list(bench.wanted)
    bench.wanted.clear()
    bench.read(events[0])
    bench.sequencer.reopened()
    bench.perform()
    assert bench.result(found).version == "0001"
    assert list(bench.wanted) == events[1:]
    bench.land_all()
    assert bench.result(first).version < bench.result(second).version


@pytest.mark.parametrize("what", ["an update", "a deletion"])
def test_after_a_reopening_a_found_event_is_answered_although_its_key_was_forgotten_since(bench: Bench, what: str) -> None:
    """A key may have been deleted so long ago that the new view has forgotten it."""
    if what == "a deletion":
        bench.set(1)
        bench.land()
    asked = bench.submit(bench.deletion() if what == "a deletion" else bench.request(1))
    bench.read(bench.wanted.popleft())
    del bench.states[KEY]
    bench.sequencer.reopened()
    bench.perform()
    assert bench.result(asked).version == ("0001" if what == "an update" else "0002")
    assert not bench.wanted and not bench.sequencer.chains


@pytest.mark.parametrize("shared", [False, True])
def test_after_a_reopening_a_request_whose_event_did_not_count_is_not_applied(bench: Bench, *, shared: bool) -> None:
    bench.others_write = shared
    bench.set(1)
    bench.land()
    asked = bench.set(2, version="0001")
    event = bench.wanted.popleft()
    bench.elsewhere(3)
    assert bench.read(event).status is Status.REJECTED_ETAG
    bench.sequencer.reopened()
    bench.perform()
    if shared:
        assert bench.land().status is Status.DUPLICATE, "it may still have come"
    assert bench.error(asked).reason == ("OUTCOME_UNKNOWN" if shared else "PRECONDITION_FAILED")
    assert bench.document() == TopicPolicies(max_producer_per_topic=3)
    assert not bench.wanted and not bench.sequencer.chains


def test_after_a_reopening_an_event_that_is_not_in_the_log_of_this_writer_alone_is_computed_again(bench: Bench) -> None:
    mine = bench.set(1)
    bench.wanted.clear()
    bench.elsewhere(5, field="max_consumer_per_topic")  # by another leader
    bench.sequencer.reopened()
    bench.perform()
    assert set(bench.wanted[0].document or ()) == {FIELD, "max_consumer_per_topic"}
    bench.land()
    assert bench.result(mine).previous == "0001"


def test_after_a_reopening_a_request_overtaken_by_a_later_one_of_its_stream_is_not_appended(bench: Bench) -> None:
    batch: dict[PolicyKey, int] = {}
    lost, there = bench.set(1, batch=batch), bench.set(2, batch=batch)
    events = list(bench.wanted)
    bench.wanted.clear()
    bench.read(events[1])
    bench.sequencer.reopened()
    bench.perform()
    assert bench.error(lost).reason == "NOT_APPENDED"
    assert bench.result(there).version == "0001"
    assert not bench.wanted


def test_after_a_reopening_the_changes_of_a_batch_that_are_not_in_the_log_are_made_in_their_order(bench: Bench) -> None:
    batch: dict[PolicyKey, int] = {}
    first, second = bench.set(1, batch=batch), bench.set(2, batch=batch)
    bench.wanted.clear()
    bench.sequencer.reopened()
    bench.perform()
    bench.land_all()
    assert [bench.result(each).version for each in (first, second)] == ["0001", "0002"]
    assert bench.document() == TopicPolicies(max_producer_per_topic=2)


def test_a_request_overtaken_in_its_stream_before_a_reopening_is_not_written_after_it(bench: Bench) -> None:
    batch: dict[PolicyKey, int] = {}
    lost, there = bench.set(1, batch=batch), bench.set(2, batch=batch)
    bench.wanted.popleft()
    bench.land()
    assert bench.open(lost) and bench.result(there).version == "0001"
    bench.sequencer.reopened()
    bench.perform()
    assert bench.error(lost).reason == "NOT_APPENDED"
    assert not bench.wanted and not bench.sequencer.chains


def test_a_request_overtaken_before_a_reopening_is_computed_again_on_the_later_event(bench: Bench) -> None:
    first, second, other = bench.set(1), bench.set(2), bench.set(3, field="max_consumer_per_topic")
    bench.wanted.popleft()
    bench.wanted.popleft()
    bench.land()
    assert bench.result(other).version == "0001"
    bench.sequencer.reopened()
    bench.perform()
    bench.land_all()
    assert [bench.result(first).previous, bench.result(second).previous] == ["0001", "0002"], "in their order"
    assert bench.document() == TopicPolicies(max_producer_per_topic=2, max_consumer_per_topic=3)


def test_all_open_requests_fail_when_the_namespace_is_abandoned() -> None:
    bench = Bench(depth=1)
    requests = [bench.set(value) for value in (1, 2, 3)]
    bench.sequencer.abandon(LOST)
    bench.perform()
    assert all(bench.error(request) is LOST for request in requests)
    assert not bench.sequencer.chains


# Lists


def test_list_operations_in_flight_are_applied_although_one_before_them_fails(bench: Bench) -> None:
    def add(element: str, request_id: str) -> Request:
        operations = {"shadow_topics": ListOperation.LIST_OPERATION_UNION}
        return Request(KEY, compile_change(TopicPolicies(shadow_topics=[element]), ["shadow_topics"], operations), request_id, element)

    bench.submit(add("persistent://a/b/one", "one"))
    bench.submit(add("persistent://a/b/two", "two"))
    bench.fail(bench.wanted.popleft(), outcome_unknown=False)
    bench.submit(add("persistent://a/b/three", "three"))
    bench.land_all()
    assert list(bench.document().shadow_topics) == ["persistent://a/b/two", "persistent://a/b/three"]
