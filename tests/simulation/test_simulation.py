"""Hundreds of runs of the whole service in simulated time. The message of a failed seed has the command that replays it.

More runs: ``python -m tests.simulation --seeds 5000``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from .profile import PROFILES, Profile
from .report import missing, sums, verdict
from .run import run

pytestmark = pytest.mark.simulation

SEEDS = 100
"""How many seeds of a profile are run at most, and in each part of the evidence."""
FEWER_SEEDS = 40
"""The same for profiles with delayed repairs, whose runs are long, and for those in which one kind of fault happens all the time."""
MORE_SEEDS = {"shared": 200, "interrupted": 70, "compacted": 130, "forgetful": 70}
"""The same for profiles in which something that has to happen is rare: ``events rejected-reads`` 8 times in 150 seeds, ``stalls of
answers`` never in 20, ``batches broken`` 4 times in 40, and in ``forgetful`` never in 20 of 100.
"""

LEAST_SEEDS = 5
"""How many seeds of each profile are run at least; further ones are run until all faults have occurred that have to."""

ALWAYS = (
    "appends doubled",
    "appends refused",
    "appends unacknowledged",
    "appends vanished",
    "attempts APPLIED",
    "attempts PRECONDITION_FAILED",
    "attempts UNCHANGED",
    "attempts WOULD_APPLY",
    "attempts given up by their client",
    "attempts replayed",
    "batches of several updates",
    "compactions",
    "crashes",
    "crashes with updates in flight",
    "events duplicate",
    "events in flight behind others of their key",
    "events of a stale base",
    "events restated",
    "graceful restarts",
    "logs lost",
    "reads at least a version",
    "requests applied without their client being told",
    "stalls of answers",
    "stalls of appends",
    "stalls of reads",
    "batches broken",
    "watches cancelled",
)
"""What must have happened in every batch of seeds of each profile that is not named below: a run without faults proves nothing."""
UNASKED = (
    "broker writes behind the log",
    "compactions",
    "crashes",
    "crashes with repairs due",
    "events applied",
    "events of a stale base",
    "events restated",
    "graceful restarts",
    "logs lost",
    "repairs cancelled",
    "repairs published",
    "stalls of appends",
    "stalls of reads",
)
"""The same for profiles in which no client calls the sidecars."""
LED = (
    "attempts APPLIED",
    "attempts PRECONDITION_FAILED",
    "attempts NOT_LEADER",
    "attempts OUTCOME_UNKNOWN",
    "attempts UNCHANGED",
    "attempts given up by their client",
    "attempts replayed",
    "changes told by followers",
    "compactions",
    "compactions while nobody led",
    "crashes with updates in flight",
    "events in flight behind others of their key",
    "failovers",
    "leaders fenced",
    "leaders fenced in the middle of a batch",
    "leaders isolated",
    "leaders killed",
    "leaders stopped gracefully",
    "leaders suspended",
    "leaders that did not know that they were none",
    "logs lost",
    "repeats that another leader settled",
    "requests applied without their client being told",
    "watches resumed",
    "watches started over",
)
"""The same for profiles in which one sidecar at a time writes."""
DELAYED = (
    "broker writes behind the log",
    "crashes with repairs due",
    "events of a stale base",
    "logs opened again in one life",
    "openings of a log that was compacted",
    "openings that took time",
    "repairs late on their way",
    "repairs published",
    "repairs resumed with some due after W",
    "repairs vanished",
    "several newcomers at once",
    "times that a rate held repairs up",
    "sidecars whose writing was cut off",
    "untimely compactions",
)
"""The same for profiles in which repairs are delayed and sidecars start at every point."""
IN_EACH = ("newcomers", "repairs paused or cut off", "events applied")
"""What must have happened in each single run of those."""
_JOINED = "runs with joins between a late repair and a compaction"
LEAST_SHARE = 0.2
"""In at least this share of those runs a sidecar starts between a late repair and the next compaction, and has to believe the repair."""
OVERTAKEN = (
    "compactions of what sidecars had not read",
    "ledgers trimmed",
    "reading: begun anew",
    "reading: entries not handed over",
    "reading: entries read as they were",
    "reading: gaps beside a ledger that was trimmed",
    "reading: gaps with a message",
    "reading: questions for gaps",
    "reading: questions for states",
    "reading: questions for what was sent",
    "reading: questions without an answer",
)
"""For ledgers that are compacted while they are read: what readers met (``logs/pulsar/reader``)."""
KEPT = ("checkpoints given up", "checkpoints restored", "checkpoints written")
"""For sidecars that start from their checkpoints."""
OF_PROFILE: dict[str, tuple[str, ...]] = {
    "embedded": ("attempts SKIPPED", "unreadable entries", "watches reset EVENTS_GONE", "watches resumed", "watches started over"),
    "compacted": OVERTAKEN,
    "lagging": ("answers that write nothing failed", "answers that write nothing overtaken", "questions without an answer"),
    "shared": (
        "answers that write nothing held",
        "answers that write nothing overtaken",
        "attempts OUTCOME_UNKNOWN",
        "events rejected-reads",
        "gaps",
        "watches resumed",
        "watches started over",
    ),
    "partitioned": ("attempts OUTCOME_UNKNOWN", "gaps", "watches resumed", "watches started over"),
    "guard": ("documents without what an older schema lacks",),
    "brokers": ("broker writes behind the log", "watches resumed", "watches started over"),
    "kept": KEPT,
    "kept-compacted": KEPT,
    "hot": ("attempts OUTCOME_UNKNOWN", "watches reset EVENTS_GONE", "watches resumed"),
    "idle": ("logs opened again in one life",),
    "forgetful": (
        "deleted keys that a compaction erased",
        "keys that everybody had forgotten",
        "allowed by a documented limit: keys that began anew",
    ),
    "interrupted": ("crashes right after a compaction", "attempts without an answer"),
    "late": ("attempts through newcomers APPLIED", "attempts through newcomers that knew everything", "reads of newcomers that may guess"),
    "late-partitioned": ("attempts through newcomers APPLIED", "reads of newcomers that knew everything"),
    "late-orphans": ("keys of which nobody alive had seen everything", "of them, keys of which something was lost for good"),
}


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_every_promise_holds_until_all_required_faults_have_occurred(profile: str, record_property: Callable[[str, object], None]) -> None:
    assert_promises(profile, range(_seeds(profile)), record_property, least=LEAST_SEEDS)


@pytest.mark.evidence
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_every_promise_holds_in_many_more_runs(profile: str, part: int, record_property: Callable[[str, object], None]) -> None:
    seeds = _seeds(profile)
    assert_promises(profile, range(seeds * part, seeds * (part + 1)), record_property)


def assert_promises(profile: str, seeds: range, record_property: Callable[[str, object], None], least: int | None = None) -> None:
    """Checks that every promise holds in the runs of these seeds, and that all required faults occurred in them.

    Args:
        profile: the profile of the runs.
        seeds: the seeds of the runs.
        record_property: called with the counters.
        least: after this many runs, the others are left out as soon as all required faults have occurred; None: no run is left out.
    """
    counts: Counter[str] = Counter()
    failures: list[str] = []
    made_of = PROFILES[profile]
    delayed, done = made_of.delayed, 0
    for seed in seeds:
        one = run(profile, seed)
        counts += one.counts
        failures += verdict(one)
        assert not (delayed and missing(one.counts, IN_EACH)), one.command
        done += 1
        if least is not None and done >= least and not _lacking(profile, counts, done):
            break
    print(f"{profile}, {done} seeds from {seeds[0]}:\n{sums(counts)}")
    record_property("counts", dict(counts))
    assert not failures, "\n".join(failures)
    assert _lacking(profile, counts, done) == []


def _lacking(profile: str, counts: Counter[str], runs: int) -> list[str]:
    """Returns the required counters that were zero, or too low, in this many runs of a profile."""
    made_of = PROFILES[profile]
    lacking = missing(counts, (*_wanted(made_of), *OF_PROFILE.get(profile, ())))
    if made_of.delayed and counts[_JOINED] < LEAST_SHARE * runs:
        lacking.append(_JOINED)
    return lacking


def _seeds(profile: str) -> int:
    """Returns how many seeds of a profile are run at most, and in each part of the evidence."""
    made_of = PROFILES[profile]
    long_or_rare = made_of.delayed or made_of.compact_crash or made_of.compact_deletion
    return MORE_SEEDS.get(profile, FEWER_SEEDS if long_or_rare else SEEDS)


def _wanted(profile: Profile) -> tuple[str, ...]:
    if profile.exclusive:
        return LED
    if profile.delayed:
        return DELAYED
    return ALWAYS if profile.writers else UNASKED
