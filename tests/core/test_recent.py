"""Requests that were applied lately are found as long as they are among the newest, each with its first answer."""

from __future__ import annotations

import pytest

from topicpolicies_server.core.fold.fold import FoldContext, Status
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Action, Event, Placed, Remembered, Stamp, StampKind
from topicpolicies_server.core.reading import view as views
from topicpolicies_server.core.reading.view import View

KEY = PolicyKey("persistent://public/default/t", Scope.LOCAL)
SETTING = "max_producer_per_topic"


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "RECENT", 100)


def position(number: int) -> str:
    return f"1{number:04}"


def update(view: View, number: int, request_id: str = "", key: PolicyKey = KEY, **conditions: str) -> Status | None:
    stamp = Stamp(f"event-{number}", StampKind.UPDATE, request_id or f"r{number}", "digest", mask=(SETTING,), **conditions)  # type: ignore[arg-type]
    event = Event(key, Action.UPDATE, {SETTING: bytes((number % 100,))}, stamp)
    folded = view.fold(Placed(0, position(number), event, number)).folded
    return folded.status if folded is not None else None


def request(number: int, previous: str = "") -> Remembered:
    return Remembered(f"r{number}", "digest", position(number), previous or position(number - 1))


def filled(first: int, end: int) -> View:
    view = View(FoldContext(sole_writer=True))
    for number in range(first, end):
        update(view, number)
    return view


def test_the_newest_requests_are_found_and_the_oldest_are_forgotten() -> None:
    view = filled(1, 251)
    assert len(view.copy().requests) == 100
    assert view.applied(KEY, "r150") is None
    assert view.applied(KEY, "r151") == request(151)
    assert view.applied(KEY, "r250") == request(250)


def test_the_same_request_id_in_another_scope_is_another_request() -> None:
    assert filled(1, 3).applied(KEY._replace(scope=Scope.GLOBAL), "r1") is None


def test_the_first_answer_to_a_request_is_kept() -> None:
    view = filled(1, 30)
    assert update(view, 30, "r2") is Status.APPLIED, "more requests followed than a state remembers"
    assert view.applied(KEY, "r2") == request(2)


def test_a_request_that_was_not_certainly_applied_is_not_kept() -> None:
    view = filled(1, 2)
    assert update(view, 2, etag=position(7)) is Status.REJECTED_ETAG
    view = View(FoldContext(joining=True))
    assert update(view, 3, base="not seen") is Status.APPLIED, "the key's history is not known, so it may be a repeat"
    assert update(view, 4, etag=position(3), base=position(3)) is Status.APPLIED
    assert [view.applied(KEY, f"r{number}") for number in (2, 3, 4)] == [None, None, None]
    assert update(view, 5, base=position(4)) is Status.APPLIED
    assert view.applied(KEY, "r5") == request(5)


def test_restored_requests_are_found_and_forgotten_like_the_original_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = filled(1, 80), View(FoldContext(sole_writer=True))
    after.restore(before.copy())
    for number in range(80, 130):
        update(before, number)
        update(after, number)
    assert after.copy().requests == before.copy().requests
    assert [after.applied(KEY, f"r{number}") for number in (29, 31)] == [None, request(31)]
    monkeypatch.setattr(views, "RECENT", 10)
    after = View(FoldContext(sole_writer=True))
    after.restore(before.copy())
    assert after.copy().requests == before.copy().requests[-10:], "no more are restored than are kept"
