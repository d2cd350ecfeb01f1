"""Serialized cells, settled or not: they are read back exactly, and other bytes raise one type of error."""

from __future__ import annotations

import contextlib
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.fold.model.kinds import WORLDS
from tests.core.fold.model.world import World
from tests.core.fold.test_frozen_worlds import passing
from tests.core.test_frozen import DOCUMENTS, IDS, KEY, NAMES, POSITIONS, TEXTS, TIMES, heads, requests, seen_in, states
from topicpolicies_server.core.fold import fold as rules
from topicpolicies_server.core.fold.keystate import Joined, KeyState, Noted
from topicpolicies_server.core.policies.events import Action, Event, ListChange, Placed, Remembered, Seen, Stamp, StampKind
from topicpolicies_server.core.reading.cell_codec import Unreadable, from_bytes, to_bytes
from topicpolicies_server.core.reading.cells import name_of
from topicpolicies_server.core.reading.heads import Cell


@st.composite
def events(draw: st.DrawFn) -> Placed:
    """Draws any event of the key, with all fields of a stamp."""
    stamp = None
    if draw(st.booleans()):
        operands = draw(st.dictionaries(NAMES, st.tuples(st.sampled_from(ListChange), st.binary(max_size=6)), max_size=2))
        stamp = Stamp(
            draw(IDS), draw(st.sampled_from(StampKind)), draw(IDS), draw(TEXTS), draw(TEXTS), draw(TEXTS),
            tuple(draw(st.lists(TEXTS, max_size=2))), draw(IDS), draw(st.none() | POSITIONS), draw(st.booleans()),
            draw(st.dictionaries(NAMES, TEXTS, max_size=2)), operands, draw(requests()), draw(POSITIONS),
            draw(st.none() | st.builds(Seen, POSITIONS, POSITIONS)), draw(TEXTS), draw(TEXTS),
            *draw(st.sampled_from([(), ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=1")])),
        )  # fmt: skip
    known = draw(st.none() | st.frozensets(TEXTS, max_size=2))
    event = Event(KEY, draw(st.sampled_from(Action)), draw(st.none() | DOCUMENTS), stamp, known, draw(st.booleans()))
    return Placed(draw(st.integers(0, 9)), draw(POSITIONS), event, draw(TIMES), draw(TEXTS), draw(TEXTS))


@st.composite
def cells(draw: st.DrawFn) -> Cell:
    """Draws any cell, also unlikely ones."""
    cell = Cell(KEY, name_of(KEY), draw(st.integers(0, 9)), draw(states()))
    cell.head = draw(heads(cell.state))
    cell.touched_at = draw(TIMES)
    if draw(st.booleans()):
        joined = cell.state.joined = Joined(draw(POSITIONS), draw(TIMES), draw(POSITIONS))
        for placed in draw(st.lists(events(), max_size=3)):
            joined.trail.append(Noted(placed, draw(st.none() | st.lists(NAMES, max_size=2)), draw(st.booleans()), draw(st.booleans())))
        if cell.head is not None and joined.trail and draw(st.booleans()):
            placed = joined.trail[0].placed
            cell.head.placed, cell.head.partition = placed, placed.partition
    return cell


def all_of(cell: Cell) -> object:
    return cell.key, cell.partition, cell.touched_at, seen_in(cell.state), seen_in(cell.head)


@settings(max_examples=60, deadline=None)
@given(cells())
def test_a_cell_that_is_read_equals_the_cell_that_was_written(cell: Cell) -> None:
    data = to_bytes(cell)
    assert all_of(from_bytes(KEY, data)) == all_of(cell)
    assert to_bytes(from_bytes(KEY, data)) == data, "equal cells have equal bytes"


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(cells(), st.data())
def test_damaged_bytes_raise_no_error_but_unreadable(cell: Cell, data: st.DataObject) -> None:
    damaged = bytearray(to_bytes(cell))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
        damaged += b"" if damaged else b"0"
    with contextlib.suppress(Unreadable):
        from_bytes(KEY, bytes(damaged))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60) | st.text('[]{}0123456789,:nul"', max_size=40).map(str.encode))
def test_bytes_that_were_never_a_cell_raise_no_error_but_unreadable(data: bytes) -> None:
    with contextlib.suppress(Unreadable):
        from_bytes(KEY, data)
    with contextlib.suppress(Unreadable):
        from_bytes(KEY, b"%d:%b" % (len(data), data))


@pytest.mark.parametrize("name", ["sidecars", "mixed", "joining late", "joining", "foreign"])
def test_writing_and_reading_a_key_between_its_events_changes_no_result(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    counts: Counter[str] = Counter()

    def read_again(state: KeyState, placed: Placed) -> KeyState:
        assert placed.event is not None
        counts["with a trail" if state.joined is not None and state.joined.trail else "without"] += 1
        key = placed.event.key
        return from_bytes(key, to_bytes(Cell(key, name_of(key), 0, state))).state

    monkeypatch.setattr(rules, "fold", passing(rules.fold, random.Random(name), Counter(), read_again))
    for seed in range(6):
        World(WORLDS[name], seed).run()
    assert counts.total() > 100 and (counts["with a trail"] > 20 or "join" not in name), counts


def test_a_request_that_many_events_remember_is_written_once() -> None:
    requests = tuple(Remembered(f"the request {number}", "d" * 16, str(number), "") for number in range(16))
    cell = Cell(KEY, name_of(KEY), 0, KeyState())
    cell.state.remembered = requests
    joined = cell.state.joined = Joined("1", 5, "1")
    for number in range(10):
        stamp = Stamp(f"event {number}", StampKind.UPDATE, "r", "d", remembered=requests[number:])
        joined.trail.append(Noted(Placed(0, str(number), Event(KEY, Action.UPDATE, {}, stamp), number)))
    data = to_bytes(cell)
    assert all(data.count(b'"%b"' % request.request_id.encode()) == 1 for request in requests)
    assert all_of(from_bytes(KEY, data)) == all_of(cell)
