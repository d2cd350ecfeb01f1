"""Answers that write nothing must know the changes that were acknowledged before their request was sent."""

from __future__ import annotations

from dataclasses import replace

from .documents import Edit
from .examples import KEY, update
from .records import Answer, Failure, Head, History, Outcome, Update
from .timeline import Timeline
from .updates import StaleAnswer, answers_know_what_was_acknowledged

HEADS = [Head(KEY, "11", "0", {"a": 1}, 0.5, "one"), Head(KEY, "12", "11", {"a": 2}, 2.5, "two")]


def _update(request_id: str, answer: Answer | Failure | None, at: float, until: float, *, dry: bool = False) -> Update:
    return update(request_id, answer, at, seconds=until - at, edit=Edit(sets={"a": 1}), validate_only=dry)


WRITTEN = [
    _update("one", Answer(Outcome.APPLIED, "11", "0", {"a": 1}), 0, 1),
    _update("two", Answer(Outcome.APPLIED, "12", "11", {"a": 2}), 2, 3),
]
UNCHANGED = Answer(Outcome.UNCHANGED, "11", "11", {"a": 1})


def broken(*updates: Update, led: bool = False) -> list[StaleAnswer]:
    history = History(updates=[*WRITTEN, *updates], heads=HEADS, led=led)
    return list(answers_know_what_was_acknowledged(history, Timeline(history)))


def test_an_answer_need_not_know_a_change_that_was_acknowledged_after_its_request_was_sent() -> None:
    assert broken(_update("same", UNCHANGED, 2.9, 4)) == []


def test_an_answer_must_know_a_change_that_was_acknowledged_before_its_request_was_sent() -> None:
    for sent in (_update("same", UNCHANGED, 3.1, 4), _update("dry", UNCHANGED, 3.1, 4, dry=True)):
        (error,) = broken(sent)
        assert "12 was acknowledged before" in str(error)


def test_a_dry_run_that_would_write_must_know_such_a_change_too() -> None:
    assert len(broken(_update("dry", UNCHANGED._replace(outcome=Outcome.WOULD_APPLY), 3.1, 4, dry=True))) == 1


def test_a_repeat_counts_from_its_first_attempt_unless_that_was_refused_for_certain() -> None:
    again = _update("same", UNCHANGED, 3.5, 4)
    unanswered = _update("same", None, 2.9, 3.2)
    assert broken(unanswered, again) == []
    assert len(broken(replace(unanswered, answer=Failure("UNAVAILABLE", "NOT_APPENDED")), again)) == 1


def test_an_answer_about_an_absence_may_have_an_older_version_than_the_deletion() -> None:
    gone = Head(KEY, "13", "12", None, 4.5, "three")
    deleted = replace(_update("three", Answer(Outcome.APPLIED, "13", "12", None), 4, 5), edit=Edit(delete=True))
    absent = _update("skipped", Answer(Outcome.SKIPPED, "0", "0", None), 6, 7)
    history = History(updates=[*WRITTEN, deleted, absent], heads=[*HEADS, gone])
    assert list(answers_know_what_was_acknowledged(history, Timeline(history))) == []


def test_a_leader_may_answer_from_what_it_has_read() -> None:
    assert broken(_update("same", UNCHANGED, 3.1, 4), led=True) == []
