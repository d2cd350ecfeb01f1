"""What a watcher begins with is of one moment, however many turns it takes to find it and whatever changes meanwhile."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Iterable

import pytest

from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Action, Event, Placed
from topicpolicies_server.core.reading import walk
from topicpolicies_server.core.reading.cells import CellsInUse
from topicpolicies_server.core.reading.view import Head, View
from topicpolicies_server.core.reading.watch import Batch, Lagged, Mode, OutOfRange, Selection, Token, Watcher, WatchHub

from .test_view import update

LOG = "a log"
PARTITIONS = 2
KEYS = [PolicyKey(f"persistent://acme/orders/{name}", scope) for name in "abcdefghijkl" for scope in Scope]
ALL = frozenset(Scope)
W = 50


class World:
    """A hub over a view that freezes what it can, forgets deletions, and may be replaced."""

    def __init__(self, chance: random.Random, keys: list[PolicyKey]) -> None:
        self.chance = chance
        self.keys = keys
        self.absences = chance.choice([0, 3, 100])
        self.view = self._view()
        self.positions = [""] * PARTITIONS
        self.hub = WatchHub(self.view, self.token, 1_000)
        self.row = 0
        self.newest: dict[PolicyKey, Placed] = {}

    def _view(self) -> View:
        return View(FoldContext(W, sole_writer=False), absences=self.absences, in_use=CellsInUse(self.chance.choice([0, 2, 100])))

    @property
    def token(self) -> Token:
        return Token(LOG, tuple(self.positions))

    def heads(self, selection: Selection) -> dict[PolicyKey, str]:
        """The version of each document that there is."""
        return {head.key: head.version for head in self.view.heads() if head.document is not None and selection.includes(head.key)}

    def change(self) -> None:
        key = self.chance.choice(self.keys)
        self.row += 1
        partition = KEYS.index(key) % PARTITIONS
        placed = update(key, self.row, self.row % 100, partition=partition)._replace(published_at=self.row * self.chance.choice([1, 1, W]))
        if self.chance.random() < 0.3:
            placed = placed._replace(event=Event(key, Action.DELETE, None))
        self.newest[key] = placed
        _, change = self.view.take(placed)
        if change is not None:
            self.hub.publish(change)
        self.positions[partition] = placed.position
        self.hub.moved(self.token)

    def open_anew(self) -> None:
        """The log is opened anew: compaction has left the newest of each key, and no deletions."""
        view = self._view()
        for placed in sorted(self.newest.values(), key=lambda placed: placed.position):
            if placed.event is not None and placed.event.document is not None:
                view.take(placed)
        self.hub.succeed(view, self.token, view.succeed(self.view, self.positions))
        self.view = view

    def go_on(self) -> None:
        what = self.chance.random()
        if what < 0.7:
            self.change()
        elif what < 0.97:
            self.view._cells.limit()
        else:
            self.open_anew()


def _unique(heads: Iterable[Head]) -> dict[PolicyKey, Head]:
    found: dict[PolicyKey, Head] = {}
    for head in heads:
        assert head.key not in found, "each key once"
        found[head.key] = head
    return found


@pytest.fixture(params=[1, 2, 5, 1_024])
def looks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many keys are looked at in one turn."""
    monkeypatch.setattr(walk, "LOOKS", request.param)
    return int(request.param)


def _selection(chance: random.Random) -> Selection:
    topics = None if chance.random() < 0.6 else frozenset(key.topic for key in chance.sample(KEYS, 5))
    return Selection(topics, chance.choice([ALL, ALL, frozenset({Scope.LOCAL}), frozenset({Scope.GLOBAL})]))


def _until_synced(world: World, watcher: Watcher, looks: int) -> list[Head]:
    """Takes until SYNCED, while the world goes on."""
    found: list[Head] = []
    while True:
        batch = watcher.take(world.chance.randint(1, 6))
        assert len(batch.changes) <= max(6, looks)
        found += batch.changes
        if batch.synced:
            return found
        assert batch.more
        for _ in range(world.chance.choice([0, 1, 3])):
            world.go_on()


def _rest(watcher: Watcher) -> list[Head]:
    found: list[Head] = []
    batch = Batch([], False, True)
    while batch.more:
        batch = watcher.take(3)
        found += batch.changes
    return found


@pytest.mark.parametrize("seed", range(60))
def test_a_snapshot_is_of_the_moment_at_which_the_watch_began_and_changes_come_after_it(seed: int, looks: int) -> None:
    chance = random.Random(seed)
    world = World(chance, KEYS[:: chance.choice([1, 1, 3])])
    for _ in range(chance.choice([0, 5, 60])):
        world.go_on()
    selection, mode = _selection(chance), chance.choice([Mode.LATEST, Mode.LATEST, Mode.EVERY])
    began, then = world.token, world.heads(selection)
    watcher = world.hub.subscribe(selection, mode, None, lambda: None)
    try:
        found = _unique(_until_synced(world, watcher, looks))
    except Lagged:
        assert mode is Mode.EVERY or world.view.forgotten, "its view was replaced"
        return
    assert {key: head.version for key, head in found.items() if head.document is not None} == then
    assert found.keys() == then.keys() if selection.topics is None else found.keys() == set(selection.keys() or ())
    token = watcher.token
    assert token is not None and token.reaches(began)
    assert all(not token.is_before(head) for head in found.values() if head.number), "SYNCED covers what came before it"
    rest = _rest(watcher)
    assert all(token.is_before(change) or change.placed is None for change in rest), "and nothing else"
    known = then | {change.key: change.version for change in rest if change.document is not None}
    gone = {change.key for change in rest if change.document is None and change.version >= known.get(change.key, "")}
    assert {key: version for key, version in known.items() if key not in gone} == world.heads(selection)
    assert not [each for each in world.view._walks._begun if (begun := each()) is not None and not begun.complete]


