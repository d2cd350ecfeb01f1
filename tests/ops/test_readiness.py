"""Readiness: each line of its table of states, and the transitions that listeners get."""

from __future__ import annotations

import pytest

from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.readiness import Readiness, State

GONE = LogError(LogState.UNREACHABLE, "No broker can be reached.")
UNASKED = LogError(LogState.ADMIN_UNREACHABLE, "The admin API gives no answer.")
FULL = LogError(LogState.APPEND_FAILED, "The disk is full.")


class Recorded:
    """A readiness with a patience of three seconds, and the states after the transitions of which it notified a listener."""

    def __init__(self, *, known: bool = False) -> None:
        self.readiness = Readiness(3.0, known=known)
        self.states: list[State] = []
        """The states after the transitions."""
        self.readiness.add_listener(lambda: self.states.append(self.readiness.state))

    def fail(self, *times: float, error: LogError = GONE) -> None:
        """Reports questions of these times without an answer; each takes half a second to fail."""
        for time in times:
            self.readiness.failed(error, time, time + 0.5)

    def is_ready(self) -> bool:
        """Returns whether the readiness is ready now."""
        return self.readiness.ready


def test_a_server_is_not_ready_before_the_log_has_answered() -> None:
    recorded = Recorded()
    assert not recorded.is_ready() and recorded.readiness.state is State.STARTING
    recorded.fail(0.1)
    assert not recorded.is_ready() and recorded.states == []
    recorded.readiness.answered(1.0)
    assert recorded.is_ready() and recorded.states == [State.READY]


def test_a_log_that_has_never_answered_is_cut_off_when_the_patience_is_over() -> None:
    recorded = Recorded()
    recorded.fail(0.0, 1.0, 2.0)
    assert recorded.states == []
    recorded.fail(2.6, 3.0, 4.0)
    assert recorded.states == [State.CUT_OFF], "the transition was not reported exactly once"
    assert recorded.readiness.problem is GONE


def test_unanswered_questions_within_the_patience_are_no_outage() -> None:
    recorded = Recorded(known=True)
    recorded.fail(10.0, 11.0)
    assert recorded.readiness.state is State.DOUBTED and recorded.is_ready()
    recorded.readiness.answered(12.0)
    recorded.fail(20.0, 22.4)
    assert recorded.is_ready() and recorded.states == [], "an answer did not restart the patience"


def test_an_outage_and_its_end_are_each_reported_once_with_the_duration_of_the_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorded = Recorded(known=True)
    recorded.fail(10.0, 11.0, 12.0, 12.5, 13.0)
    assert recorded.states == [State.CUT_OFF] and not recorded.readiness.ready
    recorded.fail(14.0, error=UNASKED)
    assert recorded.readiness.problem is UNASKED, "the problem is not the latest one"
    recorded.readiness.answered(30.0)
    recorded.readiness.answered(31.0)
    assert recorded.states == [State.CUT_OFF, State.READY]
    assert "after 20.0 s" in caplog.messages[-1], "the duration does not begin with the first question without an answer"
    assert recorded.readiness.problem is None


def test_a_draining_server_is_not_ready_whatever_the_log_does() -> None:
    recorded = Recorded(known=True)
    recorded.readiness.drained()
    recorded.readiness.drained()
    recorded.readiness.answered(3.0)
    recorded.fail(4.0, 9.0)
    assert recorded.states == [State.DRAINING] and not recorded.readiness.ready


@pytest.mark.parametrize(
    ("error", "changes", "waiting"),
    [(GONE, True, True), (UNASKED, False, True), (FULL, False, False)],
)
def test_which_calls_are_refused_depends_on_what_is_out_of_reach(error: LogError, changes: bool, waiting: bool) -> None:
    recorded = Recorded(known=True)
    recorded.fail(0.0, error=error)
    assert recorded.readiness.refuses_changes() is recorded.readiness.refuses_waiting() is None, (
        "calls are refused before the patience is over"
    )
    recorded.fail(4.0, error=error)
    assert (recorded.readiness.refuses_changes() is not None, recorded.readiness.refuses_waiting() is not None) == (changes, waiting)
    recorded.readiness.answered(5.0)
    assert recorded.readiness.refuses_changes() is recorded.readiness.refuses_waiting() is None


def test_a_refusal_says_why_and_what_to_do_and_is_a_new_error_each_time() -> None:
    recorded = Recorded()
    recorded.fail(0.0, 4.0)
    first, second = recorded.readiness.refuses_changes(), recorded.readiness.refuses_changes()
    assert first is not None and first is not second, "the same error was returned twice: each raise would add to its traceback"
    assert (first.kind, first.state) == (Kind.UNAVAILABLE, LogState.UNREACHABLE)
    assert first.message == "The change log can't be reached: No broker can be reached. Nothing was done: try again later."
