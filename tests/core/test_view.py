"""The view: heads in the order of their last change, and views that replace one another."""

from __future__ import annotations

import pytest

from tests.core.views import heads_of, states_of
from topicpolicies_server.core.fold.fold import FoldContext, restatement
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import Document
from topicpolicies_server.core.policies.events import ABSENT, Action, Event, Placed, Stamp, StampKind
from topicpolicies_server.core.reading.cell import key_of
from topicpolicies_server.core.reading.view import View

A, B, C = (PolicyKey(f"persistent://acme/orders/{name}", Scope.LOCAL) for name in "abc")
GLOBAL_A = PolicyKey(A.topic, Scope.GLOBAL)
SETTING = "max_producer_per_topic"


def document(value: int) -> Document:
    return {SETTING: bytes([0x80, 0x01, value])}


def update(key: PolicyKey, row: int, value: int, *, base: str = "", partition: int = 0) -> Placed:
    """Returns a sidecar's update of one setting."""
    stamp = Stamp(f"event-{partition}-{row}", StampKind.UPDATE, request_id=f"request-{partition}-{row}", mask=(SETTING,), base=base)
    return Placed(partition, f"{row:04d}", Event(key, Action.UPDATE, document(value), stamp), row)


def deletion(key: PolicyKey, row: int) -> Placed:
    return Placed(0, f"{row:04d}", Event(key, Action.UPDATE, {}, Stamp(f"event-{row}", StampKind.DELETE, request_id=f"request-{row}")), row)


def view_of(*events: Placed, context: FoldContext | None = None, complete: tuple[str | None, ...] = ("", "")) -> View:
    view = View((context or FoldContext(joining=True, sole_writer=True))._replace(complete=complete))
    for placed in events:
        view.fold(placed)
    view.loaded()
    return view


def test_heads_are_in_the_order_of_their_last_change_and_changes_are_numbered() -> None:
    view = view_of(update(A, 1, 1), update(B, 2, 1), update(C, 3, 1), update(A, 4, 2))
    assert [head.key for head in heads_of(view)] == [B, C, A]
    assert [key_of(trace.name) for trace in view.places()] == [A, C, B]
    assert [head.number for head in heads_of(view)] == [2, 3, 4] and view.number == 4


def test_a_change_has_the_previous_version_and_shares_the_documents_bytes() -> None:
    view = view_of(update(A, 1, 1))
    folded, change, *_ = view.fold(update(A, 2, 7))
    assert folded is not None and change is not None
    assert (change.version, change.previous) == ("0002", "0001")
    assert change.document == document(7)
    assert change is view.head(A) and change.event is not None and change.event.key == A


def test_an_event_that_changes_no_head_is_no_change() -> None:
    view = view_of(update(A, 1, 1))
    assert view.fold(Placed(0, "0002", None, 2)) == (None, None, None, None)
    folded, change, *_ = view.fold(update(A, 1, 1))
    assert folded is not None and change is None
    assert view.number == 1 and view.version(A) == "0001" and view.version(B) == ABSENT


def test_pages_are_in_the_order_of_keys_and_leave_out_absent_documents() -> None:
    view = view_of(update(C, 1, 1), update(A, 2, 1), update(B, 3, 1), deletion(B, 4), update(GLOBAL_A, 5, 1))
    both = frozenset(Scope)
    first, more = view.page(both, None, 2)
    assert [head.key for head in first] == [A, GLOBAL_A] and more
    second, more = view.page(both, first[-1].key, 2)
    assert [head.key for head in second] == [C] and not more
    local, _ = view.page(frozenset({Scope.LOCAL}), None, 10)
    assert [head.key for head in local] == [A, C]
    view.fold(update(B, 6, 1))
    again, _ = view.page(both, None, 10)
    assert [head.key for head in again] == [A, GLOBAL_A, B, C]


# Logs whose beginning was compacted


@pytest.mark.parametrize(
    ("complete", "expected"), [("0004", {SETTING}), ("0005", {SETTING, "compaction_threshold"}), (None, {SETTING, "compaction_threshold"})]
)
def test_an_event_is_trusted_about_an_unseen_base_only_where_the_log_was_compacted(complete: str | None, expected: set[str]) -> None:
    view = View(FoldContext(joining=True, sole_writer=True, complete=(complete,)))
    event = update(A, 5, 1, base="an event that we have not seen").event
    assert event is not None
    view.fold(Placed(0, "0005", event._replace(document={**document(1), "compaction_threshold": b"\x18\x01"}), 5))
    head = view.head(A)
    assert head is not None and head.document is not None
    assert set(head.document) == expected


def test_in_a_shared_log_documents_may_be_unseen_until_the_window_has_passed() -> None:
    view = View(FoldContext(joining=True, joined_at=1_000_000, window_ms=1_000, complete=(None,)))
    view.fold(Placed(0, "0005", update(A, 5, 1, base="unseen").event, 999_500))
    view.fold(Placed(0, "0006", update(B, 6, 1, base="unseen").event, 999_700))
    view.loaded()
    assert view.check_all_seen(1_000_000) == 1_000_700
    assert view.check_all_seen(1_000_699) == 1_000_700
    assert view.check_all_seen(1_000_700) is None


