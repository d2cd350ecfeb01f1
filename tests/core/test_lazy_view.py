"""A view that keeps entries and folds them on lookup gives the same answers at any time as one that folds each entry at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from topicpolicies_server.core.fold.fold import FoldContext, KeyState, repair_due
from topicpolicies_server.core.fold.keystate import ALONE
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import ABSENT, Action, Event, Placed, Remembered, Seen, Stamp, StampKind
from topicpolicies_server.core.reading.lazy_view import LazyView, UndecodedEntry
from topicpolicies_server.core.reading.view import Head, View
from topicpolicies_server.logs.stamps import from_properties, to_properties

W = 30_000
JOINED_AT = 1_000_000
CONTEXT = FoldContext(window_ms=W, joining=True, joined_at=JOINED_AT)
KEYS = [PolicyKey(f"persistent://a/b/topic-{number}", scope) for number in range(3) for scope in Scope]
DOCUMENTS: list[dict[str, bytes]] = [{}, {"x": b"1"}, {"x": b"2"}, {"y": b"1"}, {"x": b"1", "y": b"1"}]


class Entry(UndecodedEntry):
    """A placed event that counts how often it is decoded."""

    def __init__(self, placed: Placed, topic: str, *, broken: bool = False) -> None:
        super().__init__(placed.partition, placed.position, topic, placed.published_at)
        self.placed = placed
        self.broken = broken
        self.times = 0

    @property
    def producer(self) -> str:
        return self.placed.producer

    @property
    def size(self) -> int:
        return 100

    def decode(self) -> Placed:
        if self.broken:
            raise OSError("it can't be decoded")
        self.times += 1
        return as_read(self.placed)


def as_read(placed: Placed) -> Placed:
    """Returns the event with its stamp as read from a message, which parses some fields only when they are accessed."""
    event = placed.event
    if event is None or event.stamp is None:
        return placed
    return placed._replace(event=event._replace(stamp=from_properties(to_properties(event.stamp))))


def position(number: int) -> str:
    return f"a{number:04d}"


class Step(NamedTuple):
    """The next event, and what is done before it."""

    key: int
    kind: str
    document: int
    request: int
    base: int
    ago: int
    keeps: bool
    looks: list[int]
    unfolds: int


STEPS = st.lists(
    st.builds(
        Step,
        key=st.integers(0, len(KEYS) - 1),
        kind=st.sampled_from(
            ["update", "update", "broker", "broker", "insert", "none", "gone", "delete", "repair", "tombstone", "unreadable"]
        ),
        document=st.integers(0, len(DOCUMENTS) - 1),
        request=st.integers(0, 6),
        base=st.integers(0, 4),
        ago=st.integers(0, W),
        keeps=st.booleans(),
        looks=st.lists(st.integers(0, len(KEYS) - 1), max_size=2),
        unfolds=st.integers(0, 1),
    ),
    max_size=24,
)


def event_of(step: Step, number: int) -> Event | None:
    key = KEYS[step.key]
    document = DOCUMENTS[step.document]
    base = position(max(number - step.base, 1)) if step.base else ""
    if step.kind == "unreadable":
        return None
    if step.kind in ("broker", "insert", "none"):
        action = {"broker": Action.UPDATE, "insert": Action.INSERT, "none": Action.NONE}[step.kind]
        return Event(key, action, document if step.kind != "none" else None)
    if step.kind == "gone":
        return Event(key, Action.DELETE, None)
    kind = StampKind(step.kind)
    remembered = tuple(Remembered(f"request-{each}", "d", position(max(number - 2, 1)), ABSENT) for each in range(step.request // 2))
    stamp = Stamp(
        f"event-{number}",
        kind,
        request_id=f"request-{step.request}" if kind in (StampKind.UPDATE, StampKind.DELETE) else "",
        mask=("*",) if step.ago % 2 else (),
        base=base,
        etag=base if step.ago % 5 == 0 and base else None,
        remembered=remembered,
        head_version=base,
        seen=Seen(position(1), base) if step.ago % 3 == 0 and base else None,
    )
    gone = kind in (StampKind.DELETE, StampKind.TOMBSTONE)
    return Event(key, Action.DELETE if kind is StampKind.TOMBSTONE else Action.UPDATE, None if gone else document, stamp)


def shown(head: Head | None) -> Any:
    return None if head is None else (head.key, head.document, head.version, head.previous, head.placed, head.partition)


def inside(state: KeyState | None) -> Any:
    if state is None:
        return None
    parts = {name: getattr(state, name) for name in KeyState.__slots__}
    assert type(state.remembered) is tuple, "the remembered requests are parsed"
    known = state.joined
    parts["joined"] = known if known is None or known is ALONE else [getattr(known, name) for name in type(known).__slots__]
    return parts


def same(lazy: LazyView, eager: View, key: PolicyKey) -> None:
    assert shown(lazy.head(key)) == shown(eager.head(key))
    assert inside(lazy.state(key)) == inside(eager.state(key))
    assert lazy.version(key) == eager.version(key)
    state = eager.state(key)
    assert lazy.restatement(key, "repair") == eager.restatement(key, "repair")
    assert state is None or repair_due(state) == (eager.restatement(key, "repair") is not None)
    for request in range(7):
        assert lazy.recent.find(key, f"request-{request}") == eager.recent.find(key, f"request-{request}")


def an_update(key: int = 0, ago: int = 0, *, keeps: bool = False) -> Step:
    """Returns an update without a base."""
    return Step(key, "update", document=0, request=0, base=0, ago=ago, keeps=keeps, looks=[], unfolds=0)


@settings(max_examples=150)
@example(  # the last folded event of the key is older, by its time, than the kept event after it
    before=[*[an_update()] * 5, an_update(ago=W), an_update(key=1), an_update(keeps=True)], after=[an_update()], complete=0, moves_on=False
)
@given(STEPS, STEPS, st.integers(0, 30), st.booleans())
def test_a_lazy_view_gives_the_same_answers_at_any_time_as_one_that_folds_at_once(
    before: list[Step], after: list[Step], complete: int, moves_on: bool
) -> None:
    eager, lazy = View(CONTEXT, (position(complete),)), LazyView(CONTEXT, (position(complete),))
    entries: list[Entry] = []
    for number, step in enumerate([*before, *after], 1):
        for look in step.looks:
            same(lazy, eager, KEYS[look])
        if step.unfolds:
            lazy.fold_kept(1)
        if number == len(before) + 1:
            for view in (eager, lazy):
                view.loaded()
                assert view.check_all_seen(JOINED_AT + 1) is None
        if moves_on and number == len(before) // 2 + 1:
            for view in (eager, lazy):
                view.complete_behind((position(complete + 3),))
        at = JOINED_AT - W - step.ago if number <= len(before) else JOINED_AT + number
        event = event_of(step, number)
        placed = Placed(0, position(number), event, at, "producer", "damaged" if event is None else "")
        eager.take(placed)
        if step.keeps and number <= len(before):
            entries.append(Entry(placed, KEYS[step.key].topic))
            lazy.keep(entries[-1])
        else:
            lazy.take(placed)
    for key in KEYS:
        same(lazy, eager, key)
    assert not lazy.unfolded
    assert all(entry.times == 1 for entry in entries)
    assert len(lazy) == len(eager)
    assert sorted((head.key, head.version) for head in lazy.heads()) == sorted((head.key, head.version) for head in eager.heads())
    scopes = frozenset(Scope)
    assert [shown(head) for head in lazy.page(scopes, None, 10)[0]] == [shown(head) for head in eager.page(scopes, None, 10)[0]]


def filled(count: int = 5) -> tuple[LazyView, list[Entry]]:
    """Returns a view that keeps one entry of each of some topics, and the entries."""
    view = LazyView(CONTEXT, ("",))
    entries = []
    for number in range(count):
        key = PolicyKey(f"persistent://a/b/topic-{number}", Scope.LOCAL)
        placed = Placed(0, position(number + 1), Event(key, Action.UPDATE, {"x": b"1"}), JOINED_AT - 2 * W)
        entries.append(Entry(placed, key.topic))
        view.keep(entries[-1])
    return view, entries


def test_only_the_topic_that_is_looked_up_is_folded() -> None:
    view, entries = filled()
    assert (view.unfolded, len(view), list(view.states())) == (5, 5, [])
    assert view.version(KEYS[2]) == position(2)
    assert [entry.times for entry in entries] == [0, 1, 0, 0, 0]
    assert (view.unfolded, len(view)) == (4, 5)
    assert view.head(KEYS[3]) is None  # the other scope of that topic
    assert [key.topic for key, _ in view.states()] == [entries[1].topic]


@pytest.mark.parametrize(
    "look",
    [
        lambda view: list(view.heads()),
        lambda view: list(view.traces()),
        lambda view: view.page(frozenset(Scope), None, 2),
        lambda view: view.succeed(View(CONTEXT), (position(9),)),
        lambda view: View(CONTEXT).succeed(view, (position(9),)),
    ],
)
def test_a_lookup_of_all_keys_folds_all_kept_entries(look: Any) -> None:
    view, entries = filled()
    look(view)
    assert [entry.times for entry in entries] == [1] * 5
    assert not view.unfolded


def test_kept_entries_are_folded_some_at_a_time_the_oldest_first() -> None:
    view, entries = filled()
    assert view.fold_kept(2)
    assert [entry.times for entry in entries] == [1, 1, 0, 0, 0]
    assert not view.fold_kept(3)
    assert not view.fold_kept(3)


def test_a_lookup_raises_for_an_entry_that_cannot_be_decoded_and_folds_nothing_of_its_topic() -> None:
    view, entries = filled()
    topic = entries[1].topic
    second = entries[1].placed._replace(position=position(8))
    view.keep(Entry(second, topic, broken=True))
    for _ in range(2):
        with pytest.raises(OSError, match="decoded"):
            view.head(KEYS[2])
    assert view.unfolded == 5
    assert list(view.states()) == []
    assert view.version(KEYS[4]) == position(3)


def test_the_newest_requests_are_remembered_in_whatever_order_topics_are_folded() -> None:
    def update(number: int) -> Placed:
        key = PolicyKey(f"persistent://a/b/topic-{number}", Scope.LOCAL)
        stamp = Stamp(f"event-{number}", StampKind.UPDATE, request_id=f"request-{number}", mask=("*",))
        return Placed(0, position(number), Event(key, Action.UPDATE, {"x": b"1"}, stamp), JOINED_AT - 2 * W)

    view = LazyView(FoldContext(window_ms=W), ("",))
    view.recent.most = 5
    for number in range(1, 9):
        view.keep(Entry(update(number), f"persistent://a/b/topic-{number}"))
    key = PolicyKey("persistent://a/b/topic-", Scope.LOCAL)
    for number in (8, 1, 4):
        view.head(key._replace(topic=f"{key.topic}{number}"))
    view.take(update(9))
    view.fold_all()
    assert len(view.recent) == 5
    found = [view.recent.find(key._replace(topic=f"{key.topic}{number}"), f"request-{number}") for number in range(1, 10)]
    assert [each is not None for each in found] == [False] * 4 + [True] * 5


def test_a_topic_with_many_entries_is_folded_in_parts_in_order_and_completely_on_lookup() -> None:
    def placed(number: int) -> Placed:
        stamp = Stamp(f"event-{number}", StampKind.UPDATE, request_id=f"request-{number}", mask=("x",))
        return Placed(0, position(number), Event(KEYS[0], Action.UPDATE, {"x": b"%d" % number}, stamp), number)

    view, eager = LazyView(CONTEXT), View(CONTEXT)
    entries = [Entry(placed(number), KEYS[0].topic) for number in range(1, 101)]
    for entry in entries[:60]:
        view.keep(entry)
    opened = 0
    while opened < 50:
        assert view.fold_kept(7)
        now = sum(entry.times for entry in entries)
        assert opened < now <= opened + 7
        opened = now
    assert view.fold_some(KEYS[0].topic, 1) == 1
    for entry in entries[60:]:  # more entries arrive
        view.keep(entry)
    assert view.fold_kept(40) and view.unfolded == 1
    for entry in entries:
        eager.take(entry.placed)
    assert shown(view.head(KEYS[0])) == shown(eager.head(KEYS[0]))
    assert inside(view.state(KEYS[0])) == inside(eager.state(KEYS[0]))
    assert not view.unfolded and {entry.times for entry in entries} == {1}


def test_an_undecodable_entry_of_a_partly_folded_topic_leaves_the_rest_to_be_folded_later() -> None:
    view = LazyView(CONTEXT)
    entries = [
        Entry(Placed(0, position(number), Event(KEYS[0], Action.UPDATE, {"x": b"%d" % number}), number), KEYS[0].topic, broken=number == 4)
        for number in range(1, 6)
    ]
    for entry in entries:
        view.keep(entry)
    assert view.fold_kept(2)
    for _ in range(2):
        with pytest.raises(OSError, match="can't be decoded"):
            view.head(KEYS[0])
    entries[3].broken = False
    head = view.head(KEYS[0])
    assert head is not None and head.document == {"x": b"5"} and not view.unfolded


def test_a_partly_folded_topic_keeps_the_bases_of_its_rest_while_later_events_of_others_are_folded() -> None:
    """A broker's third event was computed from its first; before it is folded, another topic is folded up to minutes later."""
    hot, other = KEYS[0], KEYS[2]
    documents = [{"ttl": b"1"}, {"ttl": b"1", "rate": b"2"}, {"ttl": b"1", "size": b"3"}]
    events = [Placed(0, position(number), Event(hot, Action.UPDATE, each), number) for number, each in enumerate(documents, 1)]
    events += [Placed(0, position(number), Event(other, Action.UPDATE, {"x": b"%d" % number}), number * W // 2) for number in range(4, 24)]
    eager, lazy = View(CONTEXT, ("",)), LazyView(CONTEXT, ("",))
    for placed in events:
        eager.take(placed)
        assert placed.event is not None
        lazy.keep(Entry(placed, placed.event.key.topic))
    assert lazy.fold_some(hot.topic, 2) == 2
    assert shown(lazy.head(other)) == shown(eager.head(other))
    head = lazy.head(hot)
    assert shown(head) == shown(eager.head(hot))
    assert head is not None and head.document == {"ttl": b"1", "rate": b"2", "size": b"3"}, "the broker did not clear the rate"
    assert not lazy.unfolded
    later = Placed(0, position(30), Event(other, Action.UPDATE, {"x": b"30"}), 20 * W)
    for view in (eager, lazy):
        for _ in range(2):
            view.take(later)
    assert inside(lazy.state(hot)) == inside(eager.state(hot)), "documents that are of no use any more were dropped after all"


class Slow(NamedTuple):
    """The next event of a slowly written log, mostly a broker's; and how many entries of which topic are folded once all are kept."""

    key: int
    document: int
    stamped: bool
    pause: int
    folded: int
    folds: int


@settings(max_examples=300)
@given(
    st.lists(
        st.builds(
            Slow,
            key=st.sampled_from([0, 0, 1, 2]),
            document=st.integers(1, len(DOCUMENTS) - 1),
            stamped=st.sampled_from([False, False, False, True]),
            pause=st.sampled_from([0, 1, W, W]),
            folded=st.sampled_from([0, 2, 4]),
            folds=st.integers(0, 3),
        ),
        min_size=8,
        max_size=20,
    )
)
def test_the_heads_do_not_depend_on_the_order_of_folding_nor_on_the_pace_of_the_log(steps: list[Slow]) -> None:
    eager, lazy = View(CONTEXT, ("",)), LazyView(CONTEXT, ("",))
    at = 0
    for number, step in enumerate(steps, 1):
        at += step.pause
        stamp = Stamp(f"event-{number}", StampKind.UPDATE, f"request-{number}", mask=("x",)) if step.stamped else None
        key = KEYS[step.key]
        placed = Placed(0, position(number), Event(key, Action.UPDATE, DOCUMENTS[step.document], stamp), at, "producer")
        eager.take(placed)
        lazy.keep(Entry(placed, key.topic))
    for step in steps:
        lazy.fold_some(KEYS[step.folded].topic, step.folds)
    for key in KEYS:
        assert shown(lazy.head(key)) == shown(eager.head(key))
        assert lazy.restatement(key, "repair") == eager.restatement(key, "repair")
