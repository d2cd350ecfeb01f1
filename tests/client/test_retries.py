"""Which calls are repeated, after which pauses, and which error is raised at the end."""

from __future__ import annotations

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topicpolicies as tp
from tests.client.statuses import BROKEN, Code, Refusal
from topicpolicies.retries import NO_RETRIES, Attempts, RetryPolicy

NEVER_SENT = Refusal(Code.UNAVAILABLE, "failed to connect to all addresses")
TOO_LATE = Refusal(Code.DEADLINE_EXCEEDED, "Too late.", "OUTCOME_UNKNOWN")
REFUSED = Refusal(Code.UNAVAILABLE, "The log can't be reached.", "LOG_UNREACHABLE")
LIMIT = Refusal(Code.RESOURCE_EXHAUSTED, "Too much of yours.", "PRINCIPAL_LIMIT", retry_seconds=3.5)
CHANGE = "6b8f"


def attempts(request_id: str | None, deadline: float = 100.0) -> Attempts:
    return Attempts(RetryPolicy(), deadline, request_id)


@pytest.mark.parametrize("code", [Code.UNAVAILABLE, Code.CANCELLED])
def test_a_read_is_repeated_when_the_service_was_not_reached(code: grpc.StatusCode) -> None:
    assert attempts(None).failed(Refusal(code).error, 0.0, 0.5) > 0


@pytest.mark.parametrize("code", [Code.UNAVAILABLE, Code.CANCELLED, Code.DEADLINE_EXCEEDED])
def test_a_change_is_repeated_when_its_response_was_lost(code: grpc.StatusCode) -> None:
    assert attempts(CHANGE).failed(Refusal(code).error, 0.0, 0.5) > 0


@pytest.mark.parametrize("change", [None, CHANGE])
@pytest.mark.parametrize(
    "code",
    [
        Code.INVALID_ARGUMENT,
        Code.NOT_FOUND,
        Code.ABORTED,
        Code.FAILED_PRECONDITION,
        Code.RESOURCE_EXHAUSTED,
        Code.PERMISSION_DENIED,
        Code.UNAUTHENTICATED,
        Code.UNIMPLEMENTED,
        Code.OUT_OF_RANGE,
    ],
)
def test_a_call_that_failed_with_a_final_status_is_not_repeated(code: grpc.StatusCode, change: str | None) -> None:
    error = Refusal(code, reason="NO").error
    with pytest.raises(type(error)) as caught:
        attempts(change).failed(error, 0.0, 0.5)
    assert caught.value is error


@pytest.mark.parametrize("change", [None, CHANGE])
def test_after_a_limit_the_pause_is_at_least_the_retry_delay_of_the_service(change: str | None) -> None:
    tries = attempts(change)
    assert LIMIT.error.retry_seconds == 3.5
    waits = [tries.failed(LIMIT.error, 0.0, 0.5) for _ in range(50)]
    assert all(3.5 < wait <= 3.5 + RetryPolicy().longest_delay_seconds for wait in waits) and waits[0] < waits[-1]
    assert isinstance(tries.given_up(LIMIT.error), tp.ResourceExhausted), "the change was not made"


@pytest.mark.parametrize("change", [None, CHANGE])
def test_a_limit_with_a_retry_delay_beyond_the_deadline_is_raised_at_once(change: str | None) -> None:
    with pytest.raises(tp.ResourceExhausted):
        attempts(change, deadline=3.0).failed(LIMIT.error, 0.0, 0.5)
    with pytest.raises(tp.ResourceExhausted):
        Attempts(NO_RETRIES, 100.0, change).failed(LIMIT.error, 0.0, 0.5)


def test_a_read_that_exceeded_its_deadline_is_not_repeated() -> None:
    with pytest.raises(tp.DeadlineExceeded):
        attempts(None).failed(TOO_LATE.error, 0.0, 0.5)


def test_pauses_grow_to_a_maximum_and_randomness_at_most_halves_them() -> None:
    policy = RetryPolicy(first_delay_seconds=0.1, longest_delay_seconds=2.0, factor=2.0)
    assert [policy.delay(attempt, 1.0) for attempt in range(1, 8)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0])
    assert [policy.delay(attempt, 0.0) for attempt in (1, 6, 10_000)] == pytest.approx([0.05, 1.0, 1.0])


@given(st.integers(1, 10**9), st.floats(0, 1, exclude_max=True))
def test_every_pause_is_within_its_bounds(attempt: int, chance: float) -> None:
    policy = RetryPolicy()
    assert policy.first_delay_seconds / 2 <= policy.delay(attempt, chance) <= policy.longest_delay_seconds


