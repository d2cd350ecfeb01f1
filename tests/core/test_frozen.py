"""Frozen cells: thawing restores them exactly, and damaged bytes are noticed or harmless."""

from __future__ import annotations

import contextlib
import itertools
import uuid
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from topicpolicies_server.core.fold.joining import check_all_seen
from topicpolicies_server.core.fold.keystate import ALONE, Joined, KeyState, Noted, Owed, Superseded
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies import documents
from topicpolicies_server.core.policies.events import Action, Event, Placed, Remembered, Stamp, StampKind
from topicpolicies_server.core.policies.packed import Damaged
from topicpolicies_server.core.reading.frozen import FORMAT, freeze, thaw, thaw_head
from topicpolicies_server.core.reading.frozen_fields import document_size, glance, is_due, once_all_seen, partition_of, renumbered, trimmed
from topicpolicies_server.core.reading.heads import Head

KEY = PolicyKey("persistent://acme/orders/a", Scope.LOCAL)
W = 1_000

HEXADECIMAL = st.uuids().map(lambda each: each.hex)
TEXTS = st.text(st.characters(), max_size=12)  # also lone surrogates, and the single characters that replace repeated texts
IDS = HEXADECIMAL | st.uuids().map(str) | TEXTS | HEXADECIMAL.map(str.upper)
DIGESTS = st.binary(min_size=8, max_size=8).map(bytes.hex) | TEXTS
POSITIONS = st.sampled_from(["", "0", "11", "51a2b3", "b31a3", "e12345d1234"]) | TEXTS
NAMES = (
    st.sampled_from(["max_producer_per_topic", "retention_policies", "delayed_delivery", "subscription_policies/my-sub", "?newer"]) | TEXTS
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
    state.live = draw(st.sampled_from([None, state.document, dict(state.document or {})]) | DOCUMENTS)
    state.version = draw(POSITIONS)
    state.newest = draw(st.none() | st.just("") | IDS)
    state.head_event = draw(st.sampled_from([state.version, state.newest or "", ""]) | IDS)
    state.remembered = draw(requests())
    state.since, state.upto = draw(POSITIONS), draw(st.sampled_from([state.version, ""]) | POSITIONS)
    state.due, state.contradictions = draw(st.booleans()), draw(st.integers(0, 5))
    raws = st.sampled_from([None, state.document, state.live]) | DOCUMENTS
    superseded = st.builds(Superseded, raws, TIMES, IDS)
    state.older = draw(st.none() | st.lists(superseded, min_size=1, max_size=4))
    state.seen = draw(st.none() | st.lists(st.sampled_from([HEXADECIMAL, IDS]).flatmap(lambda kind: kind), max_size=4).map(dict.fromkeys))
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
            tuple(draw(st.lists(TEXTS, max_size=3))),
            principal=draw(TEXTS),
            claimed=draw(TEXTS),
            trace_parent=draw(st.sampled_from(["", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"])),
        )
        written = draw(st.sampled_from([document, None]) | DOCUMENTS)
        event = Event(KEY, draw(st.sampled_from(Action)), written, draw(st.sampled_from([stamp, None])), None, draw(st.booleans()))
        placed = Placed(draw(st.integers(0, 9)), draw(st.sampled_from([version]) | POSITIONS), event, draw(TIMES), draw(TEXTS))
    return Head(KEY, document, version, draw(POSITIONS), placed, draw(st.integers(0, 1 << 40)), draw(st.integers(0, 9)))


def seen_in(thing: object) -> Any:
    """Returns all fields of a state or a head as comparable values; dictionaries with their order."""
    if thing is None or thing is ALONE:
        return thing
    if isinstance(thing, KeyState | Head | Joined):
        slots = [*(slot for slot in type(thing).__slots__ if not slot.startswith("_")), *(["placed"] if isinstance(thing, Head) else [])]
        return {slot: seen_in(getattr(thing, slot)) for slot in slots}
    if isinstance(thing, dict):
        return list(thing.items())
    return [seen_in(each) for each in thing] if type(thing) is list else thing


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(0, 65_535), TIMES)
def test_a_thawed_cell_equals_the_cell_that_was_frozen(data: st.DataObject, partition: int, touched_at: int) -> None:
    state = data.draw(states())
    head = data.draw(heads(state))
    frozen = freeze(state, head, partition, touched_at)
    assert frozen is not None and frozen[0] == FORMAT
    thawed = thaw(KEY, frozen)
    assert seen_in(thawed.state) == seen_in(state)
    assert seen_in(thawed.head) == seen_in(head) == seen_in(thaw_head(KEY, frozen))
    assert (thawed.partition, thawed.touched_at) == (partition, touched_at)
    assert freeze(*thawed) == frozen, "equal cells have equal bytes"


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(0, 65_535))
def test_a_glance_at_frozen_bytes_agrees_with_thawing(data: st.DataObject, partition: int) -> None:
    state = data.draw(states())
    head = data.draw(heads(state))
    frozen = freeze(state, head, partition, 5)
    assert frozen is not None
    assert (is_due(frozen), partition_of(frozen)) == (state.due, partition)
    if head is None:
        assert glance(frozen).number == 0 and document_size(frozen) is None
        return
    assert glance(frozen) == (head.number, head.partition, head.place, head.placed is not None)
    assert document_size(frozen) == (None if head.document is None else documents.size(head.document))
    other = thaw_head(KEY, renumbered(frozen, 7))
    head.number = 7
    assert seen_in(other) == seen_in(head)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.data(), TIMES)
