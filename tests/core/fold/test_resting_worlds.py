"""Worlds in which keys are put to rest and woken between their events: no result differs, and every promise holds."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable

import pytest

from tests.core.fold.model.kinds import WORLDS
from tests.core.fold.model.world import World
from tests.core.test_cell import seen_in
from topicpolicies_server.core.fold import fold as rules
from topicpolicies_server.core.fold.fold import FoldContext, Folded
from topicpolicies_server.core.fold.keystate import ALONE, Joined, KeyState
from topicpolicies_server.core.policies.events import Placed
from topicpolicies_server.core.reading.cell import Cell, from_bytes, name_of, to_bytes

KINDS = ("sidecars", "mixed", "schemas", "joining late", "joining", "foreign", "orphaned")
Fold = Callable[[KeyState, Placed, FoldContext], Folded]


def passing(fold: Fold, chance: random.Random, counts: Counter[str]) -> Fold:
    """Returns a fold that puts about half of the states to rest and wakes them, and checks that the originals give the same result."""

    def folded(state: KeyState, placed: Placed, context: FoldContext) -> Folded:
        if placed.event is None or chance.random() < 0.5:
            return fold(state, placed, context)
        counts["with a trail" if state.joined is not None and state.joined.trail else "without"] += 1
        key = placed.event.key
        other = from_bytes(name_of(key), to_bytes(Cell(key, name_of(key), 0, state))).state
        original = copied(state)
        expected = fold(original, placed, context)
        assert fold(other, placed, context) == expected
        assert seen_in(other) == seen_in(original)
        for slot in KeyState.__slots__:
            setattr(state, slot, getattr(other, slot))
        return expected

    return folded


def copied(state: KeyState) -> KeyState:
    """Returns an equal state that shares nothing that folding modifies."""
    other = copy.copy(state)
    other.older = None if state.older is None else list(state.older)
    other.superseded_ids = None if state.superseded_ids is None else dict(state.superseded_ids)
    if state.joined is not None and state.joined is not ALONE:
        other.joined = Joined(state.joined.first, state.joined.first_at, state.joined.dropped)
        other.joined.trail = list(state.joined.trail)
    return other


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 25), marks=pytest.mark.evidence)], ids=["first", "more"])
@pytest.mark.parametrize("name", KINDS)
def test_putting_a_key_to_rest_and_waking_it_between_its_events_changes_no_result(
    monkeypatch: pytest.MonkeyPatch, name: str, seeds: range
) -> None:
    counts: Counter[str] = Counter()
    monkeypatch.setattr(rules, "fold", passing(rules.fold, random.Random(name), counts))
    for seed in seeds:
        World(WORLDS[name], seed).run()
    assert counts.total() > 500 and (counts["with a trail"] > 20 or "joining" not in name), counts
