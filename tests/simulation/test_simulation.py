"""Hundreds of runs of the whole service in simulated time. A seed that fails says how it is replayed.

More of them: ``python -m tests.simulation --seeds 5000``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from .profile import PROFILES, Profile
from .report import missing, sums, verdict
from .run import run

pytestmark = pytest.mark.simulation

SEEDS = 50
"""Seeds of one batch."""
BATCHES = 2
"""Batches of each profile, which may run side by side."""

ALWAYS = (
    "appends doubled",
    "appends refused",
    "appends unacknowledged",
    "appends vanished",
    "attempts APPLIED",
    "attempts ETAG_MISMATCH",
    "attempts UNCHANGED",
    "attempts given up by their client",
    "attempts repeated",
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
    "streams broken",
    "watches cancelled",
)
"""What must have happened in every batch of every profile: a simulation in which nothing goes wrong shows nothing."""
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
"""The same where nobody calls the sidecars."""
LED = (
    "attempts APPLIED",
    "attempts ETAG_MISMATCH",
    "attempts NOT_LEADER",
    "attempts OUTCOME_UNKNOWN",
    "attempts UNCHANGED",
    "attempts given up by their client",
    "attempts repeated",
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
"""The same where one sidecar at a time writes."""
OF_PROFILE: dict[str, tuple[str, ...]] = {
    "embedded": ("attempts SKIPPED", "unreadable entries", "watches ended WATCH_TOO_SLOW", "watches resumed", "watches started over"),
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
    "brokers": ("broker writes behind the log", "watches resumed", "watches started over"),
    "hot": ("attempts OUTCOME_UNKNOWN", "watches ended WATCH_TOO_SLOW", "watches resumed"),
    "idle": ("logs opened again in one life",),
}


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_every_promise_holds_whatever_goes_wrong(profile: str, batch: int, record_property: Callable[[str, object], None]) -> None:
    counts: Counter[str] = Counter()
    failures: list[str] = []
    for seed in range(batch * SEEDS, (batch + 1) * SEEDS):
        one = run(profile, seed)
        counts += one.counts
        failures += verdict(one)
    print(f"{profile}, batch {batch}, {SEEDS} seeds:\n{sums(counts)}")
    record_property("counts", dict(counts))
    assert not failures, "\n".join(failures)
    assert missing(counts, (*_wanted(PROFILES[profile]), *OF_PROFILE.get(profile, ()))) == []


def _wanted(profile: Profile) -> tuple[str, ...]:
    if profile.exclusive:
        return LED
    return ALWAYS if profile.writers else UNASKED
