"""Readiness: each line of its table, and what is told."""

from __future__ import annotations

import pytest

from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.health import Readiness, State, Transition
from topicpolicies_server.logs.change_log import LogError

GONE = LogError(Reason.LOG_UNREACHABLE, "No broker can be reached.")
UNASKED = LogError(Reason.PULSAR_ADMIN_UNREACHABLE, "The admin API gives no answer.")
FULL = LogError(Reason.APPEND_FAILED, "The disk is full.")


class Told:
    """A readiness with a patience of three seconds, and what it told."""

    def __init__(self, *, known: bool = False) -> None:
        self.readiness = Readiness(3.0, known=known)
        self.transitions: list[Transition] = []
        self.readiness.add_listener(self.transitions.append)

    def fail(self, *times: float, error: LogError = GONE) -> None:
        """Questions at these times have no answer, and it takes half a second to know that."""
        for time in times:
            self.readiness.failed(error, time, time + 0.5)

    def is_ready(self) -> bool:
        """Whether it is, now."""
        return self.readiness.ready

    @property
    def states(self) -> list[State]:
        """Those that were told."""
        return [each.after for each in self.transitions]


def test_nothing_is_ready_before_the_log_has_answered() -> None:
    told = Told()
    assert not told.is_ready() and told.readiness.state is State.STARTING
    told.fail(0.1)
    assert not told.is_ready() and told.states == []
    told.readiness.answered(1.0)
    assert told.is_ready() and told.states == [State.READY]


def test_a_log_that_never_answered_is_out_of_reach_after_the_patience() -> None:
    told = Told()
    told.fail(0.0, 1.0, 2.0)
    assert told.states == []
    told.fail(2.6, 3.0, 4.0)
    assert told.states == [State.CUT_OFF], "told once"
    assert told.transitions[0].problem is GONE


def test_one_question_without_an_answer_is_no_outage() -> None:
    told = Told(known=True)
    told.fail(10.0, 11.0)
    assert told.readiness.state is State.DOUBTED and told.is_ready()
    told.readiness.answered(12.0)
    told.fail(20.0, 22.4)
    assert told.is_ready() and told.states == [], "the patience begins anew"


def test_an_outage_and_its_end_are_told_once_each_with_how_long_they_were() -> None:
    told = Told(known=True)
    told.fail(10.0, 11.0, 12.0, 12.5, 13.0)
    assert told.states == [State.CUT_OFF] and not told.readiness.ready
    told.fail(14.0, error=UNASKED)
    assert told.readiness.problem is UNASKED, "why, as it is now"
    told.readiness.answered(30.0)
    told.readiness.answered(31.0)
    assert told.states == [State.CUT_OFF, State.READY] and told.readiness.transitions == 2
    assert told.transitions[1].seconds == 20.0, "from the first question without an answer"
    assert told.readiness.problem is None


def test_what_drains_is_not_ready_whatever_the_log_does() -> None:
    told = Told(known=True)
    told.readiness.drained(1.0)
    told.readiness.drained(2.0)
    told.readiness.answered(3.0)
    told.fail(4.0, 9.0)
    assert told.states == [State.DRAINING] and not told.readiness.ready


@pytest.mark.parametrize(
    ("error", "changes", "waiting"),
    [(GONE, True, True), (UNASKED, False, True), (FULL, False, False)],
)
def test_what_is_refused_depends_on_what_is_out_of_reach(error: LogError, changes: bool, waiting: bool) -> None:
    told = Told(known=True)
    told.fail(0.0, error=error)
    assert told.readiness.refuses_changes() is told.readiness.refuses_waiting() is None, "not yet"
    told.fail(4.0, error=error)
    assert (told.readiness.refuses_changes() is not None, told.readiness.refuses_waiting() is not None) == (changes, waiting)
    told.readiness.answered(5.0)
    assert told.readiness.refuses_changes() is told.readiness.refuses_waiting() is None


def test_a_refusal_says_why_and_what_to_do_and_is_an_error_of_its_own() -> None:
    told = Told()
    told.fail(0.0, 4.0)
    first, second = told.readiness.refuses_changes(), told.readiness.refuses_changes()
    assert first is not None and first is not second, "an error that is raised anew grows"
    assert (first.kind, first.reason) == (Kind.UNAVAILABLE, Reason.LOG_UNREACHABLE)
    assert first.message == "The change log can't be reached: No broker can be reached. Nothing was done: try again later."
