"""Many changes over one stream: each gets exactly one result, even if streams break."""

from __future__ import annotations

import random
from collections import Counter

import grpc
import pytest
from google.rpc import status_pb2

import topicpolicies as tp
from tests.client.statuses import BROKEN, Code, Refusal
from topicpolicies.pipelining import BATCH_BYTES, BYTES_IN_FLIGHT, Outbox, Pipeline
from topicpolicies.retries import RetryPolicy
from topicpolicies.routes import Routes
from topicpolicies.v1 import policies_pb2, service_pb2

TOPIC = "persistent://public/default/orders"
OTHER = "persistent://public/other/orders"


def pipeline(most: int = 4, patience: float = 10.0) -> Pipeline:
    return Pipeline(RetryPolicy(), Routes(("here",)), max_in_flight=most, patience_seconds=patience, now=0.0)


def update(value: int = 1, topic: str = TOPIC) -> tp.Update:
    return tp.Update(topic, {"max_producer_per_topic": value})


def added(pipe: Pipeline, value: int = 1, topic: str = TOPIC) -> service_pb2.PolicyChangeRequest:
    change = pipe.add(update(value, topic), 0.0)
    assert isinstance(change, service_pb2.PolicyChangeRequest)
    return change


def results(*results: service_pb2.PolicyChangeResult) -> service_pb2.UpdatePoliciesResponse:
    return service_pb2.UpdatePoliciesResponse(results=results)


def answered(change: service_pb2.PolicyChangeRequest) -> service_pb2.PolicyChangeResult:
    document = policies_pb2.PolicyDocument(topic=change.update.topic, scope=tp.Scope.LOCAL.number, version="v1")
    response = service_pb2.UpdatePolicyResponse(document=document, version="v1", request_id=change.update.request_id)
    return service_pb2.PolicyChangeResult(sequence=change.sequence, updated=response)


def failed(change: service_pb2.PolicyChangeRequest, refusal: Refusal) -> service_pb2.PolicyChangeResult:
    error = status_pb2.Status(code=refusal.code.value[0], message=refusal.message, details=refusal.details)
    return service_pb2.PolicyChangeResult(sequence=change.sequence, error=error)


def answer(change: service_pb2.PolicyChangeRequest) -> service_pb2.UpdatePoliciesResponse:
    return results(answered(change))


def failure(change: service_pb2.PolicyChangeRequest, refusal: Refusal) -> service_pb2.UpdatePoliciesResponse:
    return results(failed(change, refusal))


def test_updates_are_numbered_in_order_and_bounded_by_max_in_flight() -> None:
    pipe = pipeline(most=2)
    assert [added(pipe).sequence, added(pipe).sequence] == [0, 1]
    room = [pipe.has_room]
    (settled,) = pipe.settle(answer(pipe.outstanding[0]), 0.0)
    assert settled.sequence == 0
    assert settled.unwrap().version == "v1"
    room.append(pipe.has_room)
    assert room == [False, True]
    assert not pipe.idle


def test_a_failed_update_does_not_fail_the_others() -> None:
    pipe = pipeline()
    first, second = added(pipe), added(pipe)
    (settled,) = pipe.settle(failure(first, Refusal(Code.ABORTED, "changed", "ETAG_MISMATCH", {"version": "v2"})), 0.0)
    assert isinstance(settled.error, tp.Conflict)
    assert settled.error.metadata == {"version": "v2"}
    with pytest.raises(tp.Conflict):
        settled.unwrap()
    assert pipe.outstanding == [second]


def test_an_update_whose_outcome_the_service_does_not_know_raises_outcome_unknown_with_its_id() -> None:
    pipe = pipeline()
    request = added(pipe)
    (settled,) = pipe.settle(failure(request, Refusal(Code.DEADLINE_EXCEEDED, "too late", "OUTCOME_UNKNOWN")), 0.0)
    assert isinstance(settled.error, tp.OutcomeUnknown)
    assert settled.error.request_id == settled.request_id == request.update.request_id


def test_a_result_of_an_unknown_kind_or_of_another_kind_of_change_leaves_the_outcome_unknown() -> None:
    pipe = pipeline()
    updates = [added(pipe), added(pipe)]
    deletion = pipe.add(tp.Deletion(TOPIC), 0.0)
    assert isinstance(deletion, service_pb2.PolicyChangeRequest)
    settled = pipe.settle(
        results(
            service_pb2.PolicyChangeResult(sequence=0),
            service_pb2.PolicyChangeResult(sequence=1, deleted=service_pb2.DeletePolicyResponse(version="v1")),
            service_pb2.PolicyChangeResult(sequence=2, updated=service_pb2.UpdatePolicyResponse(version="v1")),
        ),
        0.0,
    )
    errors = [each.error for each in settled if isinstance(each.error, tp.OutcomeUnknown)]
    assert [error.code for error in errors] == [Code.UNKNOWN, Code.INTERNAL, Code.INTERNAL]
    assert [error.request_id for error in errors] == [*(each.update.request_id for each in updates), deletion.delete.request_id]
    assert pipe.idle


