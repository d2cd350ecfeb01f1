"""When a call is repeated, how long the pause before it is, and which error is raised when it is not repeated any more.

Only calls that are safe to repeat are repeated. Reads are safe. A change is safe, because it carries a request id: the service remembers
the id and answers a repeat with the first result. An error that a repeat can't cure (a wrong request, a conflict, a limit) is raised at
once; but after a limit for which the service says when to retry (``google.rpc.RetryInfo``), the client waits and repeats the call.

The outcome of a change that was sent and not answered by the deadline is not known: the error is ``OutcomeUnknown``, never ``Unavailable``.
"""

from __future__ import annotations

from dataclasses import dataclass

from grpc import StatusCode

from .errors import TopicPoliciesError, clearer, outcome_unknown

_READ_AGAIN = frozenset({StatusCode.UNAVAILABLE, StatusCode.CANCELLED})
_CHANGE_AGAIN = _READ_AGAIN | {StatusCode.DEADLINE_EXCEEDED}
_AMBIGUOUS = _CHANGE_AGAIN | {StatusCode.INTERNAL, StatusCode.UNKNOWN}
"""The codes of calls that end because the connection or the server breaks."""
_OUTCOME_UNKNOWN_REASONS = frozenset({"OUTCOME_UNKNOWN", "INTERNAL"})
"""The reasons with which the service itself does not know the outcome. With any other reason it certainly did nothing."""
_SETTLED = frozenset({StatusCode.ABORTED, StatusCode.ALREADY_EXISTS, StatusCode.INVALID_ARGUMENT})
"""The codes that answer a repeat only if no earlier attempt was applied: the service looks the request id up first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The pauses between repeats of a call: exponential backoff with jitter.

    Each pause is drawn at random from the upper half of its ceiling, so that clients do not repeat their calls in step. The ceilings grow
    by ``factor``, up to ``longest_delay_seconds``.
    """

    first_delay_seconds: float = 0.1
    """The ceiling of the first pause."""
    longest_delay_seconds: float = 5.0
    """The ceiling that no pause exceeds."""
    factor: float = 2.0
    """The factor by which the ceiling grows from one pause to the next."""
    attempt_timeout_seconds: float = 10.0
    """How long one attempt of a change may take before it is repeated. An attempt of a read may take all of the call's time."""

    def delay(self, attempt: int, chance: float) -> float:
        """Returns the pause after a failed attempt, in seconds.

        Args:
            attempt: the number of the attempt, from 1.
            chance: a random number, at least 0 and less than 1.
        """
        ceiling = min(self.longest_delay_seconds, self.first_delay_seconds * self.factor ** min(attempt - 1, 64))
        return ceiling * (1 + chance) / 2


WATCH_PAUSES = RetryPolicy(longest_delay_seconds=10.0)
"""The pauses between the streams of a watch by default."""
NO_RETRIES = RetryPolicy(first_delay_seconds=float("inf"), longest_delay_seconds=float("inf"), attempt_timeout_seconds=float("inf"))
"""The policy that makes every call once: no pause ends before any deadline."""


def is_retryable_limit(error: TopicPoliciesError) -> bool:
    """Returns whether an error is a limit for which the service says when to retry. Nothing was done."""
    return error.code is StatusCode.RESOURCE_EXHAUSTED and error.retry_seconds is not None


def ambiguous(error: TopicPoliciesError) -> bool:
    """Returns whether a change that failed with this error may have been made all the same."""
    refused = error.from_service and error.reason not in _OUTCOME_UNKNOWN_REASONS
    return error.code in _AMBIGUOUS and not refused and not error.never_sent


def final_error(error: TopicPoliciesError, request_id: str, *, maybe_applied: bool) -> TopicPoliciesError:
    """Returns the error of a change that is not repeated any more: the error of its last attempt, or ``OutcomeUnknown``.

    Args:
        error: the error of the last attempt.
        request_id: the request id of the change.
        maybe_applied: whether an earlier attempt may have made the change.
    """
    if ambiguous(error) or (maybe_applied and error.code not in _SETTLED):
        return outcome_unknown(error, request_id)
    return error


class Attempts:
    """The attempts of one call, until its deadline."""

    def __init__(self, policy: RetryPolicy, deadline: float, request_id: str | None) -> None:
        """``deadline``: by the clock whose ``now`` the methods get. ``request_id``: that of a change; None: the call is a read."""
        self._policy = policy
        self._deadline = deadline
        self._request_id = request_id
        self._failed = 0
        self._maybe_applied = False
        """Whether an earlier attempt may have made the change."""
        self._clearest: TopicPoliciesError | None = None
        """The error of an attempt that says most about why there is no connection."""
        self._redirected = False
        """Whether the call was sent to a leader at once, without a pause."""

    def timeout(self, now: float) -> float:
        """Returns how long the next attempt may take, in seconds."""
        left = max(self._deadline - now, 0.001)
        return left if self._request_id is None else min(left, self._policy.attempt_timeout_seconds)

    def failed(self, error: TopicPoliciesError, now: float, chance: float, *, redirected: bool = False) -> float:
        """Decides about the next attempt after one has failed.

        Args:
            error: how the attempt failed.
            now: the time in seconds.
            chance: a random number, at least 0 and less than 1.
            redirected: whether the error names another address; the first time, the next attempt follows without a pause.

        Returns:
            The seconds to wait before the next attempt.

        Raises:
            TopicPoliciesError: there is no next attempt; the error is ``error``, a clearer one of a former attempt, or ``OutcomeUnknown``.
        """
        self._clearest = error = clearer(self._clearest, error)
        if redirected and not self._redirected and now < self._deadline and self._policy is not NO_RETRIES:
            self._redirected = True
            return 0.0
        self._failed += 1
        delay = self._policy.delay(self._failed, chance) + (error.retry_seconds or 0.0)
        again = _READ_AGAIN if self._request_id is None else _CHANGE_AGAIN
        if not (error.code in again or is_retryable_limit(error)) or now + delay >= self._deadline:
            raise self.given_up(error)
        self._maybe_applied = self._maybe_applied or ambiguous(error)
        return delay

    def unsent(self, error: TopicPoliciesError) -> TopicPoliciesError:
        """Returns the error to raise if the next attempt can't even be sent."""
        return outcome_unknown(error, self._request_id) if self._maybe_applied and self._request_id is not None else error

    def given_up(self, error: TopicPoliciesError) -> TopicPoliciesError:
        """Returns the error to raise if no attempt follows the one that ended with ``error``."""
        return error if self._request_id is None else final_error(error, self._request_id, maybe_applied=self._maybe_applied)
