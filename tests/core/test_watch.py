"""The watch hub: what is owed to watchers, however slowly they take it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import ABSENT, Action, Event, Placed, Seen, Stamp, StampKind
from topicpolicies_server.core.reading import watch as watch_module
from topicpolicies_server.core.reading.cell import Head
from topicpolicies_server.core.reading.tokens import Lagged, Mode, OutOfRange, Replaced, Selection, Token
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.core.reading.watch import Watcher, WatchHub

from .test_view import GLOBAL_A, A, B, C, deletion, document, update

ALL = Selection(None)
LOG = "a log"


class Bench:
    """A hub over a view, and the watchers that it has woken."""

    def __init__(self, *, ring: int = 8, sole_writer: bool = True, forgets: bool = False) -> None:
        """``forgets``: no deletion is kept for long."""
        self.view = View(FoldContext(sole_writer=sole_writer), absences=0 if forgets else None)
        self.positions = [""]
        self.hub = WatchHub(self.view, Token(LOG, tuple(self.positions)), ring)
        self.rows = itertools.count(1)
        self.wakings: list[Watcher] = []

    def take(self, *events: Placed) -> None:
        for placed in events:
            _, change, before, _ = self.view.fold(placed)
            if change is not None:
                self.hub.publish(change, before)
            self.positions[placed.partition] = placed.position
            self.hub.token = Token(LOG, tuple(self.positions))

    def change(self, *keys: PolicyKey) -> None:
        """Changes each key once more."""
        for key in keys:
            row = next(self.rows)
            self.take(update(key, row, row % 100))

    def delete(self, key: PolicyKey) -> None:
        row = next(self.rows)
        self.take(Placed(0, f"{row:04d}", Event(key, Action.DELETE, None), row))

    def forget(self, key: PolicyKey, other: PolicyKey) -> None:
        """Changes another key until a deleted one is forgotten."""
        for _ in range(3):
            row = next(self.rows)
            self.take(update(other, row, row)._replace(published_at=row + 1_000_000))
        assert self.view.head(key) is None

    def watch(self, selection: Selection = ALL, mode: Mode = Mode.LATEST, token: Token | None = None) -> Watcher:
        watcher = self.hub.subscribe(selection, mode, token, lambda: self.wakings.append(watcher))
        return watcher


def drained(watcher: Watcher, most: int = 100) -> list[Head]:
    """Takes everything that a watcher is owed."""
    heads: list[Head] = []
    while True:
        batch = watcher.take(most)
        heads += batch.heads
        if not batch.more:
            return heads


def versions(changes: Iterable[object]) -> list[tuple[str, str]]:
    """Returns the last letter of each topic and the version."""
    return [(change.key.topic[-1], change.version) for change in changes]  # type: ignore[attr-defined]


@pytest.fixture
def bench() -> Bench:
    return Bench()


# Beginning


def test_a_watcher_gets_a_snapshot_then_changes(bench: Bench) -> None:
    bench.change(A, B)
    watcher = bench.watch()
    first = watcher.take(1)
    assert versions(first.heads) == [("a", "0001")] and first.more and first.token is None
    second = watcher.take(10)
    assert versions(second.heads) == [("b", "0002")] and not second.more and second.token == Token(LOG, ("0002",))
    bench.change(C)
    third = watcher.take(10)
    assert versions(third.heads) == [("c", "0003")]


def test_an_empty_snapshot_is_synced_at_once(bench: Bench) -> None:
    batch = bench.watch().take(10)
    assert not batch.heads and not batch.more


def test_a_snapshot_of_selected_topics_has_absent_and_deleted_documents(bench: Bench) -> None:
    bench.take(update(A, 1, 1), deletion(A, 2))
    watcher = bench.watch(Selection(frozenset({A.topic, C.topic}), frozenset({Scope.LOCAL})))
    batch = watcher.take(10)
    assert [(change.key, change.version, change.document) for change in batch.heads] == [(A, "0002", None), (C, ABSENT, None)]


def test_a_snapshot_of_a_namespace_leaves_out_absent_documents_and_other_scopes(bench: Bench) -> None:
    bench.take(update(A, 1, 1), deletion(A, 2), update(B, 3, 1), update(GLOBAL_A, 4, 1))
    assert versions(bench.watch(Selection(None, frozenset({Scope.LOCAL}))).take(10).heads) == [("b", "0003")]


@pytest.mark.parametrize("mode", list(Mode))
def test_changes_made_while_a_snapshot_is_taken_are_sent_once_before_it_is_synced(bench: Bench, mode: Mode) -> None:
    bench.change(A, B)
    watcher = bench.watch(mode=mode)
    watcher.take(1)
    bench.change(A, B)
    assert versions(drained(watcher)) == [("b", "0004"), ("a", "0003")], "the second page had the newer head"


# What watchers are owed


def test_a_watcher_of_the_latest_state_gets_each_key_once_however_slow_it_is() -> None:
    bench = Bench(ring=2)
    watcher = bench.watch()
    drained(watcher)
    for _ in range(50):
        bench.change(A, B)
    bench.change(C)
    assert versions(drained(watcher)) == [("a", "0099"), ("b", "0100"), ("c", "0101")]


def test_a_watcher_of_every_change_gets_all_changes_in_order(bench: Bench) -> None:
    watcher = bench.watch(mode=Mode.EVERY)
    drained(watcher)
    bench.change(A, A, B, A)
    assert versions(drained(watcher)) == [("a", "0001"), ("a", "0002"), ("b", "0003"), ("a", "0004")]


def test_a_watcher_of_every_change_has_lagged_if_it_is_owed_more_than_the_ring_holds() -> None:
    bench = Bench(ring=3)
    watcher = bench.watch(mode=Mode.EVERY)
    bench.change(A)
    drained(watcher)
    bench.change(A, A, A)
    assert len(drained(watcher)) == 3
    bench.change(A, A, A, A)
    with pytest.raises(Lagged):
        watcher.take(1)
    assert watcher.token == Token(LOG, ("0004",))
    with pytest.raises(Lagged):
        watcher.take(1)


def test_only_changes_of_selected_keys_are_delivered_and_wake_a_watcher(bench: Bench) -> None:
    watcher = bench.watch(Selection(frozenset({B.topic}), frozenset({Scope.LOCAL})))
    drained(watcher)
    bench.change(A, GLOBAL_A, PolicyKey(B.topic, Scope.GLOBAL))
    assert bench.wakings == []
    bench.change(B)
    assert bench.wakings == [watcher]
    assert versions(drained(watcher)) == [("b", "0004")]


# Waking


def test_a_watcher_is_woken_once_until_it_takes(bench: Bench) -> None:
    watcher = bench.watch()
    drained(watcher)
    bench.change(A, A, B)
    assert bench.wakings == [watcher]
    drained(watcher)
    bench.change(A)
    assert bench.wakings == [watcher, watcher]


def test_a_stuck_watcher_delays_no_other_watcher() -> None:
    bench = Bench(ring=4)
    stuck, lively = bench.watch(), bench.watch(mode=Mode.EVERY)
    drained(lively)
    for _ in range(100):
        bench.change(A, B)
        assert len(drained(lively)) == 2
    assert versions(drained(stuck)) == [("a", "0199"), ("b", "0200")]


def test_a_watcher_that_has_left_is_not_woken(bench: Bench) -> None:
    watchers = [bench.watch(Selection(frozenset({A.topic}))) if number % 2 else bench.watch() for number in range(6)]
    for watcher in watchers:
        drained(watcher)
    for gone in (watchers[0], watchers[0], watchers[1]):
        bench.hub.unsubscribe(gone)
    bench.change(A)
    assert set(bench.wakings) == set(watchers[2:]) and len(bench.hub._watchers) == 4


# Tokens


def test_a_token_advances_although_no_selected_key_has_changed(bench: Bench) -> None:
    watcher = bench.watch(Selection(frozenset({C.topic})))
    drained(watcher)
    bench.change(A, B)
    drained(watcher)
    assert watcher.token == Token(LOG, ("0002",))


@pytest.mark.parametrize("mode", list(Mode))
def test_a_watch_that_resumes_gets_each_later_change_and_none_again(bench: Bench, mode: Mode) -> None:
    bench.change(A, B)
    watcher = bench.watch(mode=mode)
    drained(watcher)
    token = watcher.token
    bench.change(C, A)
    resumed = drained(bench.watch(mode=mode, token=token))
    assert versions(resumed) == [("c", "0003"), ("a", "0004")]


def test_a_watch_of_topics_that_resumes_looks_at_their_keys_and_not_at_the_ring(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.change(A, B)
    token = Token(LOG, ("0002",))
    bench.change(C, A)
    monkeypatch.setattr(watch_module.WatchHub, "place_behind", lambda *_: pytest.fail("it has looked at the ring"))
    assert versions(drained(bench.watch(Selection(frozenset({A.topic})), token=token))) == [("a", "0004")]


@pytest.mark.parametrize(
    "token",
    [Token("another log", ("0003",)), Token(LOG, ("0003", "")), Token(LOG, ("0099",))],
    ids=["of another log", "with other partitions", "ahead of a log that nobody else writes"],
)
def test_a_token_that_does_not_fit_the_log_is_out_of_range(bench: Bench, token: Token) -> None:
    bench.change(A, B, C)
    with pytest.raises(OutOfRange):
        bench.watch(token=token)


def test_a_watch_of_every_change_cannot_resume_from_a_token_that_is_older_than_the_ring() -> None:
    bench = Bench(ring=2)
    bench.change(A, B, C)
    with pytest.raises(OutOfRange):
        bench.watch(mode=Mode.EVERY, token=Token(LOG, ("",)))
    assert versions(drained(bench.watch(mode=Mode.EVERY, token=Token(LOG, ("0001",))))) == [("b", "0002"), ("c", "0003")]
    assert len(drained(bench.watch(token=Token(LOG, ("",))))) == 3


def test_a_watch_that_resumes_from_a_faster_sidecars_token_gets_only_changes_after_it() -> None:
    bench = Bench(sole_writer=False)
    bench.change(A)
    watcher = bench.watch(token=Token(LOG, ("0003",)))
    assert drained(watcher) == []
    assert watcher.token == Token(LOG, ("0003",))
    bench.change(B, C)
    assert drained(watcher) == []
    bench.change(A)
    assert versions(drained(watcher)) == [("a", "0004")]


def test_a_ring_is_bounded_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "RING_BYTES", 12)
    bench = Bench(ring=100)
    watcher = bench.watch(mode=Mode.EVERY)
    drained(watcher)
    for _ in range(10):
        bench.change(A)
    assert [change.number for change in bench.hub.ring] == [7, 8, 9, 10], "four changes of three bytes"
    with pytest.raises(Lagged):
        watcher.take(1)
    bench.watch(mode=Mode.EVERY, token=Token(LOG, ("0006",)))
    with pytest.raises(OutOfRange):
        bench.watch(mode=Mode.EVERY, token=Token(LOG, ("0005",)))


@pytest.mark.parametrize("selection", [ALL, Selection(frozenset({A.topic, B.topic, C.topic}), frozenset({Scope.LOCAL}))])
def test_what_is_taken_at_once_is_bounded_in_bytes_documents_before_and_paths_included(
    bench: Bench, selection: Selection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "TAKEN_BYTES", 2 * (3 + len("max_producer_per_topic")))
    bench.change(A, B, C)
    watcher = bench.watch(selection)
    assert [len(watcher.take(100).heads) for _ in range(2)] == [2, 1], "three bytes each, and a path"
    monkeypatch.setattr(watch_module, "TAKEN_BYTES", 3 + 3 + len("max_producer_per_topic"))
    bench.change(A, B, C)
    taken = [watcher.take(100) for _ in range(3)]
    assert [len(each.heads) for each in taken] == [1, 1, 1]
    assert [each.token for each in taken] == [Token(LOG, (f"000{row}",)) for row in (4, 5, 6)]


# The log was opened again


@pytest.mark.parametrize("mode", [Mode.LATEST, Mode.EVERY])
def test_when_a_view_is_replaced_its_watchers_keep_their_places_unless_it_may_have_been_wrong(bench: Bench, mode: Mode) -> None:
    bench.change(A)
    watcher = bench.watch(mode=mode)
    drained(watcher)
    bench.hub.replace(Lagged, trusted=True)
    assert bench.wakings == [watcher]
    with pytest.raises(Lagged):
        watcher.take(1)
    assert watcher.resume_from == Token(LOG, ("0001",))
    bench.hub.replace(Lagged, trusted=False)
    assert watcher.resume_from is None


def guessed(bench: Bench, partition: int = 0) -> Head:
    """Has the bench show a guess, and returns its correction by a writer that had seen more, under the same version."""
    bench.view = View(FoldContext(joining=True, joined_at=10))
    bench.hub = WatchHub(bench.view, Token(LOG, ("",)), 100)
    bench.take(update(A, 5, 1, base="unseen"), update(B, 6, 1, base="unseen"))
    bench.view.loaded()
    stamp = Stamp("repair", StampKind.REPAIR, head_version="0005", history=Seen("", "0005"))
    change = bench.view.fold(Placed(partition, "0009", Event(A, Action.UPDATE, document(2), stamp), 9)).head
    assert change is not None and change.version == change.previous == "0005"
    return change


@pytest.mark.parametrize("most", [1, 10], ids=["in the middle of its snapshot", "when it is synced"])
def test_a_watcher_has_lagged_if_a_document_it_was_sent_is_corrected_under_the_same_version(bench: Bench, most: int) -> None:
    change = guessed(bench)
    watcher, other = bench.watch(), bench.watch(Selection(frozenset({B.topic})))
    watcher.take(most)
    drained(other)
    stood = bench.hub.token
    bench.hub.publish(change, None)
    bench.hub.token = Token(LOG, ("0009",))
    with pytest.raises(Lagged):
        watcher.take(10)
    with pytest.raises(OutOfRange):
        bench.watch(token=stood)
    again = drained(bench.watch())
    assert [(head.key, head.document) for head in again] == [(A, document(2)), (B, document(1))]
    assert other.take(10).heads == [] and other.token == bench.hub.token, "the correction does not concern it"


def test_an_absence_that_is_restated_with_an_older_version_is_sent_as_a_change(bench: Bench) -> None:
    bench.change(A)
    watcher = bench.watch()
    drained(watcher)
    bench.view.number += 1
    older = Head(B, None, "0001", "0003", Placed(0, "0004", None, 4), bench.view.number)
    bench.hub.publish(older, None)
    assert watcher.take(10).heads == [older]


def test_a_watcher_of_a_log_that_was_replaced_keeps_its_token_of_that_log(bench: Bench) -> None:
    """The watcher was sent documents of the old log: with a token of the new log it would never be sent the new ones."""
    bench.change(A, B)
    watcher = bench.watch(mode=Mode.EVERY)
    drained(watcher)
    bench.hub.replace(Replaced, trusted=True)
    assert watcher.token == Token(LOG, ("0002",))
    with pytest.raises(Replaced):
        watcher.take(1)
    assert watcher.token == Token(LOG, ("0002",))


def test_a_watch_cannot_resume_from_before_a_forgotten_deletion() -> None:
    bench = Bench(forgets=True)
    bench.change(A)
    before = bench.hub.token
    bench.delete(A)
    behind = bench.hub.token
    bench.forget(A, B)
    with pytest.raises(OutOfRange):
        bench.watch(token=before)
    assert versions(drained(bench.watch(token=behind))) == [("b", bench.hub.token.positions[0])]


def test_a_deletion_is_sent_to_a_watcher_that_is_owed_it_although_it_is_forgotten() -> None:
    bench = Bench(forgets=True)
    bench.change(A)
    watcher = bench.watch()
    drained(watcher)
    bench.delete(A)
    bench.forget(A, B)
    assert [(change.key, change.document is None) for change in drained(watcher)] == [(A, True), (B, False)]


def many(bench: Bench, keys: int) -> list[PolicyKey]:
    """Changes this many keys, and returns them."""
    changed = [PolicyKey(f"persistent://acme/orders/{number}", Scope.LOCAL) for number in range(keys)]
    bench.change(*changed)
    return changed


def test_a_watcher_of_the_latest_state_that_has_fallen_out_of_the_ring_gets_each_key_once(bench: Bench) -> None:
    watcher = bench.watch()
    drained(watcher)
    bench.change(A)
    drained(watcher)
    keys = many(bench, 50)
    many(bench, 20)
    assert watcher.token == Token(LOG, ("0001",))
    first = watcher.take(5)
    bench.change(keys[40], keys[3])
    rest = drained(watcher)
    assert [change.key for change in first.heads] == keys[20:25], "those that were changed longest ago first"
    assert {change.key: change.version for change in (*first.heads, *rest)} == {key: bench.view.version(key) for key in keys}
    assert watcher.token == bench.hub.token


def test_a_watcher_far_behind_has_lagged_if_a_deletion_that_it_is_owed_is_forgotten() -> None:
    bench = Bench(ring=1, forgets=True)
    bench.change(A)
    watcher = bench.watch()
    drained(watcher)
    bench.delete(A)
    bench.change(B)
    bench.forget(A, B)
    with pytest.raises(Lagged):
        watcher.take(1)
    assert watcher.token == Token(LOG, ("0001",))
    with pytest.raises(OutOfRange):
        bench.watch(token=watcher.token)


def test_a_deletion_that_is_forgotten_after_its_watcher_began_to_catch_up_is_sent() -> None:
    bench = Bench(ring=1, forgets=True)
    bench.change(A)
    watcher = bench.watch()
    drained(watcher)
    bench.change(B)
    bench.delete(A)
    assert versions(watcher.take(1).heads) == [("b", "0002")]
    bench.forget(A, C)
    rest = drained(watcher)
    assert [(change.key, change.document is None) for change in rest] == [(A, True), (C, False)]
