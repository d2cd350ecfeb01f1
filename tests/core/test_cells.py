"""Two views of one log, of which one puts every cell to rest that it can, give the same results."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.core.views import heads_of, states_of
from topicpolicies_server.core.fold.fold import FoldContext, restatement
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import Document
from topicpolicies_server.core.policies.events import Action, Event, Placed, Remembered, Seen, Stamp, StampKind
from topicpolicies_server.core.reading.cell import Head, Header, key_of, name_of
from topicpolicies_server.core.reading.tokens import Mode, OutOfRange, Selection, Token
from topicpolicies_server.core.reading.view import ActiveKeys, CellsInUse, View
from topicpolicies_server.core.reading.watch import WatchHub

from .test_cell import seen_in
from .test_view import update

LOG = "a log"
KEYS = [PolicyKey(f"persistent://acme/orders/{name}", scope) for name in "abc" for scope in Scope]
ALL = frozenset(Scope)
PARTITIONS = 2
W = 1_000
SETTINGS = ("max_producer_per_topic", "message_ttl_in_seconds", "subscription_policies/my-sub")


def event_of(chance: random.Random, key: PolicyKey, row: int, sole: bool) -> Event:
    """Returns any event that a writer may append: base, request and etag are those of earlier events that may exist."""
    written: Document = {name: bytes([chance.randint(1, 3)]) for name in chance.sample(SETTINGS, chance.randint(0, 3))}
    kind = chance.choice([*StampKind] if sole else [*StampKind, "broker", "gone", "none", "insert"])
    if not isinstance(kind, StampKind):
        action = {"broker": Action.UPDATE, "gone": Action.DELETE, "none": Action.NONE, "insert": Action.INSERT}[kind]
        return Event(key, action, None if kind == "gone" else written)

    def past() -> int:
        return chance.randint(max(row - 6, 1), row)

    remembered = tuple(
        Remembered(f"r{number}", "d", chance.choice(["", f"{number:04d}"]), f"{number - 1:04d}")
        for number in sorted({past() for _ in range(chance.randint(0, 3))})
    )
    stamp = Stamp(
        f"{chance.choice([row, row, past()]):032x}",
        kind,
        request_id=f"r{chance.choice([row, row, past()])}" if kind in (StampKind.UPDATE, StampKind.DELETE) else "",
        digest="d",
        actor="ci",
        mask=chance.choice([("max_producer_per_topic",), ("*",), ("message_ttl_in_seconds",)]),
        base=chance.choice(["", f"{past():04d}", f"{past():032x}"]),
        etag=chance.choice([None, None, "0", f"{past():04d}"]),
        remembered=remembered,
        head_version=f"{past():04d}",
        history=chance.choice([None, Seen("", f"{row - 1:04d}")]),
    )
    return Event(key, Action.UPDATE, None if kind is StampKind.TOMBSTONE else written, stamp)


class Pair:
    """Two views: does the same with both, and compares the results."""

    def __init__(self, context: FoldContext) -> None:
        self.context = context
        self.views = self.make()
        self.hubs = [WatchHub(view, Token(LOG, ("",) * PARTITIONS), ring=5) for view in self.views]
        self.positions = [""] * PARTITIONS
        self.log: list[Placed] = []

    def make(self) -> list[View]:
        return [View(self.context, in_use=CellsInUse(most)) for most in (10_000, 0)]

    def both(self, what: Callable[[View, WatchHub], Any]) -> Any:
        found = [what(view, hub) for view, hub in zip(self.views, self.hubs, strict=True)]
        assert plain(found[0]) == plain(found[1])
        return found[0]

    def take(self, placed: Placed) -> None:
        self.log.append(placed)
        event = placed.event
        assert event is not None

        def taken(view: View, hub: WatchHub) -> object:
            folded, change, before, state = view.fold(placed)
            if change is not None:
                hub.publish(change, before)
            return folded, change, state

        self.both(taken)
        self.positions[placed.partition] = placed.position
        for hub in self.hubs:
            hub.token = Token(LOG, tuple(self.positions))

    def reopen(self) -> None:
        """Replaces both views by views of the events that a compaction left."""
        newest = {placed.event.key: placed for placed in self.log if placed.event is not None}
        self.views = self.make()
        for view in self.views:
            for placed in sorted(newest.values(), key=lambda placed: placed.position):
                view.fold(placed)
            view.loaded()
        self.views[1].limit()
        self.hubs = [WatchHub(view, Token(LOG, tuple(self.positions)), ring=5) for view in self.views]

    def look(self, now: int, after: PolicyKey) -> None:
        for what in (
            lambda view, _: [view.head(key) for key in KEYS[:2]],
            lambda view, _: heads_of(view),
            lambda view, _: states_of(view),
            lambda view, _: [*view.due()],
            lambda view, _: view.page(ALL, after, 2),
            lambda view, _: view.page(ALL, None, 9, 4),
            lambda view, _: [restatement(key, state, "e") for key in KEYS if (state := view.state(key)) is not None],
            lambda view, _: (view.head_count, view.number, view.forgotten),
        ):
            self.both(what)
        self.both(lambda view, _: view.check_all_seen(now))
        for view, hub in zip(self.views, self.hubs, strict=True):
            for change in {change.key: change for change in hub.ring}.values():
                head = view.head(change.key)
                assert head is None or (head.version, head.document) == (change.version, change.document), "the ring has the same head"

    def watch(self, token: Token, mode: Mode) -> None:
        def watched(_: View, hub: WatchHub) -> object:
            try:
                watcher = hub.subscribe(Selection(None), mode, token, lambda: None)
            except OutOfRange as error:
                return str(error)
            taken = watcher.take(100).heads
            hub.unsubscribe(watcher)
            return taken

        self.both(watched)


def plain(thing: object) -> Any:
    """Returns heads and states as comparable values; of a head's event only the fields that callers see."""
    if isinstance(thing, Head):
        found = seen_in(thing)
        del found["before"]  # kept only as long as the ring has the head; ``look`` checks it
        placed = thing.placed
        if placed is not None and placed.event is not None and placed.event.stamp is not None:
            stamp = placed.event.stamp
            folding = stamp._fields[stamp._fields.index("base") : stamp._fields.index("history") + 1]
            shown = stamp._replace(**{field: stamp._field_defaults[field] for field in folding})
            found["placed"] = placed._replace(event=placed.event._replace(stamp=shown))
        return found
    if isinstance(thing, tuple | list):
        return [plain(each) for each in thing]
    return seen_in(thing)


