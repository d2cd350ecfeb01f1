"""Watchers that share a feed get the same changes as watchers without one, and a feed stays bounded."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Action, Event, Placed
from topicpolicies_server.core.reading import cell, cells
from topicpolicies_server.core.reading.cell import key_of, name_of
from topicpolicies_server.core.reading.cells import CellsInUse
from topicpolicies_server.core.reading.feed import Feed
from topicpolicies_server.core.reading.heads import Head
from topicpolicies_server.core.reading.runs import KEPT
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.core.reading.watch import Lagged, Mode, Replaced, Selection, Token, Watcher, WatchHub

from .test_view import A, B, C, update
from .test_watch import ALL, Bench, CountingRing, drained, versions

LOG = "a log"
KEYS = [PolicyKey(f"persistent://acme/orders/{name}", scope) for name in "abc" for scope in Scope]
PARTITIONS = 2
SELECTIONS = [Selection(None), Selection(None, frozenset({Scope.GLOBAL})), Selection(frozenset({KEYS[0].topic}))]


class HubWithoutFeeds(WatchHub):
    """A hub without feeds: each watcher keeps the changes that it is owed."""

    def enter(self, watcher: Watcher) -> Feed | None:
        return None


class Watched:
    """One watcher, and whether it was woken."""

    def __init__(self, hub: WatchHub, selection: Selection, mode: Mode, token: Token | None) -> None:
        self.woken = True
        self.watcher = hub.subscribe(selection, mode, token, self.wake)

    def wake(self) -> None:
        self.woken = True

    def take(self, most: int) -> tuple[object, ...]:
        """Takes changes. Returns everything that a caller can observe."""
        self.woken = False
        try:
            batch = self.watcher.take(most)
        except (Lagged, Replaced) as error:
            return type(error), self.watcher.token
        self.woken = batch.more
        shown = [(change.key, change.version, change.number, change.document) for change in batch.changes]
        return shown, batch.synced, batch.more, self.watcher.token


class World:
    """A hub over a view, and its watchers."""

    def __init__(self, kind: type[WatchHub], ring: int, absences: int) -> None:
        self.absences = absences
        self.view = View(FoldContext(window_ms=2), absences=absences)
        self.positions = [""] * PARTITIONS
        self.hub = kind(self.view, self.token, ring)
        self.log: list[Placed] = []
        self.watched: list[Watched] = []

    @property
    def token(self) -> Token:
        return Token(LOG, tuple(self.positions))

    def write(self, numbers: list[tuple[int, bool]]) -> None:
        """Writes events that are reported together: the number of a key, and whether it is a deletion."""
        for number, deletes in numbers:
            row = len(self.log) + 1
            placed = update(KEYS[number], row, row % 100, partition=number % PARTITIONS)._replace(published_at=row)
            if deletes:
                placed = placed._replace(event=Event(KEYS[number], Action.DELETE, None))
            self.log.append(placed)
            _, change = self.view.take(placed)
            if change is not None:
                self.hub.publish(change)
            self.positions[placed.partition] = placed.position
        self.hub.moved(self.token)

    def subscribe(self, selection: int, mode: Mode, *, resumes: bool) -> None:
        self.watched.append(Watched(self.hub, SELECTIONS[selection], mode, self.token if resumes else None))

    def correct(self, number: int) -> None:
        """Publishes a correction of a document under the same version."""
        head = self.view.head(KEYS[number])
        if head is None or head.placed is None:
            return
        change = type(head)(head.key, head.document, head.version, head.version, head.placed, self.view._number + 1)
        self.view._number += 1
        cell = self.view._cells.use(name_of(head.key))
        assert cell is not None, "it has a head"
        cell.head = change
        self.hub.publish(change)
        self.hub.moved(self.token)

    def reopen(self, *, same_log: bool) -> None:
        """Opens the log again, after a compaction that left the newest event of each key and no deletions."""
        newest = {placed.event.key: placed for placed in self.log if placed.event is not None}
        view = View(FoldContext(window_ms=2), absences=self.absences)
        for placed in sorted(newest.values(), key=lambda placed: placed.position):
            if placed.event is not None and placed.event.document is not None:
                view.take(placed)
        if same_log:
            self.hub.succeed(view, self.token, view.succeed(self.view, self.positions))
        else:
            view.supersede(self.view)
            self.hub.succeed(view, Token("another log", tuple(self.positions)), ())
        self.view = view


KEY = st.integers(0, len(KEYS) - 1)
STEPS = st.lists(
    st.tuples(st.just("write"), st.lists(st.tuples(KEY, st.sampled_from([False, False, True])), min_size=1, max_size=6))
    | st.tuples(st.just("watch"), st.integers(0, 2), st.sampled_from([Mode.LATEST, Mode.EVERY]), st.booleans())
    | st.tuples(st.just("take"), st.integers(0, 7), st.integers(1, 4))
    | st.tuples(st.just("drain"), st.integers(0, 7))
    | st.tuples(st.just("drain all"))
    | st.tuples(st.just("leave"), st.integers(0, 7))
    | st.tuples(st.just("correct"), KEY)
    | st.tuples(st.just("reopen"), st.sampled_from([True, True, True, False])),
    max_size=40,
)


def step_of(world: World, step: tuple[Any, ...]) -> list[object]:
    """Takes a step; returns what the watchers observed."""
    name, *rest = step
    if name == "write":
        world.write(rest[0])
    elif name == "watch" and world.hub.token.log == LOG:
        world.subscribe(rest[0], rest[1], resumes=rest[2])
    elif name == "correct":
        world.correct(rest[0])
    elif name == "reopen" and world.hub.token.log == LOG:
        world.reopen(same_log=rest[0])
    elif name == "drain all":
        return [each for number in range(len(world.watched)) for each in step_of(world, ("drain", number))]
    elif name in ("take", "drain", "leave") and rest[0] < len(world.watched):
        watched = world.watched[rest[0]]
        if name == "take":
            return [watched.take(rest[1])]
        if name == "leave":
            world.hub.unsubscribe(watched.watcher)
            del world.watched[rest[0]]
        else:
            seen: list[object] = [watched.take(3)]
            while watched.woken:
                seen.append(watched.take(3))
            return seen
    return []


@settings(max_examples=400, deadline=None)
@given(STEPS, st.sampled_from([2, 8, 1_000]))
def test_a_watcher_in_a_feed_gets_exactly_what_it_gets_without_one(steps: list[tuple[object, ...]], ring: int) -> None:
    shared, alone = World(WatchHub, ring, 1_000), World(HubWithoutFeeds, ring, 1_000)
    for step in [("watch", 0, Mode.LATEST, False), ("watch", 0, Mode.EVERY, False), ("drain all",), *steps]:
        assert step_of(shared, step) == step_of(alone, step)
        for mine, theirs in zip(shared.watched, alone.watched, strict=True):
            assert mine.watcher.token == theirs.watcher.token
            assert mine.woken or not theirs.woken, "a watcher that is owed changes was woken"
    assert step_of(shared, ("drain all",)) == step_of(alone, ("drain all",))


class CountingView(View):
    """A view that counts lookups of heads."""

    looked_up = 0

    def head(self, key: PolicyKey) -> Any:
        CountingView.looked_up += 1
        return super().head(key)


@pytest.mark.parametrize("mode", [Mode.LATEST, Mode.EVERY])
def test_changes_that_many_watchers_are_owed_are_kept_and_built_once(mode: Mode) -> None:
    bench = Bench(ring=100)
    bench.view = bench.hub.view = CountingView(bench.context)
    ring = bench.hub.ring = CountingRing(100, ("",))
    watchers = [bench.watch(mode=mode) for _ in range(50)]
    for watcher in watchers:
        drained(watcher)
    bench.change(A, B, A, C)
    assert len(bench.wakings) == 50
    (feed,) = bench.hub._feeds.values()
    assert feed.kept == 4
    CountingView.looked_up = 0
    runs = {id(watcher.take(100).run) for watcher in watchers}
    assert len(runs) == 1 and CountingView.looked_up <= 4 and ring.looked_at == 0
    assert feed.kept == 0, "no watcher is owed anything any more"


def test_a_feed_keeps_a_bounded_number_of_changes_for_a_watcher_that_does_not_read() -> None:
    bench = Bench(ring=100)
    stuck, lively = bench.watch(), bench.watch(mode=Mode.EVERY)
    drained(stuck)
    drained(lively)
    (feed,) = bench.hub._feeds.values()
    for _ in range(1_000):
        bench.change(A, B)
        assert len(drained(lively).changes) == 2
        assert feed.kept <= 200
    assert versions(drained(stuck).changes) == [("a", "1999"), ("b", "2000")]


@pytest.mark.parametrize("mode", [Mode.LATEST, Mode.EVERY])
def test_a_feed_keeps_few_runs_however_far_its_watchers_have_read(mode: Mode) -> None:
    bench = Bench(ring=100)
    keys = [PolicyKey(f"persistent://acme/orders/{number}", Scope.LOCAL) for number in range(50)]
    stuck, *readers = [bench.watch(mode=mode) for _ in range(len(keys) + 1)]
    for watcher in (stuck, *readers):
        drained(watcher)
    for key, reader in zip(keys, readers, strict=True):
        bench.change(key)
        drained(reader)  # each has read up to another change
    (feed,) = bench.hub._feeds.values()
    for number, reader in enumerate(readers, 1):
        assert [change.key for change in drained(reader).changes] == keys[number:]
        assert len(feed._runs) <= KEPT
    assert feed.kept == len(keys)
    assert [change.key for change in drained(stuck).changes] == keys


def test_a_feed_without_watchers_is_dropped() -> None:
    bench = Bench()
    watchers = [bench.watch(), bench.watch(Selection(None, frozenset({Scope.LOCAL})))]
    for watcher in watchers:
        drained(watcher)
    assert len(bench.hub._feeds) == 2
    for watcher in watchers:
        bench.hub.unsubscribe(watcher)
    assert not bench.hub._feeds and not bench.hub.watchers


def test_watchers_that_begin_between_two_changes_share_a_snapshot_and_its_runs() -> None:
    bench = Bench()
    bench.change(*(PolicyKey(f"persistent://acme/orders/{number}", Scope.LOCAL) for number in range(100)))
    first, second = bench.watch(), bench.watch()
    assert first.take(10).run is second.take(10).run
    bench.change(A)
    third = bench.watch()
    assert first.take(10).run is not third.take(10).run
    assert [change.number for change in third.take(10).changes] == [change.number for change in second.take(10).changes]


def test_a_snapshot_wakes_only_the_heads_that_are_taken_and_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[PolicyKey] = []

    def wake_head(name: str, data: bytes) -> Head | None:
        woken.append(key_of(name))
        return cell.wake_head(name, data)

    monkeypatch.setattr(cells, "wake_head", wake_head)
    bench = Bench()
    bench.view = bench.hub.view = View(bench.context, in_use=CellsInUse(0))
    keys = [PolicyKey(f"persistent://acme/orders/{number:03d}", Scope.LOCAL) for number in range(100)]
    bench.change(*keys)
    bench.view._cells.limit()
    watcher = bench.watch()
    assert not woken
    first = watcher.take(10)
    assert woken == keys[:10]
    bench.change(*keys)
    assert [(change.key, change.number) for change in [*first.changes, *watcher.take(90).changes]] == list(
        zip(keys, range(1, 101), strict=True)
    )


def test_a_snapshot_keeps_few_runs_and_is_released_after_its_last_watcher() -> None:
    bench = Bench()
    bench.change(*(PolicyKey(f"persistent://acme/orders/{number}", Scope.LOCAL) for number in range(100)))
    stuck, lively = bench.watch(), bench.watch()
    lot = weakref.ref(bench.hub.lot(ALL.scopes))
    drained(lively, 1)
    kept = lot()
    assert kept is not None and len(kept._runs) == KEPT
    del kept
    bench.hub.unsubscribe(stuck)
    del stuck
    gc.collect()
    assert lot() is None
