"""Random worlds: no change is undone, whichever process writes and whenever it reads.

Each run checks itself after every event (``model/world``). Here it is asserted that the runs were as hostile as they were meant to be.
Most kinds are run until everything required has happened in them; ``-m evidence`` runs many more of all kinds. A failure names its seed,
and the command that replays it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable

import pytest

from tests.core.fold.model.clusters import Clusters
from tests.core.fold.model.kinds import WORLDS
from tests.core.fold.model.world import World
from topicpolicies_server.core.names import Scope

SEEDS = 40
"""At most so many seeds of each kind are run."""
LEAST_SEEDS = 15
"""So many seeds of the kinds in ``HAPPENS`` are always run, then more until everything required has happened."""
FEWER = {"joining late": 20, "joining": 8, "foreign": 20, "late repairs": 60, "late guards": 120, "late repairs, recalled": 60}
"""How many seeds of kinds that take longer are run."""
CANNOT_BE_PROMISED = {
    "undone, it changed nothing",  # a call cleared a setting that was already unset in the document that the broker saw
    "undone, it changed nothing and looked like a revert",
    "undone, ambiguous",
    "undone, unexplained",
    "undone, several settings in one write",
    "undone, a forgotten request was repeated",
    "undone, no sidecar knew better",
}


OURS = ("rejected-etag", "rejected-reads", "skipped-absent", "duplicate", "tombstone", "repeated requests")
UNDONE = ("undone, ambiguous", "undone, it changed nothing", "undone, it changed nothing and looked like a revert")
HAPPENS = {
    "sidecars": (*OURS, "restated", "answered"),
    "mixed": (*OURS, *UNDONE, "restated", "answered", "flagged ambiguous", "ignored", "repeated too late"),
    "schemas": (*OURS, *UNDONE, "restated", "answered", "flagged ambiguous", "ignored", "empty or absent"),
    "guard": (*UNDONE, "restated", "tombstone", "flagged ambiguous", "ignored"),
}
"""What must have happened in the worlds of a kind, besides what must have happened in all."""


def run(name: str, seeds: Iterable[int] = range(SEEDS), least: int = sys.maxsize) -> Counter[str]:
    """Runs many worlds of one kind.

    Args:
        name: the name of the kind.
        seeds: the seeds of the runs.
        least: after so many runs, stops as soon as everything required has happened.
    """
    counts: Counter[str] = Counter()
    for done, seed in enumerate(seeds, 1):
        counts += World(WORLDS[name], seed).run()
        if done >= least and not lacking(counts, *HAPPENS.get(name, ())):
            break
    undone = {what for what in counts if what.startswith("undone")}
    assert undone <= CANNOT_BE_PROMISED, undone - CANNOT_BE_PROMISED
    return counts


def lacking(counts: Counter[str], *more: str) -> list[str]:
    """Returns what is required and has not happened."""
    return [what for what in ("stale", "repair", *more) if not counts[what]]


def assert_hostile(counts: Counter[str], *more: str) -> None:
    assert not lacking(counts, *more), counts


def test_sidecars_undo_no_change_of_each_other() -> None:
    counts = run("sidecars", least=LEAST_SEEDS)
    assert_hostile(counts, *HAPPENS["sidecars"])
    assert not any(what.startswith("undone") for what in counts)


def test_sidecars_and_brokers_of_both_kinds_undo_no_change_of_each_other() -> None:
    counts = run("mixed", least=LEAST_SEEDS)
    assert_hostile(counts, *HAPPENS["mixed"])
    assert counts["undone, unexplained"] == counts["flagged unexplained"] == 0


def test_a_broker_of_an_older_schema_clears_no_setting_that_it_does_not_know() -> None:
    counts = run("schemas", least=LEAST_SEEDS)
    assert_hostile(counts, *HAPPENS["schemas"])
    assert counts["flagged unexplained"] == 0


def test_a_guard_heals_the_changes_that_old_brokers_undo() -> None:
    counts = run("guard", least=LEAST_SEEDS)
    assert_hostile(counts, *HAPPENS["guard"])
    assert counts["flagged unexplained"] == 0


def test_a_guard_writes_nothing_where_a_healthy_broker_writes() -> None:
    counts = run("quiet guard")
    assert counts["applied"] > 400
    assert counts["repair"] == counts["tombstone"] == counts["stale"] == 0


@pytest.mark.slow
def test_joined_sidecars_agree_with_those_that_saw_everything() -> None:
    counts = run("joining late", range(FEWER["joining late"])) + run("joining", range(FEWER["joining"]))
    assert_hostile(counts, "joined", "crashed", "asked of a joined sidecar")
    assert counts["wrong guesses"] <= counts["joined"] / 100


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", [name for name in FEWER if name.startswith("late")])
def test_a_repair_is_believed_by_all_sidecars_that_start_however_late_it_is(name: str) -> None:
    counts = run(name, range(FEWER[name]))
    moves = ("paused", "resumed with repairs due", "joined", "joined between a late repair and a compaction", "crashed with repairs due")
    assert_hostile(counts, *moves)
    assert counts["joined between a late repair and a compaction"] >= 10 or WORLDS[name].sidecars[0].recalls
    assert counts["undone, unexplained"] == counts["undone, no sidecar knew better"] == 0
    assert counts["wrong answers of guesses"] <= counts["answered by guesses"] / 100


def test_global_policies_keep_the_same_promises() -> None:
    counts: Counter[str] = Counter()
    for seed in range(10):
        counts += World(WORLDS["late repairs"], seed, scope=Scope.GLOBAL).run()
    assert {what for what in counts if what.startswith("undone")} <= CANNOT_BE_PROMISED
    assert_hostile(counts, "joined between a late repair and a compaction")


@pytest.mark.slow
def test_writes_of_several_settings_are_the_only_unexplained_ones() -> None:
    counts = run("foreign", range(FEWER["foreign"]))
    assert_hostile(counts, "flagged unexplained", "undone, several settings in one write")
    assert counts["undone, unexplained"] == 0


@pytest.mark.slow
def test_joined_sidecars_agree_with_each_other_where_none_has_seen_everything() -> None:
    counts = run("orphaned", range(100))
    assert_hostile(counts, "joined", "crashed with repairs due", "answered by guesses")


@pytest.mark.slow
def test_if_one_of_two_clusters_is_written_both_show_their_heads_and_repairs_do_not_loop() -> None:
    counts: Counter[str] = Counter()
    for seed in range(20):
        counts += Clusters(WORLDS["mixed"], seed).run()
    assert counts["a: repair"] > 0 and counts["b: repair"] > 0
    assert counts["keys in which the clusters differ"] < counts["keys"] / 4


@pytest.mark.slow
def test_clusters_that_are_written_at_the_same_time_come_to_rest() -> None:
    for seed in range(8):
        Clusters(WORLDS["mixed"], seed, both=True).run()


@pytest.mark.evidence
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize("name", WORLDS)
def test_no_change_is_undone_in_many_more_worlds(name: str, part: int) -> None:
    seeds = 300 if "late" in name else 1_000
    run(name, range(seeds * part, seeds * (part + 1)), least=seeds)