def test_an_invalid_update_is_settled_at_once_with_its_error() -> None:
    pipe = pipeline()
    settled = pipe.add(tp.Update(TOPIC, {"no_such": 1}), 0.0)
    assert isinstance(settled, tp.Settled)
    assert isinstance(settled.error, tp.InvalidArgument)
    assert pipe.idle
    assert added(pipe).sequence == 1


@pytest.mark.parametrize(("code", "unknown"), [(Code.RESOURCE_EXHAUSTED, True), (Code.ABORTED, False), (Code.ALREADY_EXISTS, False)])
def test_a_refusal_after_a_break_settles_a_change_only_if_it_excludes_that_the_first_attempt_was_made(
    code: grpc.StatusCode, unknown: bool
) -> None:
    pipe = pipeline()
    sent = added(pipe)
    pipe.connect()
    pipe.broke(BROKEN.error, 0.0, 0.5)
    fresh = added(pipe)
    refusal = Refusal(code, reason="NO")
    settled = pipe.settle(results(failed(sent, refusal), failed(fresh, refusal)), 0.0)
    assert [isinstance(each.error, tp.OutcomeUnknown) for each in settled] == [unknown, False]


def test_an_internal_error_leaves_the_outcome_of_a_change_unknown() -> None:
    pipe = pipeline()
    (settled,) = pipe.settle(failure(added(pipe), Refusal(Code.INTERNAL, reason="INTERNAL")), 0.0)
    assert isinstance(settled.error, tp.OutcomeUnknown)


def test_a_deletion_is_sent_and_settled_as_an_update_is() -> None:
    pipe = pipeline()
    added(pipe)
    change = pipe.add(tp.Deletion(TOPIC, etag="v1"), 0.0)
    assert isinstance(change, service_pb2.PolicyChangeRequest)
    assert (change.sequence, change.delete.etag) == (1, "v1")
    outcome = service_pb2.DeletePolicyResponse(outcome=service_pb2.DELETE_OUTCOME_DELETED, request_id=change.delete.request_id)
    (settled,) = pipe.settle(results(service_pb2.PolicyChangeResult(sequence=1, deleted=outcome)), 0.0)
    assert settled.unwrap().outcome is tp.DeleteOutcome.DELETED
    assert settled.request_id == change.delete.request_id


def test_a_batch_with_one_change_of_another_leader_settles_its_other_changes() -> None:
    pipe = pipeline()
    one, two = added(pipe, 1), added(pipe, 2, OTHER)
    pipe.connect()
    (settled,) = pipe.settle(results(failed(one, led_by("")), answered(two)), 0.0)
    assert settled.sequence == 1
    assert pipe.stuck is not None


def test_changes_in_flight_are_bounded_in_bytes() -> None:
    pipe = pipeline(most=10**6)
    names = ["x" * 1_000_000]
    count = 0
    while pipe.has_room:
        pipe.add(tp.Update(TOPIC, shadow_topics=names), 0.0)
        count += 1
    assert count == BYTES_IN_FLIGHT // 1_000_000 + 1
    pipe.settle(answer(pipe.outstanding[0]), 0.0)
    assert pipe.has_room


def test_waiting_changes_are_sent_in_batches_of_bounded_count_and_size() -> None:
    pipe = pipeline(most=10**6)
    small = [added(pipe) for _ in range(2_500)]
    outbox = Outbox(small)
    assert [len(batch.changes) for batch in iter(outbox.take, None)] == [1_000, 1_000, 500]
    large = [pipe.add(tp.Update(TOPIC, shadow_topics=["x" * size]), 0.0) for size in (400_000, 400_000, 400_000, 2 * BATCH_BYTES, 1)]
    for change in large:
        assert isinstance(change, service_pb2.PolicyChangeRequest)
        outbox.put(change)
    batches = list(iter(outbox.take, None))
    assert [len(batch.changes) for batch in batches] == [2, 1, 1, 1]
    assert [change.sequence for batch in batches for change in batch.changes] == [2500, 2501, 2502, 2503, 2504]


def test_after_a_break_outstanding_changes_are_sent_again_with_the_same_ids() -> None:
    pipe = pipeline()
    requests = [added(pipe, value) for value in range(3)]
    pipe.settle(answer(requests[1]), 0.0)
    assert pipe.broke(BROKEN.error, 1.0, 0.5)
    assert pipe.outstanding == [requests[0], requests[2]]


def test_a_second_result_of_a_change_is_ignored() -> None:
    pipe = pipeline()
    request = added(pipe)
    assert pipe.settle(answer(request), 0.0)
    assert pipe.settle(answer(request), 0.0) == []


def test_patience_is_measured_from_the_last_result() -> None:
    pipe = pipeline(patience=10.0)
    first, _ = added(pipe), added(pipe)
    assert pipe.broke(BROKEN.error, 9.0, 0.5) is not None
    pipe.settle(answer(first), 9.5)
    assert pipe.broke(BROKEN.error, 19.0, 0.5) is not None
    assert pipe.broke(BROKEN.error, 19.5, 0.5) is None