def test_trimming_frozen_bytes_agrees_with_trimming_the_thawed_state(data: st.DataObject, now: int) -> None:
    state = data.draw(states())
    head = data.draw(heads(state))
    frozen = freeze(state, head)
    assert frozen is not None
    cut = trimmed(frozen, now, W)
    state.trim(now, W)
    if cut is not None:
        assert seen_in(thaw(KEY, cut).state) == seen_in(state)
    else:
        assert state.owed is not None, "it must be thawed to drop a part of it"


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.data(), TIMES)
def test_checking_a_frozen_key_for_unseen_documents_agrees_with_checking_the_thawed_state(data: st.DataObject, now: int) -> None:
    state = data.draw(states())
    if data.draw(st.booleans()):  # as most keys are after a load
        state.older = state.seen = state.owed = None
    head = data.draw(heads(state))
    frozen = freeze(state, head)
    assert frozen is not None
    rest, only = once_all_seen(frozen, now, W), state.older is None and state.seen is None and state.owed is None
    if rest is None:
        assert not check_all_seen(state, now, W) or not only, "a certain result is returned"
    else:
        assert check_all_seen(state, now, W)
        assert seen_in(thaw(KEY, rest).state) == seen_in(thaw(KEY, freeze(state, head) or b"").state)


def settled(requests: int, make_id: Any = lambda: uuid.uuid4().hex) -> tuple[KeyState, Head]:
    """Returns the state and head of a key that only requests have written."""
    state = KeyState()
    state.document = state.live = {"max_producer_per_topic": b"\x80\x01\x05", "message_ttl_in_seconds": b"\x10\x3c"}
    places = [f"5{0x1A2B0 + number:x}" for number in range(requests + 1)]
    state.remembered = tuple(Remembered(make_id(), f"{number:016x}", places[number + 1], places[number]) for number in range(requests))
    state.version, state.newest = places[-1], uuid.uuid4().hex
    state.head_event = state.newest
    last = state.remembered[-1]
    stamp = Stamp(state.newest, StampKind.UPDATE, last.request_id, last.digest, "ci", "", ("max_producer_per_topic",), "base", "etag")
    placed = Placed(0, state.version, Event(KEY, Action.UPDATE, state.document, stamp), 1_790_000_000_000)
    return state, Head(KEY, state.document, state.version, places[-2], placed, 77)


@pytest.mark.parametrize(
    ("requests", "make_id", "most"),
    [(1, lambda: uuid.uuid4().hex, 190), (16, lambda: uuid.uuid4().hex, 700), (16, lambda: str(uuid.uuid4()), 700)],
)
def test_a_settled_key_is_frozen_to_few_bytes(requests: int, make_id: Any, most: int) -> None:
    frozen = freeze(*settled(requests, make_id))
    assert frozen is not None
    assert len(frozen) < most


def test_a_settled_key_is_frozen_to_as_few_bytes_if_a_compaction_left_only_its_newest_event() -> None:
    state, head = settled(16)
    whole = freeze(state, head)
    state.remembered = (*state.remembered[:-1], state.remembered[-1]._replace(previous=""))
    frozen = freeze(state, head)
    assert whole is not None and frozen is not None
    assert len(frozen) <= len(whole)
    assert thaw(KEY, frozen).state.remembered == state.remembered


def test_a_frozen_head_keeps_only_the_fields_of_its_event_that_callers_see() -> None:
    state, head = settled(3)
    assert head.placed is not None and head.placed.event is not None and head.placed.event.stamp is not None
    head.encoded = b"told"
    frozen = freeze(state, head)
    assert frozen is not None
    found = thaw_head(KEY, frozen)
    assert found is not None and found.encoded is None
    shown = head.placed.event.stamp._replace(base="", etag=None)
    assert found.placed == head.placed._replace(event=head.placed.event._replace(stamp=shown))


def test_a_key_that_is_not_settled_is_not_frozen() -> None:
    state, head = settled(1)
    assert head.placed is not None
    state.joined = Joined("1", 5, "1")
    assert freeze(state, head) is not None
    state.joined.trail.append(Noted(head.placed))
    assert freeze(state, head) is None, "its trail may have to be folded again"
    state.joined = None
    state.older = [Superseded(None, 1, "")] * 17
    assert freeze(state, head) is None, "too many documents were superseded lately"
    state.older = None
    assert freeze(state, head, touched_at=1 << 70) is None, "no event has such a time"


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_bytes_raise_no_error_but_damaged(data: st.DataObject) -> None:
    state = data.draw(states())
    frozen = freeze(state, data.draw(heads(state)))
    assert frozen is not None
    damaged = bytearray(frozen)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(damaged) - 1, 0)))
        how = data.draw(st.sampled_from(["change", "cut", "insert", "remove"]))
        if how == "cut":
            del damaged[at:]
        elif how == "insert":
            damaged[at:at] = data.draw(st.binary(min_size=1, max_size=3))
        elif how == "remove":
            del damaged[at : at + 1]
        elif damaged:
            damaged[at] = data.draw(st.integers(0, 255))
    _read(bytes(damaged))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=120))
@example(b"")
@example(bytes([FORMAT]) + bytes(45))
def test_bytes_that_were_never_a_frozen_cell_raise_no_error_but_damaged(data: bytes) -> None:
    _read(data)
    _read(bytes([FORMAT]) + data)


def _read(data: bytes) -> None:
    for reader in (
        lambda: thaw(KEY, data).head,
        lambda: thaw_head(KEY, data),
        lambda: trimmed(data, 0, W),
        lambda: once_all_seen(data, 0, W),
    ):
        with contextlib.suppress(Damaged):
            found = reader()
            if isinstance(found, Head):
                seen_in(found)


def test_a_frozen_cell_of_another_format_is_not_read() -> None:
    frozen = freeze(*settled(1))
    assert frozen is not None
    with pytest.raises(Damaged, match="format"):
        thaw(KEY, bytes([FORMAT + 1]) + frozen[1:])