@pytest.mark.parametrize(("complete", "since"), [("", ""), ("0004", "0005"), (None, "0005")])
def test_a_history_is_seen_from_its_beginning_only_in_a_log_that_was_never_compacted(complete: str | None, since: str) -> None:
    view = View(FoldContext(joining=True, joined_at=1_000_000, complete=(complete,)))
    view.fold(update(A, 5, 1))
    state = view.state(A)
    assert state is not None and state.since == since


@pytest.mark.parametrize(("complete", "missing"), [("", False), ("0004", True), (None, True)])
def test_in_a_log_that_was_never_compacted_no_document_is_unseen(complete: str | None, missing: bool) -> None:
    view = View(FoldContext(joining=True, joined_at=1_000_000, window_ms=1_000, complete=(complete,)))
    view.fold(Placed(0, "0005", Event(A, Action.UPDATE, document(1), None), 999_900))
    view.fold(Placed(0, "0006", Event(A, Action.UPDATE, document(2), None), 999_950))
    view.loaded()
    state = view.state(A)
    assert state is not None and state.joining is missing
    assert view.check_all_seen(1_000_000) == (1_000_900 if missing else None)


def test_a_key_that_is_idle_keeps_only_its_head_once_events_of_other_keys_arrive() -> None:
    view = View(FoldContext(window_ms=1_000))
    for row in range(1, 50):
        view.fold(update(A, row, row)._replace(published_at=row))
    idle = view.state(A)
    assert idle is not None and idle.older is not None and len(idle.older) == 49
    view.fold(update(B, 50, 1)._replace(published_at=3_049))
    assert len(idle.older) == 49, "a late broker event may still be computed from an older document of A"
    view.fold(update(B, 51, 2)._replace(published_at=3_050))
    assert len(idle.older) == 49, "the time is that of the event before, which one clock alone can't advance"
    view.fold(update(B, 52, 3)._replace(published_at=3_051))
    assert not [state for state in (idle.older, idle.superseded_ids) if state] and idle.document == document(49)


def at(placed: Placed, published_at: int) -> Placed:
    return placed._replace(published_at=published_at)


# Deleted keys


def topic(number: int) -> PolicyKey:
    return PolicyKey(f"persistent://acme/orders/{number:06d}", Scope.LOCAL)


class Row:
    """A writer of a log of one partition: a second passes with each event."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.number = 0

    def create(self, key: PolicyKey) -> str:
        self.number += 1
        placed = update(key, self.number, 1)
        self.view.fold(at(placed._replace(position=f"{self.number:09d}"), self.number * 1_000))
        return f"{self.number:09d}"

    def delete(self, key: PolicyKey) -> str:
        """Writes a deletion and its tombstone; returns the position of the deletion."""
        for event in (Event(key, Action.UPDATE, {}, Stamp(f"d{self.number}", StampKind.DELETE)), None):
            self.number += 1
            state = self.view.state(key)
            assert state is not None
            written = event or restatement(key, state, f"t{self.number}")
            self.view.fold(Placed(0, f"{self.number:09d}", written, self.number * 1_000))
        return f"{self.number - 1:09d}"


def test_the_keys_deleted_longest_ago_are_forgotten_and_keys_with_documents_are_not() -> None:
    view = View(FoldContext(), absences=10)
    row = Row(view)
    row.create(A)
    for number in range(500):
        row.create(topic(number))
        row.delete(topic(number))
    idle_after = 3 * 30 // 3  # seconds, and three events each
    assert len(states_of(view)) <= 1 + 10 + idle_after + 2
    assert view.head_count == len(heads_of(view))
    assert view.head(topic(0)) is None and view.version(topic(0)) == ABSENT and view.state(topic(0)) is None
    assert view.head(topic(499)) is not None
    head = view.head(A)
    assert view.page(frozenset(Scope), None, 10) == ([head], False)


def test_a_forgotten_key_that_is_created_again_follows_an_absence_like_a_new_key() -> None:
    view = View(FoldContext(), absences=0)
    row = Row(view)
    row.create(B)
    row.delete(B)
    for _ in range(200):
        row.create(A)
    assert view.head(B) is None
    created = row.create(B)
    head = view.head(B)
    assert head is not None and (head.version, head.previous) == (created, ABSENT)


def test_a_deleted_key_is_forgotten_once_the_events_that_an_old_broker_owed_cannot_arrive_any_more() -> None:
    view = View(FoldContext(in_place=True), absences=0)
    row = Row(view)
    for written in (document(1), {**document(1), "rate": b"r", "size": b"s"}, None):
        row.number += 1
        action = Action.UPDATE if written is not None else Action.DELETE
        view.fold(Placed(0, f"{row.number:09d}", Event(B, action, written), row.number * 1_000))
    state = view.state(B)
    assert state is not None and state.owed is not None, "the old broker owes events"
    for _ in range(200):
        row.create(A)
    assert view.head(B) is None and view.state(B) is None
