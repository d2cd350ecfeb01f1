"""Worlds in which keys are frozen and thawed between their events: no result differs, and every promise holds."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable

import pytest

from tests.core.fold.model.kinds import WORLDS
from tests.core.fold.model.world import World
from tests.core.test_frozen import seen_in
from topicpolicies_server.core.fold import fold as rules
from topicpolicies_server.core.fold.fold import FoldContext, Folded
from topicpolicies_server.core.fold.keystate import ALONE, Joined, KeyState
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Placed
from topicpolicies_server.core.reading.frozen import freeze, thaw

KEY = PolicyKey("persistent://t/n/0", Scope.LOCAL)
KINDS = ("sidecars", "mixed", "schemas", "joining late", "joining", "foreign", "orphaned")
Fold = Callable[[KeyState, Placed, FoldContext], Folded]


def passing(fold: Fold, chance: random.Random, counts: Counter[str], through: Callable[[KeyState, Placed], KeyState | None]) -> Fold:
    """Returns a fold that replaces about half of the states by equal ones, and checks that the originals give the same result.

    ``through``: returns another state that is equal; None: it does not take this one.
    """

    def folded(state: KeyState, placed: Placed, context: FoldContext) -> Folded:
        other = through(state, placed) if placed.event is not None and chance.random() >= 0.5 else None
        if other is None:
            counts["as it was"] += 1
            return fold(state, placed, context)
        counts["handed through"] += 1
        original = copied(state)
        expected = fold(original, placed, context)
        assert fold(other, placed, context) == expected
        assert seen_in(other) == seen_in(original)
        for slot in KeyState.__slots__:
            setattr(state, slot, getattr(other, slot))
        return expected

    return folded


def thawed(state: KeyState, _: Placed) -> KeyState | None:
    """Returns the state after freezing and thawing; None: it is not settled."""
    frozen = freeze(state, None)
    return None if frozen is None else thaw(KEY, frozen).state


def copied(state: KeyState) -> KeyState:
    """Returns an equal state that shares nothing that folding modifies."""
    other = copy.copy(state)
    other.older = None if state.older is None else list(state.older)
    other.seen = None if state.seen is None else dict(state.seen)
    if state.joined is not None and state.joined is not ALONE:
        other.joined = Joined(state.joined.first, state.joined.first_at, state.joined.dropped)
        other.joined.trail = list(state.joined.trail)
    return other


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 25), marks=pytest.mark.evidence)], ids=["first", "more"])
@pytest.mark.parametrize("name", KINDS)
def test_freezing_and_thawing_a_key_between_its_events_changes_no_result(monkeypatch: pytest.MonkeyPatch, name: str, seeds: range) -> None:
    counts: Counter[str] = Counter()
    monkeypatch.setattr(rules, "fold", passing(rules.fold, random.Random(name), counts, thawed))
    for seed in seeds:
        World(WORLDS[name], seed).run()
    assert counts["handed through"] > 500, counts