@pytest.mark.parametrize(
    ("refusals", "kind"),
    [
        ([BROKEN], tp.OutcomeUnknown),
        ([Refusal(Code.UNAVAILABLE, "failed to connect to all addresses")], tp.Unavailable),
        ([BROKEN, Refusal(Code.PERMISSION_DENIED)], tp.OutcomeUnknown),
        ([Refusal(Code.PERMISSION_DENIED, reason="NO")], tp.PermissionDenied),
    ],
)
def test_giving_up_settles_every_change_and_reports_whether_it_may_have_been_made(refusals: list[Refusal], kind: type[Exception]) -> None:
    pipe = pipeline(patience=0.01)
    requests = [added(pipe), added(pipe)]
    for refusal in refusals:
        pipe.connect()
        pipe.broke(refusal.error, 0.0, 0.5)
    abandoned = pipe.abandon(refusals[-1].error)
    assert [each.sequence for each in abandoned] == [request.sequence for request in requests]
    assert all(isinstance(each.error, kind) for each in abandoned)
    assert pipe.idle


def test_a_refused_stream_is_given_up_at_once() -> None:
    pipe = pipeline()
    added(pipe)
    assert pipe.broke(Refusal(Code.UNIMPLEMENTED).error, 0.0, 0.5) is None


def led_by(leader: str) -> Refusal:
    return Refusal(Code.UNAVAILABLE, "elsewhere", "NOT_LEADER", {"leader": leader} if leader else {})


def test_changes_of_another_leader_are_sent_to_it_in_order_once_the_others_have_results() -> None:
    pipe = pipeline()
    one, two, three = added(pipe, 1), added(pipe, 2, OTHER), added(pipe, 3)
    assert pipe.connect() == ("here", [one, two, three])
    assert pipe.settle(failure(one, led_by("there")), 0.0) == []
    assert pipe.settle(failure(three, led_by("there")), 0.0) == []
    done = [pipe.done_here]
    assert pipe.settle(answer(two), 0.0)
    assert [*done, pipe.done_here] == [False, True]
    assert pipe.connect() == ("there", [one, three])
    assert not pipe.goes_here(added(pipe, 4, OTHER))
    assert pipe.goes_here(added(pipe, 5))
    for sequence in (0, 2, 4):
        assert pipe.settle(answer(pipe.outstanding[[each.sequence for each in pipe.outstanding].index(sequence)]), 0.0)
    assert pipe.done_here
    assert [request.sequence for request in pipe.connect()[1]] == [3]


@pytest.mark.parametrize("leader", ["", "here"])
def test_without_another_known_leader_the_stream_ends_and_is_retried_after_a_pause(leader: str) -> None:
    pipe = pipeline()
    request = added(pipe)
    pipe.connect()
    assert pipe.settle(failure(request, led_by(leader)), 0.0) == []
    stuck = pipe.stuck
    assert isinstance(stuck, tp.Unavailable)
    assert pipe.broke(stuck, 0.0, 0.5)
    assert pipe.stuck is not stuck
    assert pipe.connect() == ("here", [request])


def test_two_sidecars_that_name_each_other_as_the_leader_are_not_called_in_a_circle_without_a_pause() -> None:
    pipe = pipeline()
    request = added(pipe)
    pipe.connect()
    assert pipe.settle(failure(request, led_by("there")), 0.0) == []
    assert pipe.connect() == ("there", [request])
    assert pipe.settle(failure(request, led_by("here")), 0.0) == []
    assert isinstance(pipe.stuck, tp.Unavailable)


def test_a_leader_whose_stream_breaks_is_forgotten() -> None:
    pipe = pipeline()
    request = added(pipe)
    pipe.connect()
    pipe.settle(failure(request, led_by("there")), 0.0)
    assert pipe.connect()[0] == "there"
    assert pipe.broke(BROKEN.error, 0.0, 0.5)
    assert pipe.connect() == ("here", [request])


@pytest.mark.parametrize("seed", range(30))
def test_every_update_gets_exactly_one_result_and_is_applied_once(seed: int) -> None:
    """Streams break before, between and after results; the service recognizes repeated request ids."""
    chance = random.Random(seed)
    pipe = pipeline(most=5, patience=1e9)
    remaining, applied, counts, breaks = list(range(50)), Counter[str](), Counter[int](), 0
    while remaining or not pipe.idle:
        while remaining and pipe.has_room:
            added(pipe, remaining.pop())
        for request in pipe.outstanding:
            if chance.random() < 0.2:
                break
            applied[request.update.request_id] = 1  # once, even if the request is repeated
            if chance.random() < 0.2:
                break
            (settled,) = pipe.settle(answer(request), 0.0)
            counts[settled.sequence] += 1
        else:
            continue
        breaks += 1
        assert pipe.broke(BROKEN.error, 0.0, 0.5) is not None
    assert counts == Counter(range(50))
    assert len(applied) == 50
    assert breaks > 5