def run(refusals: list[Refusal], *, change: str | None, deadline: float) -> tuple[int, Exception]:
    """Fails attempts with these refusals in turn, and further ones with the last; returns the number of attempts and the error raised."""
    tries = attempts(change, deadline)
    now = 0.0
    made = 0
    while True:
        refusal = refusals[min(made, len(refusals) - 1)]
        made += 1
        assert tries.timeout(now) <= max(deadline - now, 0.001)
        try:
            now += tries.failed(refusal.error, now, 0.5)
        except tp.TopicPoliciesError as error:
            return made, error
        assert now < deadline


def test_attempts_end_before_the_deadline() -> None:
    made, error = run([REFUSED], change=None, deadline=10.0)
    assert made > 3
    assert isinstance(error, tp.Unavailable)


@pytest.mark.parametrize("refusals", [[BROKEN], [TOO_LATE], [NEVER_SENT, BROKEN, NEVER_SENT], [BROKEN, REFUSED], [TOO_LATE, REFUSED]])
def test_a_change_that_may_have_been_made_ends_as_outcome_unknown(refusals: list[Refusal]) -> None:
    made, error = run(refusals, change=CHANGE, deadline=10.0)
    assert made > 3
    assert isinstance(error, tp.OutcomeUnknown)
    assert error.request_id == CHANGE


@pytest.mark.parametrize("refusals", [[NEVER_SENT], [REFUSED], [NEVER_SENT, REFUSED]])
def test_a_change_that_was_not_made_ends_as_unavailable(refusals: list[Refusal]) -> None:
    made, error = run(refusals, change=CHANGE, deadline=10.0)
    assert made > 3
    assert isinstance(error, tp.Unavailable)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(Code.ABORTED, tp.Conflict), (Code.ALREADY_EXISTS, tp.AlreadyExists), (Code.INVALID_ARGUMENT, tp.InvalidArgument)],
)
def test_a_final_refusal_of_a_repeated_change_is_raised_although_an_earlier_response_was_lost(
    code: grpc.StatusCode, kind: type[Exception]
) -> None:
    made, error = run([BROKEN, Refusal(code, reason="VERDICT")], change=CHANGE, deadline=10.0)
    assert made == 2
    assert isinstance(error, kind)


@pytest.mark.parametrize("code", [Code.UNAUTHENTICATED, Code.RESOURCE_EXHAUSTED, Code.NOT_FOUND, Code.UNIMPLEMENTED])
def test_a_refusal_of_a_repeat_that_does_not_exclude_the_lost_attempt_leaves_the_outcome_unknown(code: grpc.StatusCode) -> None:
    made, error = run([BROKEN, Refusal(code)], change=CHANGE, deadline=10.0)
    assert made == 2
    assert isinstance(error, tp.OutcomeUnknown)


@pytest.mark.parametrize("refusal", [Refusal(Code.INTERNAL), Refusal(Code.UNKNOWN), Refusal(Code.INTERNAL, "Oh.", "INTERNAL")])
def test_a_change_that_failed_internally_is_not_repeated_and_its_outcome_is_unknown(refusal: Refusal) -> None:
    made, error = run([refusal], change=CHANGE, deadline=10.0)
    assert made == 1
    assert isinstance(error, tp.OutcomeUnknown)


def test_an_internal_error_with_a_reason_of_the_service_means_that_the_change_was_not_made() -> None:
    made, error = run([Refusal(Code.INTERNAL, "The log can't be read.", "LOAD_BROKEN")], change=CHANGE, deadline=10.0)
    assert made == 1
    assert not isinstance(error, tp.OutcomeUnknown)


def test_one_attempt_of_a_change_does_not_use_the_whole_timeout() -> None:
    assert attempts(CHANGE, 100.0).timeout(0.0) == RetryPolicy().attempt_timeout_seconds
    assert attempts(CHANGE, 100.0).timeout(95.0) == 5.0
    assert attempts(None, 100.0).timeout(0.0) == 100.0


@pytest.mark.parametrize("change", [None, CHANGE])
def test_without_retries_every_call_is_made_once(change: str | None) -> None:
    tries = Attempts(NO_RETRIES, 100.0, change)
    assert tries.timeout(0.0) == 100.0
    with pytest.raises(tp.Unavailable):
        tries.failed(NEVER_SENT.error, 0.0, 0.0)