@pytest.mark.parametrize("seed", range(60))
def test_whoever_goes_on_gets_what_had_changed_when_he_came_in_order_and_later_changes_after_it(seed: int, looks: int) -> None:
    chance = random.Random(seed)
    world = World(chance, KEYS)
    for _ in range(chance.choice([5, 60])):
        world.go_on()
    token, selection = world.token, _selection(chance)
    before = world.heads(selection)
    for _ in range(chance.choice([0, 3, 40])):
        world.go_on()
    then = [head for head in world.view.heads() if selection.includes(head.key) and token.is_before(head)]
    now = {head.key: head.version for head in then}
    wanted = [(head.key, head.version) for head in then]
    try:
        watcher = world.hub.subscribe(selection, Mode.LATEST, token, lambda: None)
    except OutOfRange:
        return  # deletions since are forgotten
    stood = watcher.token
    found: list[Head] = []
    try:
        while True:
            batch = watcher.take(chance.randint(1, 6))
            found += batch.changes
            at = watcher.token
            assert at is not None and stood is not None and at.reaches(stood), "it never goes back"
            stood = at
            if batch.synced:
                break
            for _ in range(chance.choice([0, 1, 3])):
                world.go_on()
        rest = _rest(watcher)
    except Lagged:
        assert world.view.forgotten, "deletions that are owed"
        return
    told = _unique(found)
    assert [(head.key, head.version) for head in found] == wanted
    assert told.keys() == now.keys()
    known = before | now
    shown = {head.key: head for head in [*found, *rest]}
    after = {key: version for key, version in known.items() if key not in shown}
    after |= {key: head.version for key, head in shown.items() if head.document is not None}
    assert after == world.heads(selection)


def _many(count: int) -> tuple[View, WatchHub]:
    view = View(FoldContext(sole_writer=True), in_use=CellsInUse(0))
    for row in range(1, count + 1):
        view.take(update(PolicyKey(f"persistent://acme/orders/{row:06d}", Scope.LOCAL), row, row % 100))
    view._cells.limit()
    return view, WatchHub(view, Token(LOG, (f"{count:04d}",)), horizon=("",))


@pytest.mark.parametrize("token", [None, Token(LOG, ("",))], ids=["a snapshot", "from the beginning"])
def test_no_turn_looks_at_more_than_so_many_keys(token: Token | None, monkeypatch: pytest.MonkeyPatch) -> None:
    _, hub = _many(5_000)
    looked = 0
    meet = walk.Walk._meet

    def counted(each: walk.Walk, *args: object) -> None:
        nonlocal looked
        looked += 1
        meet(each, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(walk.Walk, "_meet", counted)
    watcher = hub.subscribe(Selection(None), Mode.LATEST, token, lambda: None)
    assert looked == 0
    taken = 0
    while True:
        looked = 0
        batch = watcher.take(256)
        assert looked <= walk.LOOKS and len(batch.changes) <= 256
        taken += len(batch.changes)
        if batch.synced:
            break
    assert taken == 5_000


def test_a_walk_that_nobody_needs_any_more_is_told_nothing() -> None:
    view, hub = _many(2_000)
    gone, stays = (hub.subscribe(Selection(None), Mode.LATEST, None, lambda: None) for _ in range(2))
    assert len(view._walks) == 1, "both begin with the same"
    gone.take(10)
    hub.unsubscribe(gone)
    del gone
    stays.take(10)
    hub.unsubscribe(stays)
    del stays
    view.take(update(PolicyKey("persistent://acme/orders/another", Scope.LOCAL), 3_000, 1))
    assert len(view._walks) == 0


def _grown(count: int, *, watched: bool) -> int:
    """By how many bytes a view grows while each of its documents changes twice."""
    view, hub = _many(count)
    watcher = hub.subscribe(Selection(None), Mode.LATEST, None, lambda: None)
    if watched:
        watcher.take(10)  # and no more
    else:
        hub.unsubscribe(watcher)
        del watcher
    gc.collect()
    tracemalloc.start()
    try:
        for row in range(count + 1, 3 * count + 1):
            view.take(update(PolicyKey(f"persistent://acme/orders/{row % count + 1:06d}", Scope.LOCAL), row, row % 100))
        view._cells.limit()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_of_what_changes_a_snapshot_that_is_not_read_keeps_bytes() -> None:
    kept = (_grown(3_000, watched=True) - _grown(3_000, watched=False)) / 3_000
    assert kept < 900, "a head of one setting has 2,000 bytes"


def test_walks_that_are_over_do_not_add_up_where_nothing_changes() -> None:
    view, hub = _many(10)
    topics = frozenset({"persistent://acme/orders/000001"})
    for _ in range(1_000):
        watcher = hub.subscribe(Selection(topics), Mode.LATEST, None, lambda: None)
        watcher.take(10)
        hub.unsubscribe(watcher)
    assert len(view._walks) < 50
