"""A watch that resumes from a watcher's token gets what that watcher would have got, and no token covers too much."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.views import heads_of
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Action, Event, Placed
from topicpolicies_server.core.reading import watch
from topicpolicies_server.core.reading.cell import Head
from topicpolicies_server.core.reading.tokens import Lagged, Mode, OutOfRange, Selection, Token
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.core.reading.watch import Watcher, WatchHub

from .test_view import update

LOG = "a log"
KEYS = [PolicyKey(f"persistent://acme/orders/{name}", Scope.LOCAL) for name in "abcdef"]
PARTITIONS = 2
SELECTIONS = [Selection(None), Selection(frozenset(key.topic for key in KEYS[:3]))]


class World:
    """A hub over a view, whose log may be opened again."""

    def __init__(self, ring: int, absences: int) -> None:
        self.absences = absences
        self.view = View(FoldContext(window_ms=2), absences=absences)
        self.positions = [""] * PARTITIONS
        self.ring = ring
        self.hub = WatchHub(self.view, self.token, ring)
        self.log: list[Placed] = []
        self.reopened = False

    @property
    def token(self) -> Token:
        return Token(LOG, tuple(self.positions))

    def write(self, number: int, deletes: bool, unseen: bool) -> None:
        """Appends the next event of a key; ``unseen``: it changes no head."""
        row = len(self.log) + 1
        partition = number % PARTITIONS
        placed = update(KEYS[number], row, row % 100, partition=partition)._replace(published_at=row)
        if unseen:
            placed = placed._replace(event=None)
        elif deletes:
            placed = placed._replace(event=Event(KEYS[number], Action.DELETE, None))
        self.log.append(placed)
        change = self.view.fold(placed).head
        if change is not None:
            self.hub.publish(change)
        self.positions[partition] = placed.position
        self.hub.token = self.token

    def reopen(self, numbers: list[int]) -> None:
        """Opens the log again: these keys were changed meanwhile, and a compaction left the newest event of each key and no deletions."""
        for number in numbers:
            row = len(self.log) + 1
            placed = update(KEYS[number], row, row % 100, partition=number % PARTITIONS)._replace(published_at=row)
            self.log.append(placed)
            self.positions[placed.partition] = placed.position
        newest = {placed.event.key: placed for placed in self.log if placed.event is not None}
        view = View(FoldContext(window_ms=2), (), absences=self.absences)
        for placed in sorted(newest.values(), key=lambda placed: placed.position):
            if placed.event is not None and placed.event.document is not None:
                view.fold(placed)
        self.hub.replace(Lagged, trusted=True)
        self.hub, self.view = WatchHub(view, self.token, self.ring), view
        self.reopened = True


def drained(watcher: Watcher, most: int = 3) -> list[Head]:
    changes: list[Head] = []
    while True:
        batch = watcher.take(most)
        changes += batch.heads
        if not batch.more:
            return changes


STEPS = st.lists(
    st.tuples(st.just("write"), st.integers(0, 5), st.booleans(), st.sampled_from([False, False, False, True]))
    | st.tuples(st.just("take"), st.integers(1, 4))
    | st.tuples(st.just("token"))
    | st.tuples(st.just("reopen"), st.lists(st.integers(0, 5), max_size=3)),
    max_size=40,
)


class Reader:
    """A reader that takes from a watcher, and keeps the newest head of each key."""

    def __init__(self, world: World, watcher: Watcher) -> None:
        self.world = world
        self.watcher = watcher
        self.known: dict[PolicyKey, Head] = {}
        self.taken: list[Head] = []
        self.lagged = 0
        self.newest_token = Token(LOG, ("",) * PARTITIONS)

    def take(self, most: int) -> bool:
        """Takes changes, or subscribes again after having lagged. Returns whether there is more to take."""
        try:
            batch = self.watcher.take(most)
        except Lagged:
            assert self.world.view.forgotten or self.world.reopened, "a watcher only lags if a deletion was forgotten, or the log read anew"
            self.watcher = self.world.hub.subscribe(self.watcher.selection, Mode.LATEST, None, lambda: None)
            self.known.clear()
            self.newest_token = Token(LOG, ("",) * PARTITIONS)
            self.lagged += 1
            return True
        self.note(batch.heads)
        self.taken += batch.heads
        return batch.more

    def note(self, changes: Sequence[Head]) -> None:
        for change in changes:
            assert change.key not in self.known or change.version >= self.known[change.key].version, "versions only grow"
            self.known[change.key] = change

    def look_at_token(self) -> None:
        token = self.watcher.token
        if token is not None:
            assert token.reaches(self.newest_token), "a token never goes back"
            assert self.world.hub.token.reaches(token), "a token covers no more than the view has seen"
            self.newest_token = token

    def check(self, selection: Selection) -> None:
        """Checks that the reader, which has taken everything, knows exactly the selected documents."""
        shown = {key: change.version for key, change in self.known.items() if change.document is not None}
        there = {head.key: head.version for head in heads_of(self.world.view) if head.document is not None}
        assert shown == {key: version for key, version in there.items() if selection.includes(key)}
        assert self.watcher.token == self.world.hub.token


def resumed(world: World, selection: Selection, mode: Mode, token: Token | None) -> list[Head] | None:
    """Returns what a watch gets that resumes from a token; None: it cannot resume."""
    if token is None:
        return None
    try:
        return drained(world.hub.subscribe(selection, mode, token, lambda: None))
    except OutOfRange:
        assert mode is Mode.LATEST and (world.view.forgotten or world.reopened), (
            "a watch resumes except after a forgotten deletion, or from before the log was read anew"
        )
        return None


@pytest.mark.parametrize("looks", [watch.LOOKS, 2, 1])
@pytest.mark.parametrize("mode", [Mode.LATEST, Mode.EVERY])
def test_a_watch_that_resumes_from_a_token_gets_what_its_watcher_would_have_got(
    mode: Mode, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "LOOKS", looks)

    @settings(max_examples=50, deadline=None)
    @given(STEPS, st.sampled_from(SELECTIONS), st.sampled_from([0, 2, 100]), st.integers(0, 8))
    def check(steps: list[tuple[object, ...]], selection: Selection, absences: int, before: int) -> None:
        ring = 1 if mode is Mode.LATEST and looks == 1 else 1_000
        _check_resuming(steps, mode, selection, absences, before, ring)

    check()


def _check_resuming(steps: list[tuple[object, ...]], mode: Mode, selection: Selection, absences: int, before: int, ring: int) -> None:
    world = World(ring, absences)
    for number in range(before):
        world.write(number % 6, deletes=False, unseen=False)
    reader = Reader(world, world.hub.subscribe(selection, mode, None, lambda: None))
    for step in steps:
        if step[0] == "write":
            assert isinstance(step[1], int)
            world.write(step[1], bool(step[2]), bool(step[3]))
        elif step[0] == "take":
            assert isinstance(step[1], int)
            reader.take(step[1])
        elif step[0] == "reopen" and mode is Mode.LATEST:
            assert isinstance(step[1], list)
            world.reopen(step[1])
        reader.look_at_token()
    again = resumed(world, selection, mode, reader.watcher.token)
    before_the_rest, lagged = len(reader.taken), reader.lagged
    while reader.take(3):
        pass
    rest = reader.taken[before_the_rest:]
    if again is not None and mode is Mode.EVERY:
        assert [change.number for change in again] == [change.number for change in rest]
    if again is not None and mode is Mode.LATEST and reader.lagged == lagged:
        last = {change.key: change.version for change in rest}
        assert last.items() <= {change.key: change.version for change in again}.items()
    reader.check(selection)


@settings(max_examples=80, deadline=None)
@given(STEPS, st.integers(1, 4))
def test_the_token_of_a_watcher_that_has_lagged_is_before_the_first_change_that_it_did_not_get(
    steps: list[tuple[object, ...]], ring: int
) -> None:
    world = World(ring, 100)
    watcher = world.hub.subscribe(Selection(None), Mode.EVERY, None, lambda: None)
    drained(watcher)
    given_: list[str] = []
    for step in steps:
        if step[0] == "write":
            assert isinstance(step[1], int)
            world.write(step[1], bool(step[2]), unseen=False)
        elif step[0] == "take":
            assert isinstance(step[1], int)
            try:
                given_ += [change.version for change in watcher.take(step[1]).heads]
            except Lagged:
                break
    token = watcher.token
    assert token is not None
    everything, view = [], View(FoldContext(window_ms=2))
    for placed in world.log:
        change = view.fold(placed).head
        if change is not None:
            everything.append(change)
    assert [change.version for change in everything if not token.is_before(change)] == given_
