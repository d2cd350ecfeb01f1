"""Guards that start, stop, crash and pause beside a broker that changes its document in place: nobody's change is lost.

A failure names its seeds; ``python -m tests.core.fold.model.restarted_guards WAY SEED`` shows one again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import pytest

from tests.core.fold.model.restarted_guards import WAYS, RestartedGuards, Unrest
from tests.evidence import seeds_of
from topicpolicies_server.core.fold import fold as rules
from topicpolicies_server.core.fold.fold import FoldContext, Folded, KeyState
from topicpolicies_server.core.policies.events import Placed


class Sum(NamedTuple):
    """What many runs came to."""

    counts: Counter[str]
    lost: list[str]
    disagreed: list[str]


def runs(name: str, seeds: Iterable[int], least: int | None = None) -> Sum:
    """Many runs of one way.

    Args:
        name: of the way.
        seeds: which.
        least: after so many, if all moves were made that have to be, the others are left out; None: none is.
    """
    total = Sum(Counter(), [], [])
    for done, seed in enumerate(seeds, 1):
        run = RestartedGuards(WAYS[name], seed).run()
        total.counts.update(run.counts)
        total.lost.extend(f"seed {seed}: {line}" for line in run.lost)
        total.disagreed.extend(f"seed {seed}: {line}" for line in run.disagreed)
        if least is not None and done >= least and all(total.counts[move] for move in ("repairs", "started", *MOVES[name])):
            break
    return total


def assert_hostile(counts: Counter[str], *moves: str) -> None:
    assert counts["rests"] > counts["calls"] / 20, f"too little was looked at: {counts}"
    assert counts["stale"] > counts["calls"] / 20, f"too little was undone: {counts}"
    for move in ("repairs", "started", *moves):
        assert counts[move] > 0, f"no {move}: {counts}"


LATE = ("late repairs", "resumed with a repair due", "started between a compaction and a late repair")
MOVES = {
    "alone": (),
    "witnessed": ("compactions", "paused", "crashed", "crashed with a repair due", "stopped", *LATE),
    "relayed": ("compactions", "paused", "succeeded", "stopped", "started between a late repair and a compaction", *LATE),
    "relayed, waited for": ("compactions", "paused", "succeeded", "stopped", *LATE),
    "restarted": ("compactions", "paused", "gaps", "crashed with a repair due", "late repairs", "resumed with a repair due"),
    "restarted, few recalled": ("compactions", "gaps", "crashed with a repair due"),
}
SEEDS = {"alone": 40, "witnessed": 60, "relayed": 60, "relayed, waited for": 60, "restarted": 40, "restarted, few recalled": 40}
LEAST_SEEDS = 20
"""So many seeds of each way are always run, and then those until all moves were made that have to be; all of ``SEEDS`` are ``slow``."""


@pytest.mark.parametrize("least", [LEAST_SEEDS, pytest.param(None, marks=pytest.mark.slow)], ids=["until all has happened", "all"])
@pytest.mark.parametrize("name", MOVES)
def test_whoever_starts_stops_and_pauses_all_is_as_it_was_left_and_all_guards_agree(name: str, least: int | None) -> None:
    counts, lost, disagreed = runs(name, range(SEEDS[name]), least)
    assert_hostile(counts, *MOVES[name])
    assert not lost and not disagreed
    assert counts["compactions in gaps"] == 0


def test_only_what_was_compacted_and_trimmed_while_nobody_was_there_is_lost() -> None:
    counts, lost, disagreed = runs("restarted, none recalled", range(40))
    assert_hostile(counts, "compactions in gaps", "crashed with a repair due")
    assert 0 < len(lost) < counts["calls"] / 20
    assert not disagreed


def test_only_one_that_recalls_nothing_and_was_not_there_for_w_loses_what_its_predecessor_would_have_healed() -> None:
    seeds = (294, 466, 700, 767, 879)  # of 1,000 these and two others lose 13 of 60,000 calls
    counts, lost, disagreed = runs("relayed, none recalled", seeds)
    assert_hostile(counts, "compactions", "succeeded", "stopped")
    assert 0 < len(lost) < counts["calls"] / 20
    assert not disagreed


def test_nothing_is_lost_if_the_predecessor_waits() -> None:
    seeds = (573, 988)  # of 1,000 the ones that lose something if it does not
    assert runs("relayed", seeds).lost
    assert not runs("relayed, waited for", seeds).lost


@pytest.mark.parametrize("name", ["witnessed", "relayed"])
def test_time_taken_for_knowledge_loses_what_a_late_repair_brought_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fold = rules.fold

    def with_time(state: KeyState, placed: Placed, context: FoldContext) -> Folded:
        if state.joined is not None and state.joined.first and state.all_seen(placed.published_at, context.window_ms):
            state.since = ""
        return fold(state, placed, context)

    monkeypatch.setattr(rules, "fold", with_time)
    assert any(RestartedGuards(WAYS[name], seed).run().lost for seed in range(SEEDS[name]))


def test_guards_none_of_which_believes_another_do_not_come_to_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topicpolicies_server.core.fold.joining._has_seen_more", lambda *_: False)
    with pytest.raises(Unrest):
        runs("witnessed", range(20))


@pytest.mark.evidence
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", MOVES)
def test_many_more_runs(name: str, part: int) -> None:
    seeds = seeds_of(part, SEEDS[name], 340)  # the first ones are run above
    _, lost, disagreed = runs(name, seeds)
    assert not disagreed
    if name == "relayed":  # one that is followed at once may take with it what only its successor's wait would have healed
        losing = sorted({int(line.split()[1].rstrip(":")) for line in lost})
        assert len(losing) <= len(seeds) // 100, lost
        lost = runs("relayed, waited for", losing).lost
    assert not lost
