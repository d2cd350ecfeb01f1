"""Cells at rest: waking restores them exactly, and bytes that are no cell are noticed."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from topicpolicies_server.core.fold.keystate import ALONE, Joined, KeyState, Owed, Superseded, TrailEvent
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies import documents
from topicpolicies_server.core.policies.events import Action, Event, ListChange, Placed, Remembered, Seen, Stamp, StampKind
from topicpolicies_server.core.reading.cell import (
    Cell,
    Damaged,
    Head,
    Header,
    from_bytes,
    head_from_bytes,
    is_due,
    name_of,
    to_bytes,
)

KEY = PolicyKey("persistent://acme/orders/a", Scope.LOCAL)
NAME = name_of(KEY)

HEXADECIMAL = st.uuids().map(lambda each: each.hex)
TEXTS = st.text(st.characters(), max_size=12)  # also lone surrogates
IDS = HEXADECIMAL | st.uuids().map(str) | TEXTS | HEXADECIMAL.map(str.upper)
DIGESTS = st.binary(min_size=8, max_size=8).map(bytes.hex) | TEXTS
POSITIONS = st.sampled_from(["", "0", "11", "51a2b3", "b31a3", "e12345d1234"]) | TEXTS
LONGER = st.text(st.characters(), min_size=2, max_size=12)
NAMES = (
    st.sampled_from(["max_producer_per_topic", "retention_policies", "delayed_delivery", "subscription_policies/my-sub", "?newer"]) | LONGER
)
DOCUMENTS = st.dictionaries(NAMES, st.binary(max_size=6) | st.just(b"x" * 200), max_size=4)
TIMES = st.integers(-(1 << 63) + 1, (1 << 63) - 1)


@st.composite
def requests(draw: st.DrawFn) -> tuple[Remembered, ...]:
    """Draws remembered requests, with ids and digests of one form or of several."""
    ids, digests = draw(st.sampled_from([HEXADECIMAL, st.uuids().map(str), IDS])), draw(st.sampled_from([DIGESTS, st.just("0" * 16)]))
    found = [Remembered(*each) for each in draw(st.lists(st.tuples(ids, digests, POSITIONS, POSITIONS), max_size=16))]
    if draw(st.booleans()):  # each was applied to the version that the one before made
        found[1:] = [each._replace(previous=before.version) for before, each in itertools.pairwise(found)]
        compacted: bool = draw(st.booleans())
        if found and compacted:  # a compaction left only the newest event
            found[-1] = found[-1]._replace(previous="")
    return tuple(found)


@st.composite
def states(draw: st.DrawFn) -> KeyState:
    """Draws any state, also unlikely ones."""
    state = KeyState()
    state.document = draw(st.none() | DOCUMENTS)
    state.raw = draw(st.sampled_from([None, state.document, dict(state.document or {})]) | DOCUMENTS)
    state.version = draw(POSITIONS)
    state.newest_event = draw(st.none() | st.just("") | IDS)
    state.head_event = draw(st.sampled_from([state.version, state.newest_event or "", ""]) | IDS)
    state.remembered = draw(requests())
    state.since, state.upto = draw(POSITIONS), draw(st.sampled_from([state.version, ""]) | POSITIONS)
    state.repair_due, state.contradictions = draw(st.booleans()), draw(st.integers(0, 5))
    raws = st.sampled_from([None, state.document, state.raw]) | DOCUMENTS
    superseded = st.builds(Superseded, raws, TIMES, IDS)
    state.older = draw(st.none() | st.lists(superseded, min_size=1, max_size=4))
    state.superseded_ids = draw(
        st.none() | st.lists(st.sampled_from([HEXADECIMAL, IDS]).flatmap(lambda kind: kind), max_size=4).map(dict.fromkeys)
    )
    state.owed = draw(st.none() | st.builds(Owed, st.integers(1, 9), TIMES))
    state.joined = draw(st.none() | st.just(ALONE) | st.builds(Joined, POSITIONS, TIMES, POSITIONS))
    return state


@st.composite
def heads(draw: st.DrawFn, state: KeyState) -> Head | None:
    """Draws any head of a key, mostly one that fits its state."""
    if draw(st.booleans()):
        return None
    document = draw(st.sampled_from([state.document, None]) | DOCUMENTS)
    version = draw(st.sampled_from([state.version, "7"]) | POSITIONS)
    placed = None
    if draw(st.booleans()):
        last = state.remembered[-1] if state.remembered else Remembered("", "", "", "")
        stamp = Stamp(
            draw(st.sampled_from([state.head_event, "event"]) | IDS),
            draw(st.sampled_from(StampKind)),
            draw(st.sampled_from([last.request_id]) | IDS),
            draw(st.sampled_from([last.digest]) | DIGESTS),
            draw(TEXTS),
            draw(TEXTS),
            tuple(draw(st.lists(NAMES, max_size=3))),
            principal=draw(TEXTS),
            claimed=draw(TEXTS),
            trace_parent=draw(st.sampled_from(["", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"])),
        )
        written = draw(st.sampled_from([document, None]) | DOCUMENTS)
        event = Event(KEY, draw(st.sampled_from(Action)), written, draw(st.sampled_from([stamp, None])), None, draw(st.booleans()))
        placed = Placed(draw(st.integers(0, 9)), draw(st.sampled_from([version]) | POSITIONS), event, draw(TIMES), draw(TEXTS))
    partition = placed.partition if placed is not None else draw(st.integers(0, 9))
    size = documents.size(document or {})
    return Head(KEY, document, version, draw(POSITIONS), placed, draw(st.integers(0, 1 << 40)), partition, size)


def seen_in(thing: object) -> Any:
    """Returns all fields of a state or a head as comparable values; dictionaries with their order."""
    if thing is None or thing is ALONE:
        return thing
    if isinstance(thing, KeyState | Head | Joined):
        slots = [slot for slot in type(thing).__slots__ if not slot.startswith("_")]
        return {slot: seen_in(getattr(thing, slot)) for slot in slots}
    if isinstance(thing, dict):
        return list(thing.items())
    return [seen_in(each) for each in thing] if type(thing) is list else thing


@st.composite
def events(draw: st.DrawFn) -> Placed:
    """Draws any event of the key, with all fields of a stamp."""
    stamp = None
    if draw(st.booleans()):
        operands = draw(st.dictionaries(NAMES, st.tuples(st.sampled_from(ListChange), st.binary(max_size=6)), max_size=2))
        stamp = Stamp(
            draw(IDS), draw(st.sampled_from(StampKind)), draw(IDS), draw(TEXTS), draw(TEXTS), draw(TEXTS),
            tuple(draw(st.lists(NAMES, max_size=2))), draw(IDS), draw(st.none() | POSITIONS), draw(st.booleans()),
            draw(st.dictionaries(NAMES, TEXTS, max_size=2)), operands, draw(requests()), draw(POSITIONS),
            draw(st.none() | st.builds(Seen, POSITIONS, POSITIONS)), draw(TEXTS), draw(TEXTS),
            *draw(st.sampled_from([(), ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=1")])),
        )  # fmt: skip
    known = draw(st.none() | st.frozensets(TEXTS, max_size=2))
    clusters = draw(st.none() | st.lists(TEXTS, max_size=2).map(tuple))
    event = Event(KEY, draw(st.sampled_from(Action)), draw(st.none() | DOCUMENTS), stamp, known, draw(st.booleans()), clusters)
    return Placed(draw(st.integers(0, 9)), draw(POSITIONS), event, draw(TIMES), draw(TEXTS), draw(TEXTS))


@st.composite
def cells(draw: st.DrawFn) -> Cell:
    """Draws any cell, also unlikely ones."""
    cell = Cell(KEY, NAME, draw(st.integers(0, 65_535)), draw(states()))
    cell.head = draw(heads(cell.state))
    cell.touched_at = draw(TIMES)
    if draw(st.booleans()):
        joined = cell.state.joined = Joined(draw(POSITIONS), draw(TIMES), draw(POSITIONS))
        for placed in draw(st.lists(events(), max_size=3)):
            joined.trail.append(TrailEvent(placed, draw(st.none() | st.lists(NAMES, max_size=2)), draw(st.booleans()), draw(st.booleans())))
    return cell


def all_of(cell: Cell) -> object:
    return cell.key, cell.partition, cell.touched_at, seen_in(cell.state), seen_in(cell.head)


@settings(max_examples=50, deadline=None)
@given(cells())
def test_a_cell_that_wakes_equals_the_cell_that_was_put_to_rest(cell: Cell) -> None:
    data = to_bytes(cell)
    assert all_of(from_bytes(NAME, data)) == all_of(cell)
    assert seen_in(head_from_bytes(NAME, data)) == seen_in(cell.head)


@settings(max_examples=50, deadline=None)
@given(cells())
def test_the_header_tells_the_same_as_the_cell(cell: Cell) -> None:
    data = to_bytes(cell)
    header, state, head = Header.of(data), cell.state, cell.head
    leftovers = [state.older, state.superseded_ids, state.owed, None if state.joined is ALONE else state.joined]
    assert is_due(data) == is_due(cell) and header.is_owed is (state.owed is not None)
    assert (header.partition, header.touched_at) == (cell.partition, cell.touched_at)
    assert (header.end != len(data)) is any(each is not None for each in leftovers)
    assert header.number == (head.number if head is not None else 0)
    assert header.has_document is (head is not None and head.document is not None)
    if head is not None:
        assert (header.head_partition, header.position(data)) == (head.partition, head.position)


@settings(max_examples=50, deadline=None)
@given(cells())
def test_a_cell_that_is_cut_off_equals_one_that_was_trimmed(cell: Cell) -> None:
    state = cell.state
    state.owed = None
    data = to_bytes(cell)
    cut = data[: Header.of(data).end]
    state.older = state.superseded_ids = None
    if state.joined is not ALONE:
        state.joined = None
    assert all_of(from_bytes(NAME, cut)) == all_of(cell)


def settled(requests: int, make_id: Any = lambda: uuid.uuid4().hex) -> Cell:
    """Returns the cell of a key that only requests have written."""
    state = KeyState()
    state.document = state.raw = {"max_producer_per_topic": b"\x80\x01\x05", "message_ttl_in_seconds": b"\x10\x3c"}
    places = [f"5{0x1A2B0 + number:x}" for number in range(requests + 1)]
    state.remembered = tuple(Remembered(make_id(), f"{number:016x}", places[number + 1], places[number]) for number in range(requests))
    state.version, state.newest_event = places[-1], uuid.uuid4().hex
    state.head_event = state.newest_event
    last = state.remembered[-1]
    stamp = Stamp(state.newest_event, StampKind.UPDATE, last.request_id, last.digest, "ci", "", ("max_producer_per_topic",), "base", "etag")
    placed = Placed(0, state.version, Event(KEY, Action.UPDATE, state.document, stamp), 1_790_000_000_000)
    cell = Cell(KEY, NAME, 0, state)
    cell.head = Head(KEY, state.document, state.version, places[-2], placed, 77, 0, documents.size(state.document or {}))
    return cell


@pytest.mark.parametrize(
    ("requests", "make_id", "most"),
    [(1, lambda: uuid.uuid4().hex, 380), (16, lambda: uuid.uuid4().hex, 900), (16, lambda: str(uuid.uuid4()), 900)],
)
def test_a_key_at_rest_takes_few_bytes(requests: int, make_id: Any, most: int) -> None:
    assert len(to_bytes(settled(requests, make_id))) < most


@settings(max_examples=50, deadline=None)
@given(cells(), st.data())
@example(settled(16), None)
def test_a_cell_that_ends_early_is_damaged(cell: Cell, data: st.DataObject | None) -> None:
    whole = to_bytes(cell)
    end = Header.of(whole).end - 1
    for length in (0, 5, end if data is None else data.draw(st.integers(0, end))):
        for read in (from_bytes, head_from_bytes):
            with pytest.raises(Damaged):
                read(NAME, whole[:length])


@pytest.mark.parametrize("data", [b"", b"x" * 60, bytes(60)])
def test_bytes_that_were_never_a_cell_are_damaged(data: bytes) -> None:
    with pytest.raises(Damaged):
        from_bytes(NAME, data)
