"""When a call is repeated, how long to wait before it, and what is said when it no longer is.

Only what is safe is repeated. Reads are. A change is, because it carries a request id: the service remembers it and answers a repeat with
what happened the first time. What can't help to repeat (a wrong request, a conflict, a limit) is raised at once; a limit of which the
service says when there is room again (``google.rpc.RetryInfo``) is waited for.

A change that was sent and not answered by the deadline is neither done nor not done: that is ``OutcomeUnknown``, and never ``Unavailable``.
"""

from __future__ import annotations

from dataclasses import dataclass

from grpc import StatusCode

from .errors import TopicPoliciesError, outcome_unknown

_READ_AGAIN = frozenset({StatusCode.UNAVAILABLE, StatusCode.CANCELLED})
_CHANGE_AGAIN = _READ_AGAIN | {StatusCode.DEADLINE_EXCEEDED}
_AMBIGUOUS = _CHANGE_AGAIN | {StatusCode.INTERNAL, StatusCode.UNKNOWN}
"""How calls fail when the connection breaks in the middle of them, or the server does."""
_UNTOLD = frozenset({"OUTCOME_UNKNOWN", "INTERNAL"})
"""With these reasons the service itself says that it does not know. With any other it certainly did nothing."""
_SETTLED = frozenset({StatusCode.ABORTED, StatusCode.ALREADY_EXISTS, StatusCode.INVALID_ARGUMENT})
"""Answers that a repeat gets only if the request was not applied before: the service looks its id up first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How calls are repeated: at growing distances, each drawn from the upper half of its ceiling so that clients do not march in step."""

    first_delay_seconds: float = 0.1
    """The ceiling of the first pause."""
    longest_delay_seconds: float = 5.0
    """No pause is longer."""
    factor: float = 2.0
    """By how much the ceiling grows from one pause to the next."""
    attempt_timeout_seconds: float = 10.0
    """How long one attempt of a change may take before it is repeated; reads may take all the time that there is."""

    def delay(self, attempt: int, chance: float) -> float:
        """Seconds to wait after this failed attempt.

        Args:
            attempt: counted from 1.
            chance: at least 0, less than 1.
        """
        ceiling = min(self.longest_delay_seconds, self.first_delay_seconds * self.factor ** min(attempt - 1, 64))
        return ceiling * (1 + chance) / 2


WATCH_PAUSES = RetryPolicy(longest_delay_seconds=10.0)
"""The pauses between the streams of a watch, where nothing else is said."""
NO_RETRIES = RetryPolicy(first_delay_seconds=float("inf"), longest_delay_seconds=float("inf"), attempt_timeout_seconds=float("inf"))
"""Every call is made once: no pause fits before any deadline."""


def passing_limit(error: TopicPoliciesError) -> bool:
    """Whether a limit was met of which it is said when there is room again. Nothing was done."""
    return error.code is StatusCode.RESOURCE_EXHAUSTED and error.retry_seconds is not None


def ambiguous(error: TopicPoliciesError) -> bool:
    """Whether a change that failed like this may have been made all the same."""
    refused = error.from_service and error.reason not in _UNTOLD
    return error.code in _AMBIGUOUS and not refused and not error.never_sent


def verdict(error: TopicPoliciesError, request_id: str, *, lost: bool) -> TopicPoliciesError:
    """What a change ends with when it is not repeated after this error: the error, or ``OutcomeUnknown``.

    Args:
        error: how its last attempt ended.
        request_id: its id.
        lost: whether an earlier attempt may have made it.
    """
    if ambiguous(error) or (lost and error.code not in _SETTLED):
        return outcome_unknown(error, request_id)
    return error


class Attempts:
    """The attempts of one call, until its deadline."""

    def __init__(self, policy: RetryPolicy, deadline: float, request_id: str | None) -> None:
        """``deadline``: on the clock whose ``now`` is given to the methods. ``request_id``: of a change; None is a read."""
        self._policy = policy
        self._deadline = deadline
        self._request_id = request_id
        self._failed = 0
        self._lost = False
        self._redirected = False

    def timeout(self, now: float) -> float:
        """How long the next attempt may take, in seconds."""
        left = max(self._deadline - now, 0.001)
        return left if self._request_id is None else min(left, self._policy.attempt_timeout_seconds)

    def failed(self, error: TopicPoliciesError, now: float, chance: float, *, redirected: bool = False) -> float:
        """An attempt has failed. ``redirected``: the error names who can answer; the first time there is no pause before that is tried.

        Returns:
            Seconds to wait before the next one.

        Raises:
            TopicPoliciesError: there is no next one: this error, or ``OutcomeUnknown``.
        """
        if redirected and not self._redirected and now < self._deadline and self._policy is not NO_RETRIES:
            self._redirected = True
            return 0.0
        self._failed += 1
        delay = self._policy.delay(self._failed, chance) + (error.retry_seconds or 0.0)
        again = _READ_AGAIN if self._request_id is None else _CHANGE_AGAIN
        if not (error.code in again or passing_limit(error)) or now + delay >= self._deadline:
            raise self.given_up(error)
        self._lost = self._lost or ambiguous(error)
        return delay

    def unsent(self, error: TopicPoliciesError) -> TopicPoliciesError:
        """What to raise when the next attempt can't even be sent."""
        return outcome_unknown(error, self._request_id) if self._lost and self._request_id is not None else error

    def given_up(self, error: TopicPoliciesError) -> TopicPoliciesError:
        """What to raise when there is no further attempt after this last error."""
        return error if self._request_id is None else verdict(error, self._request_id, lost=self._lost)
