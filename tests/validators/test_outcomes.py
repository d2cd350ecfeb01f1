"""The validators of unsettled requests and of the chain of answers accept a correct history and detect planted errors."""

from __future__ import annotations

import pytest

from .documents import Edit
from .examples import KEY, update
from .outcomes import answers_are_one_chain, unknown_outcomes_settled
from .records import Answer, Failure, Head, History, Outcome
from .timeline import Timeline
from .updates import answers_tell_the_truth


def _applied(version: str, previous: str, *, replayed: bool = False) -> Answer:
    return Answer(Outcome.APPLIED, version, previous, {}, replayed)


def _head(version: str, previous: str, request_id: str) -> Head:
    return Head(KEY, version, previous, {}, 0.5, request_id)


GOOD = History(
    updates=[
        update("a", _applied("11", "0"), 0),
        update("b", None, 0),
        update("b", _applied("12", "11", replayed=True), 2),
        update("c", Failure("ABORTED", "PRECONDITION_FAILED"), 0),
    ],
    heads=[_head("11", "0", "a"), _head("12", "11", "b")],
)


def test_a_correct_history_breaks_no_promise() -> None:
    timeline = Timeline(GOOD)
    assert not list(unknown_outcomes_settled(GOOD, timeline))
    assert not list(answers_are_one_chain(GOOD, timeline))


@pytest.mark.parametrize("answer", [None, Failure("UNAVAILABLE", "CONNECTION"), Failure("DEADLINE_EXCEEDED", "OUTCOME_UNKNOWN")])
def test_a_request_whose_outcome_no_answer_tells_is_reported(answer: Failure | None) -> None:
    history = History(updates=[*GOOD.updates, update("d", answer, 0)], heads=GOOD.heads)
    (broken,) = unknown_outcomes_settled(history, Timeline(history))
    assert "no answer tells the outcome of d" in str(broken)


def test_an_answer_that_contradicts_the_log_is_reported() -> None:
    history = History(updates=[update("a", None, 0), update("a", _applied("13", "0"), 0)], heads=[_head("11", "0", "a")])
    (broken,) = unknown_outcomes_settled(history, Timeline(history))
    assert "is in the log as 11" in str(broken)


def test_two_changes_that_were_applied_to_one_version_are_reported() -> None:
    history = History(updates=[*GOOD.updates, update("d", _applied("13", "11"), 0)])
    assert any("applied to version 11" in str(broken) for broken in answers_are_one_chain(history, Timeline(history)))


def test_a_gap_between_the_versions_of_answers_is_reported() -> None:
    history = History(updates=[*GOOD.updates, update("d", _applied("15", "14"), 0)])
    (broken,) = answers_are_one_chain(history, Timeline(history))
    assert "version 15 follows 14" in str(broken)


def test_a_request_that_was_acknowledged_with_two_versions_is_reported() -> None:
    history = History(updates=[*GOOD.updates, update("a", _applied("13", "12"), 0)])
    (broken,) = answers_are_one_chain(history, Timeline(history))
    assert "acknowledged with two versions" in str(broken)


@pytest.mark.parametrize(
    ("informed", "document", "wrong"),
    [(False, {"b": 2}, 0), (True, {"b": 2}, 1), (False, {"a": 1}, 1)],
    ids=["a guess", "it had seen everything", "its own change is missing"],
)
def test_only_a_sidecar_that_had_not_seen_everything_may_answer_without_the_changes_of_others(
    informed: bool, document: dict[str, int], wrong: int
) -> None:
    sent = update("a", Answer(Outcome.APPLIED, "11", "0", document), 0, edit=Edit(sets={"b": 2}))
    history = History(updates=[sent], heads=[Head(KEY, "11", "0", {"a": 1, "b": 2}, 0.5, "a", informed)])
    timeline = Timeline(history)
    assert len(list(answers_tell_the_truth(history, timeline))) == wrong
    assert timeline.allowed["answers of a sidecar that had not seen everything"] == 1 - wrong
