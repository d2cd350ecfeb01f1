"""What a watcher has taken when it is synced is the state of that moment, however many turns that took and whatever changed meanwhile."""

from __future__ import annotations

import random

import pytest

from tests.core.views import heads_of
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Action, Event
from topicpolicies_server.core.reading import watch
from topicpolicies_server.core.reading.cell import Head
from topicpolicies_server.core.reading.tokens import Lagged, Mode, OutOfRange, Selection, Token
from topicpolicies_server.core.reading.view import CellsInUse, View
from topicpolicies_server.core.reading.watch import Watcher, WatchHub

from .test_view import update

LOG = "a log"
PARTITIONS = 2
KEYS = [PolicyKey(f"persistent://acme/orders/{name}", scope) for name in "abcdefghijkl" for scope in Scope]
ALL = frozenset(Scope)
W = 50


class World:
    """A hub over a view that freezes what it can, and forgets deletions."""

    def __init__(self, chance: random.Random, keys: list[PolicyKey], ring: int) -> None:
        self.chance = chance
        self.keys = keys
        self.absences = chance.choice([0, 3, 100])
        self.view = self._view()
        self.positions = [""] * PARTITIONS
        self.hub = WatchHub(self.view, self.token, ring)
        self.row = 0

    def _view(self) -> View:
        return View(FoldContext(W, sole_writer=False), absences=self.absences, in_use=CellsInUse(self.chance.choice([0, 2, 100])))

    @property
    def token(self) -> Token:
        return Token(LOG, tuple(self.positions))

    def heads(self, selection: Selection) -> dict[PolicyKey, str]:
        """The version of each document that there is."""
        return {head.key: head.version for head in heads_of(self.view) if head.document is not None and selection.includes(head.key)}

    def change(self) -> None:
        key = self.chance.choice(self.keys)
        self.row += 1
        partition = KEYS.index(key) % PARTITIONS
        placed = update(key, self.row, self.row % 100, partition=partition)._replace(published_at=self.row * self.chance.choice([1, 1, W]))
        if self.chance.random() < 0.3:
            placed = placed._replace(event=Event(key, Action.DELETE, None))
        _, change, before, _ = self.view.fold(placed)
        if change is not None:
            self.hub.publish(change, before)
        self.positions[partition] = placed.position
        self.hub.token = self.token

    def go_on(self) -> None:
        what = self.chance.random()
        if what < 0.7:
            self.change()
        else:
            self.view.limit()


class Reader:
    """A reader that has what a watcher has sent it, and expects each change to be newer than what it has of its key."""

    def __init__(self, world: World, watcher: Watcher, known: dict[PolicyKey, Head] | None = None) -> None:
        self.world = world
        self.watcher = watcher
        self.known = dict(known or {})
        self.sent: list[Head] = []
        self.again = 0
        """How many changes it had already."""

    def take(self, most: int) -> bool:
        """Takes changes. Returns whether the watcher is synced after them."""
        stood = self.watcher.token
        batch = self.watcher.take(most)
        assert len(batch.heads) <= most
        for change in batch.heads:
            assert self.watcher.selection.includes(change.key)
            had = self.known.get(change.key)
            assert had is None or change.version >= had.version or not change.placed, "versions only grow"
            self.again += had is not None and change.version == had.version and bool(change.number)
            self.known[change.key] = change
            self.sent.append(change)
        token = self.watcher.token
        assert token is None or stood is None or token.reaches(stood), "a token never goes back"
        return not batch.more

    def take_all(self) -> None:
        while not self.take(3):
            pass

    @property
    def shown(self) -> dict[PolicyKey, str]:
        """The version of each document that the reader knows."""
        return {key: head.version for key, head in self.known.items() if head.document is not None}

    def until_synced(self) -> None:
        """Takes until SYNCED, while the world goes on, and checks what it has then."""
        world = self.world
        while not self.take(world.chance.randint(1, 6)):
            for _ in range(world.chance.choice([0, 1, 3])):
                world.go_on()
        assert self.shown == world.heads(self.watcher.selection)
        assert self.watcher.token == world.token and self.watcher.has_all


