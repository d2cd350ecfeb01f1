"""Worlds in which every key is frozen and thawed between its events: nobody can tell, and every promise holds."""

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


def thawing(fold: Fold, chance: random.Random, counts: Counter[str]) -> Fold:
    """A fold that freezes and thaws the states that it is given, and sees whether the originals would have come to the same."""

    def folded(state: KeyState, placed: Placed, context: FoldContext) -> Folded:
        if chance.random() < 0.5:
            return fold(state, placed, context)
        frozen = freeze(state, None)
        if frozen is None:
            counts["not settled"] += 1
            return fold(state, placed, context)
        counts["thawed"] += 1
        original = copied(state)
        thawed = thaw(KEY, frozen).state
        expected = fold(original, placed, context)
        assert fold(thawed, placed, context) == expected
        assert seen_in(thawed) == seen_in(original)
        for slot in KeyState.__slots__:
            setattr(state, slot, getattr(thawed, slot))
        return expected

    return folded


def copied(state: KeyState) -> KeyState:
    """Another state that is the same, and stays so when one of them is folded into."""
    other = copy.copy(state)
    other.older = None if state.older is None else list(state.older)
    other.seen = None if state.seen is None else dict(state.seen)
    if state.joined is not None and state.joined is not ALONE:
        other.joined = Joined(state.joined.first, state.joined.first_at, state.joined.dropped)
        other.joined.trail = list(state.joined.trail)
    return other


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 25), marks=pytest.mark.slow)], ids=["first", "more"])
@pytest.mark.parametrize("name", KINDS)
def test_nobody_can_tell_that_keys_were_frozen_between_their_events(monkeypatch: pytest.MonkeyPatch, name: str, seeds: range) -> None:
    counts: Counter[str] = Counter()
    monkeypatch.setattr(rules, "fold", thawing(rules.fold, random.Random(name), counts))
    for seed in seeds:
        World(WORLDS[name], seed).run()
    assert counts["thawed"] > 500, counts