@pytest.mark.parametrize("kind", ["sole", "shared", "joining", "in place"])
@pytest.mark.parametrize("first", [0, pytest.param(25, marks=pytest.mark.evidence)])
def test_cells_at_rest_give_the_same_results_as_those_in_use(monkeypatch: pytest.MonkeyPatch, kind: str, first: int) -> None:
    monkeypatch.setattr(Header, "has_document", False)  # keeps the order in which cells become idle equal in both
    woken = sum(one_history(kind, seed) for seed in range(first, first + 25))
    assert woken > 150, "many cells were at rest when their next event arrived"


def one_history(kind: str, seed: int) -> int:
    """Runs one random history. Returns for how many events the cell was at rest."""
    chance = random.Random(f"{kind} {seed}")
    joined_at = None if kind in ("sole", "shared") else 50
    sole, joining, in_place = kind == "sole", kind in ("sole", "joining"), kind == "in place"
    complete = chance.choice([("", ""), ("0003", "0003"), (None, None)])
    pair = Pair(FoldContext(W, joining, sole, in_place, joined_at, complete))
    now = woken = 0
    for step in chance.choices(["take", "look", "rest", "watch", "reopen", "loaded"], [12, 2, 3, 2, 1, 1], k=60):
        if step == "take":
            key = chance.choice(KEYS)
            row, now = len(pair.log) + 1, now + chance.choice([1, 20, 700, 2_500])
            event = event_of(chance, key, row, kind == "sole")
            partition = chance.choice([KEYS.index(key) % 2] * 9 + [1])
            woken += isinstance(pair.views[1]._cells.get(name_of(key)), bytes)
            pair.take(Placed(partition, f"{row:04d}", event, now, chance.choice(["", "a", "b"])))
        elif step == "look":
            pair.look(now + chance.choice([0, 1_500, 5_000]), chance.choice(KEYS))
        elif step == "rest":
            pair.views[1].limit()
        elif step == "watch":
            places = [f"{chance.randint(0, len(pair.log)):04d}" for _ in range(PARTITIONS)]
            pair.watch(Token(LOG, tuple(places)), chance.choice([Mode.LATEST, Mode.EVERY]))
        elif step == "reopen":
            pair.reopen()
        else:
            for view in pair.views:
                view.loaded()
    pair.look(now, KEYS[0])
    return woken


def many(view: View, events: int, first: int = 1, keys: int = 1_000_000) -> None:
    for row in range(first, first + events):
        key = PolicyKey(f"persistent://acme/orders/{row % keys:06d}", Scope.LOCAL)
        view.fold(update(key, row, row % 100)._replace(published_at=row))


def in_use(view: View) -> int:
    return sum(not isinstance(kept, bytes) for kept in view._cells.values())


def test_one_event_from_the_future_makes_no_key_idle() -> None:
    active = ActiveKeys(W)
    assert active.touch("a", 0) == active.touch("b", 86_400_000) == active.touch("c", 2_900) == active.touch("c", 3_010) == []
    assert active.touch("d", 3_011) == ["a"] and "b" in active


@pytest.mark.parametrize("seed", range(20))
def test_only_deleted_and_idle_keys_are_forgotten_also_of_those_at_rest(seed: int) -> None:
    chance = random.Random(seed)
    view = View(FoldContext(W, sole_writer=chance.random() < 0.5), absences=3, in_use=CellsInUse(chance.choice([0, 5])))
    there: dict[PolicyKey, int] = {}
    deleted_at: dict[PolicyKey, int] = {}
    now = 0
    for row in range(1, 400):
        now += chance.choice([1, 50, 400])
        key = PolicyKey(f"persistent://acme/orders/{chance.randint(1, 40)}", Scope.LOCAL)
        if key in there and chance.random() < 0.7:
            view.fold(Placed(0, f"{row:04d}", Event(key, Action.DELETE, None), now))
            del there[key]
            deleted_at[key] = now
        elif key not in there:
            view.fold(update(key, row, row % 100)._replace(published_at=now))
            there[key] = row
            deleted_at.pop(key, None)
        for gone, at in deleted_at.items():
            assert view.head(gone) is not None or at < now - 3 * W, "events may still arrive that were computed from the deleted document"
    assert {head.key: head.version for head in view.page(ALL, None, 100)[0]} == {key: f"{row:04d}" for key, row in there.items()}
    assert view.forgotten, "some deletions were forgotten"


@pytest.mark.parametrize("scope", Scope)
def test_a_key_can_be_recovered_from_its_name(scope: Scope) -> None:
    key = PolicyKey("persistent://acme/orders/a", scope)
    assert key_of(name_of(key)) == key


def test_keys_whose_state_is_only_asked_for_are_put_to_rest_too() -> None:
    view = View(FoldContext(sole_writer=True), in_use=CellsInUse(10))
    many(view, 100)
    for row in range(1, 101):
        assert view.state(PolicyKey(f"persistent://acme/orders/{row:06d}", Scope.LOCAL)) is not None
    assert in_use(view) <= 11