@pytest.fixture(params=[1, 5, 1_024])
def looks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many heads are looked at, at most, to find out what has changed."""
    monkeypatch.setattr(watch, "LOOKS", request.param)
    return int(request.param)


def _selection(chance: random.Random) -> Selection:
    topics = None if chance.random() < 0.6 else frozenset(key.topic for key in chance.sample(KEYS, 5))
    return Selection(topics, chance.choice([ALL, ALL, frozenset({Scope.LOCAL}), frozenset({Scope.GLOBAL})]))


def _goes_on(world: World, reader: Reader) -> None:
    """Checks what a reader gets after SYNCED."""
    for _ in range(10):
        world.change()
        if world.chance.random() < 0.5:
            reader.take(world.chance.randint(1, 6))
    reader.take_all()
    assert reader.shown == world.heads(reader.watcher.selection)
    assert reader.watcher.token == world.token


@pytest.mark.parametrize("ring", [2, 1_000])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.usefixtures("looks")
def test_what_a_snapshot_has_sent_when_it_is_synced_is_the_state_of_that_moment(seed: int, ring: int) -> None:
    chance = random.Random(seed)
    world = World(chance, KEYS[:: chance.choice([1, 1, 3])], ring)
    for _ in range(chance.choice([0, 5, 60])):
        world.go_on()
    selection, mode = _selection(chance), chance.choice([Mode.LATEST, Mode.LATEST, Mode.EVERY])
    reader = Reader(world, world.hub.subscribe(selection, mode, None, lambda: None))
    try:
        assert reader.watcher.token is None
        reader.until_synced()
        if selection.topics is not None:
            assert reader.known.keys() == set(selection.keys() or ())
        _goes_on(world, reader)
    except Lagged:
        assert mode is Mode.EVERY or world.view.forgotten, "the ring was too small"
        return
    assert ring == 2 or not reader.again, "no version twice"


@pytest.mark.parametrize("ring", [2, 1_000])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.usefixtures("looks")
def test_whoever_resumes_has_the_state_of_the_moment_at_which_he_is_synced_and_gets_nothing_again(seed: int, ring: int) -> None:
    chance = random.Random(seed)
    world = World(chance, KEYS, ring)
    for _ in range(chance.choice([5, 60])):
        world.go_on()
    token, selection = world.token, _selection(chance)
    before = {head.key: head for head in heads_of(world.view) if selection.includes(head.key)}
    for _ in range(chance.choice([0, 3, 40])):
        world.go_on()
    try:
        reader = Reader(world, world.hub.subscribe(selection, Mode.LATEST, token, lambda: None), before)
        reader.until_synced()
        _goes_on(world, reader)
    except (OutOfRange, Lagged):
        assert world.view.forgotten, "deletions that are owed"
        return
    assert ring == 2 or not reader.again, "no version twice"


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.usefixtures("looks")
def test_from_the_place_of_a_watcher_another_goes_on_without_missing_anything(seed: int) -> None:
    chance = random.Random(seed)
    world = World(chance, KEYS, chance.choice([2, 1_000]))
    for _ in range(60):
        world.change()
    selection = _selection(chance)
    reader = Reader(world, world.hub.subscribe(selection, Mode.LATEST, None, lambda: None))
    try:
        reader.until_synced()
        for _ in range(20):
            for _ in range(chance.choice([1, 10])):
                world.change()
            reader.take(chance.randint(1, 6))
            place = reader.watcher.resume_from
            assert place is not None and reader.watcher.token in (place, None)
            if chance.random() < 0.5:
                world.hub.unsubscribe(reader.watcher)
                reader.watcher = world.hub.subscribe(selection, Mode.LATEST, place, lambda: None)
        reader.take_all()
    except (OutOfRange, Lagged):
        assert world.view.forgotten, "deletions that are owed"
        return
    assert reader.shown == world.heads(selection)
