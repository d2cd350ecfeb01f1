"""Recent requests are found as long as they are among the newest, each with its first answer."""

from __future__ import annotations

from topicpolicies_server.core.fold.keystate import ALONE, Joined, KeyState
from topicpolicies_server.core.fold.operation import Folded, Status
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Remembered, Stamp, StampKind
from topicpolicies_server.core.reading.view import RecentRequests

KEY = PolicyKey("persistent://public/default/t", Scope.LOCAL)


def request(number: int) -> Remembered:
    return Remembered(f"r{number}", "digest", f"1{number}", f"1{number - 1}")


def test_the_newest_requests_are_found_and_the_oldest_are_forgotten() -> None:
    recent = RecentRequests(most=100)
    for number in range(250):
        recent.add(KEY, request(number))
    assert len(recent) == 100
    assert recent.find(KEY, "r149") is None
    assert recent.find(KEY, "r150") == request(150)
    assert recent.find(KEY, "r249") == request(249)


def test_the_same_request_id_in_another_scope_is_another_request() -> None:
    recent = RecentRequests()
    recent.add(KEY, request(1))
    assert recent.find(KEY._replace(scope=Scope.GLOBAL), "r1") is None


def test_the_first_answer_to_a_request_is_kept() -> None:
    recent = RecentRequests()
    recent.add(KEY, request(1))
    recent.add(KEY, request(1)._replace(version="2"))
    assert recent.find(KEY, "r1") == request(1)


def state(joined: Joined | None = None) -> KeyState:
    folded = KeyState()
    folded.joined = joined
    return folded


def test_a_request_that_the_fold_has_applied_is_found() -> None:
    recent = RecentRequests()
    recent.note(KEY, Stamp("event", StampKind.UPDATE, request_id="r1", digest="digest"), Folded(Status.APPLIED, "11", "10"), state())
    assert recent.find(KEY, "r1") == request(1)


def test_a_request_that_was_not_certainly_applied_is_not_kept() -> None:
    recent = RecentRequests()
    update = Stamp("event", StampKind.UPDATE, request_id="r1", digest="digest")
    recent.note(KEY, update, Folded(Status.REJECTED_ETAG, "10", "10"), state())
    recent.note(
        KEY, update, Folded(Status.APPLIED, "11", ""), state(Joined("10", 1))
    )  # the key's history is not known, so it may be a repeat
    recent.note(KEY, update._replace(etag="10"), Folded(Status.APPLIED, "11", "10"), state(Joined("10", 1)))
    recent.note(KEY, update._replace(etag="10"), Folded(Status.APPLIED, "11", "10"), state(ALONE))
    recent.note(KEY, update._replace(request_id=""), Folded(Status.APPLIED, "11", "10"), state())
    assert len(recent) == 0


def test_restored_requests_are_found_and_forgotten_like_the_original_ones() -> None:
    before, after = RecentRequests(most=100), RecentRequests(most=100)
    for number in range(80):
        before.add(KEY._replace(scope=Scope(1 + number % 2)), request(number))
    after.restore(before.all()[:50])
    after.restore(before.all()[50:])
    for number in range(80, 130):
        before.add(KEY, request(number))
        after.add(KEY, request(number))
    assert after.all() == before.all()
    assert [after.find(KEY._replace(scope=Scope.GLOBAL), f"r{number}") for number in (29, 31)] == [None, request(31)]


def test_no_more_requests_are_restored_than_are_kept() -> None:
    before, after = RecentRequests(), RecentRequests(most=10)
    for number in range(25):
        before.add(KEY, request(number))
    after.restore(before.all())
    assert after.all() == before.all()[-10:]
