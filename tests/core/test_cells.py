"""Two views of one log, of which one freezes every cell that it can, give the same results."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import Settings
from topicpolicies_server.core.policies.events import Action, Event, Placed, Remembered, Seen, Stamp, StampKind
from topicpolicies_server.core.reading.cells import WARM, Cells, key_of, name_of
from topicpolicies_server.core.reading.heads import Before, Cell, Head
from topicpolicies_server.core.reading.recent_cells import RecentCells
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.core.reading.watch import Mode, OutOfRange, Selection, Token, WatchHub

from .test_frozen import seen_in
from .test_view import A, document, update, view_of

LOG = "a log"
KEYS = [PolicyKey(f"persistent://acme/orders/{name}", scope) for name in "abc" for scope in Scope]
ALL = frozenset(Scope)
PARTITIONS = 2
W = 1_000
SETTINGS = ("max_producer_per_topic", "message_ttl_in_seconds", "subscription_policies/my-sub")


def event_of(chance: random.Random, key: PolicyKey, row: int, sole: bool) -> Event:
    """Returns any event that a writer may append: base, request and etag are those of earlier events that may exist."""
    written: Settings = {name: bytes([chance.randint(1, 3)]) for name in chance.sample(SETTINGS, chance.randint(0, 3))}
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
        seen=chance.choice([None, Seen("", f"{row - 1:04d}")]),
    )
    return Event(key, Action.UPDATE, None if kind is StampKind.TOMBSTONE else written, stamp)


class Pair:
    """Two views: does the same with both, and compares the results."""

    def __init__(self, context: FoldContext, complete: tuple[str | None, ...]) -> None:
        self.context, self.complete = context, complete
        self.views = self.make()
        self.hubs = [WatchHub(view, Token(LOG, ("",) * PARTITIONS), ring=5) for view in self.views]
        self.positions = [""] * PARTITIONS
        self.log: list[Placed] = []
        self.frozen = self.reopened = 0

    def make(self) -> list[View]:
        return [View(self.context, self.complete, warm=warm) for warm in (10_000, 0)]

    def both(self, what: Callable[[View, WatchHub], Any]) -> Any:
        found = [what(view, hub) for view, hub in zip(self.views, self.hubs, strict=True)]
        assert plain(found[0]) == plain(found[1])
        return found[0]

    def take(self, placed: Placed) -> None:
        self.log.append(placed)
        event = placed.event
        assert event is not None

        def taken(view: View, hub: WatchHub) -> object:
            before = view.head(event.key)
            folded, change = view.take(placed)
            if change is not None:
                change.before = Before(before.document if before is not None else None) if change.previous else None
                hub.publish(change)
            return folded, change, view.state(event.key)

        self.both(taken)
        self.positions[placed.partition] = placed.position
        for hub in self.hubs:
            hub.moved(Token(LOG, tuple(self.positions)))

    def reopen(self) -> None:
        """Replaces both views by views of the events that a compaction left."""
        newest = {placed.event.key: placed for placed in self.log if placed.event is not None}
        views = self.make()
        for view in views:
            for placed in sorted(newest.values(), key=lambda placed: placed.position):
                view.take(placed)
            view.loaded()
        token = Token(LOG, tuple(self.positions))
        self.reopened = self.views[0].number
        views[1].settle(100)
        changes = [new.succeed(old, token.positions) for new, old in zip(views, self.views, strict=True)]
        assert plain(changes[0]) == plain(changes[1])
        for hub, view, changed in zip(self.hubs, views, changes, strict=True):
            hub.succeed(view, token, changed)
        self.views = views

    def look(self, now: int, after: PolicyKey) -> None:
        for what in (
            lambda view, _: [view.head(key) for key in KEYS[:2]],
            lambda view, _: [*view.heads()],
            lambda view, _: [*view.traced([*view.traces()])],
            lambda view, _: [*view.states()],
            lambda view, _: [*view.due()],
            lambda view, _: view.page(ALL, after, 2),
            lambda view, _: view.page(ALL, None, 9, 4),
            lambda view, _: [view.restatement(key, "e") for key in KEYS],
            lambda view, _: (len(view), view.number, view.forgotten, view.forgotten_number),
        ):
            self.both(what)
        self.both(lambda view, _: view.check_all_seen(now))
        for view, hub in zip(self.views, self.hubs, strict=True):
            for change in {change.key: change for change in hub.ring}.values():
                forgotten = view.head(change.key) is None or change.number <= self.reopened
                assert forgotten or change.before is None or view.head(change.key) is change, "the ring has the same head object"

    def watch(self, token: Token, mode: Mode) -> None:
        def watched(_: View, hub: WatchHub) -> object:
            try:
                watcher = hub.subscribe(Selection(None), mode, token, lambda: None)
            except OutOfRange as error:
                return str(error)
            taken = watcher.take(100).changes
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
            shown = Stamp(*stamp[:7], principal=stamp.principal, claimed=stamp.claimed, trace_parent=stamp.trace_parent)
            found["placed"] = placed._replace(event=placed.event._replace(stamp=shown))
        if found["placed"] is not None and found["placed"].event is not None:
            found["placed"] = found["placed"]._replace(event=found["placed"].event._replace(known=None))
        return found
    if isinstance(thing, tuple | list):
        return [plain(each) for each in thing]
    return seen_in(thing)


@pytest.mark.parametrize("kind", ["sole", "shared", "joining", "in place"])
@pytest.mark.parametrize("first", [0, pytest.param(50, marks=pytest.mark.evidence)])
def test_frozen_cells_give_the_same_results_as_live_ones(monkeypatch: pytest.MonkeyPatch, kind: str, first: int) -> None:
    monkeypatch.setattr(RecentCells, "rest", lambda *_: None)  # keeps the order in which cells become idle equal in both
    thawed = sum(one_history(kind, seed) for seed in range(first, first + 50))
    assert thawed > 300, "many cells were frozen when their next event arrived"


def one_history(kind: str, seed: int) -> int:
    """Runs one random history. Returns for how many events the cell was frozen."""
    chance = random.Random(f"{kind} {seed}")
    joined_at = None if kind in ("sole", "shared") else 50
    context = FoldContext(
        W, joining=kind in ("sole", "joining"), sole_writer=kind == "sole", in_place=kind == "in place", joined_at=joined_at
    )
    pair = Pair(context, chance.choice([("", ""), ("0003", "0003"), (None, None)]))
    now = thawed = 0
    for step in chance.choices(["take", "look", "settle", "watch", "reopen", "loaded"], [12, 2, 3, 2, 1, 1], k=60):
        if step == "take":
            key = chance.choice(KEYS)
            row, now = len(pair.log) + 1, now + chance.choice([1, 20, 700, 2_500])
            event = event_of(chance, key, row, kind == "sole")
            partition = chance.choice([KEYS.index(key) % 2] * 9 + [1])
            thawed += isinstance(pair.views[1]._cells.kept(name_of(key)), bytes)
            pair.take(Placed(partition, f"{row:04d}", event, now, chance.choice(["", "a", "b"])))
        elif step == "look":
            pair.look(now + chance.choice([0, 1_500, 5_000]), chance.choice(KEYS))
        elif step == "settle":
            pair.views[1].settle(chance.randint(0, 20))
        elif step == "watch":
            places = [f"{chance.randint(0, len(pair.log)):04d}" for _ in range(PARTITIONS)]
            pair.watch(Token(LOG, tuple(places)), chance.choice([Mode.LATEST, Mode.EVERY]))
        elif step == "reopen":
            pair.reopen()
        else:
            for view in pair.views:
                view.loaded()
    pair.look(now, KEYS[0])
    return thawed


def many(view: View, events: int, first: int = 1, keys: int = 1_000_000) -> None:
    for row in range(first, first + events):
        key = PolicyKey(f"persistent://acme/orders/{row % keys:06d}", Scope.LOCAL)
        view.take(update(key, row, row % 100)._replace(published_at=row))


def test_few_more_cells_stay_live_than_the_limit_also_after_all_heads_were_read() -> None:
    view = View(FoldContext(sole_writer=True), warm=10)
    many(view, 500)
    assert view.live <= 20
    assert len(view) == 500 and len(list(view.heads())) == 500 and view.live <= 20, "an iteration over all heads leaves frozen cells frozen"


def test_a_hot_key_stays_live() -> None:
    view = View(FoldContext(sole_writer=True), warm=10)
    view.take(update(A, 1, 1))
    hot = view.state(A)
    for row in range(2, 100):
        view.take(update(PolicyKey(f"persistent://acme/orders/{row:06d}", Scope.LOCAL), 2 * row, 1))
        view.take(update(A, 2 * row + 1, 2))
    assert view.state(A) is hot


def test_keys_that_change_in_turn_stay_live_up_to_a_multiple_of_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thawed: list[str] = []
    original = Cells._thawed

    def counted(self: Cells, name: str, data: bytes) -> Cell:
        thawed.append(name)
        return original(self, name, data)

    monkeypatch.setattr(Cells, "_thawed", counted)
    view = View(FoldContext(sole_writer=True), warm=10)
    for turn in range(5):
        thawed.clear()
        many(view, 100, 100 * turn + 1, keys=100)
    assert not thawed and view.live == 100
    many(view, 4_000, 1_000)
    assert view.live <= 170
    for _ in range(5):
        view.settle(1_000)
    assert view.live == 0
    many(view, 500, 6_000)
    assert view.live <= 20, "the room was taken back"


def test_keys_that_change_in_turn_stay_live_however_many_calls_of_settle_a_sweep_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    thawed: list[str] = []
    thaw = Cells._thawed

    def counted(cells: Cells, name: str, data: bytes) -> Cell:
        thawed.append(name)
        return thaw(cells, name, data)

    monkeypatch.setattr(Cells, "_thawed", counted)
    view = View(FoldContext(sole_writer=True), warm=10)
    many(view, 1_000, keys=100)
    for sweep in range(1, 4):
        thawed.clear()
        left = view.live
        assert left == 100
        while left > 0:
            left -= view.settle(min(left, 15))
        many(view, 300, 1_000 * sweep, keys=100)
        assert not thawed
    for _ in range(20):
        view.settle(15)
    assert view.live == 0
    many(view, 500, 6_000)
    assert view.live <= 20, "the room was taken back"


def test_unused_cells_are_frozen_by_settle_without_further_events() -> None:
    view = View(FoldContext(sole_writer=True))
    many(view, 200)
    assert view.live == 200 < WARM
    view.settle(200)
    view.settle(200)
    assert view.live == 0
    head = view.head(A)
    assert head is None and view.live == 0


def test_a_head_that_the_ring_keeps_is_the_same_object_after_thawing_with_its_predecessor() -> None:
    view = view_of(update(A, 1, 1))
    _, change = view.take(update(A, 2, 2))
    assert change is not None
    change.before = Before(document(1))
    view.settle(2)
    view.settle(2)
    assert view.live == 0
    assert [*view.heads()] == [change] and view.head(A) is change
    view.settle(2)
    view.settle(2)
    change.forget_before()
    del change
    head = view.head(A)
    assert head is not None and head.before is None and head.version == "0002"


@pytest.mark.parametrize("seed", range(20))
def test_only_deleted_and_idle_keys_are_forgotten_also_of_frozen_ones(seed: int) -> None:
    chance = random.Random(seed)
    view = View(FoldContext(W, sole_writer=chance.random() < 0.5), absences=3, warm=chance.choice([0, 5]))
    there: dict[PolicyKey, int] = {}
    deleted_at: dict[PolicyKey, int] = {}
    now = 0
    for row in range(1, 400):
        now += chance.choice([1, 50, 400])
        key = PolicyKey(f"persistent://acme/orders/{chance.randint(1, 40)}", Scope.LOCAL)
        if key in there and chance.random() < 0.7:
            view.take(Placed(0, f"{row:04d}", Event(key, Action.DELETE, None), now))
            del there[key]
            deleted_at[key] = now
        elif key not in there:
            view.take(update(key, row, row % 100)._replace(published_at=now))
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
