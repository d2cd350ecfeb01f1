"""Faults between a sidecar and the log, of single appends and deliveries."""

from __future__ import annotations

import random
from collections import Counter

from tests.memory_log import Fate, Faults, Outcome
from topicpolicies_server.core.policies.events import Event, Placed, StampKind

from .profile import Profile

_USUAL = (0.0005, 0.004)
"""The shortest and the longest time of a step without a fault, in seconds."""
_LATEST = 0.6
"""The longest time of a late step, in seconds."""


class SimulatedFaults(Faults):
    """Makes appends late, lost, refused and doubled, at the profile's rates, until ``heal`` is called."""

    def __init__(self, profile: Profile, chance: random.Random, counts: Counter[str], *, most_late: float) -> None:
        """``most_late``: the longest time that a late repair takes to the log, in seconds."""
        self._profile = profile
        self._most_late = most_late
        self._chance = chance
        self._counts = counts
        self._healed = False

    def heal(self) -> None:
        """Ends all faults."""
        self._healed = True

    def fate(self, namespace: str, event: Event) -> Fate:
        """Decides what happens to an append."""
        del namespace
        profile, chance = self._profile, self._chance
        stamp = event.stamp
        if stamp is not None and stamp.remembered and not stamp.remembered[-1].version:
            self._counts["events in flight behind others of their key"] += 1
        if self._healed:
            return Fate(delay=chance.uniform(*_USUAL), answer_delay=chance.uniform(*_USUAL))
        if stamp is not None and stamp.kind in (StampKind.REPAIR, StampKind.TOMBSTONE) and (fate := self._fate_of_repair()) is not None:
            return fate
        outcome, drawn = Outcome.STORED, chance.random()
        for each, rate in (
            (Outcome.UNACKNOWLEDGED, profile.lost_acknowledgement),
            (Outcome.VANISHED, profile.vanished),
            (Outcome.REFUSED, profile.refused),
        ):
            if drawn < rate:
                outcome = each
                self._counts[f"appends {each.value}"] += 1
                break
            drawn -= rate
        copies = 1
        if chance.random() < profile.copied:
            copies = 2
            self._counts["appends doubled"] += 1
        return Fate(outcome, self._time(), self._time(), copies)

    def _fate_of_repair(self) -> Fate | None:
        """Decides what happens to a repair, if it has one of the faults that only repairs have."""
        profile, chance = self._profile, self._chance
        if profile.repairs_vanished and chance.random() < profile.repairs_vanished:
            self._counts["repairs vanished"] += 1
            return Fate(Outcome.VANISHED, self._time(), self._time())
        if profile.repairs_late and chance.random() < profile.repairs_late:
            self._counts["repairs late on their way"] += 1
            return Fate(Outcome.STORED, chance.uniform(0, self._most_late), self._time())
        return None

    def opening(self) -> tuple[float, float]:
        """Returns the seconds until a log is open, and those from there until its first entry is read."""
        profile, chance = self._profile, self._chance
        if self._healed or not profile.slow_openings:
            return 0.0, 0.0
        slow, stalled = (chance.uniform(0, 1.0) if chance.random() < profile.slow_openings else 0.0 for _ in range(2))
        self._counts["openings that took time"] += slow + stalled > 0
        return slow, stalled

    def read_delay(self, namespace: str, placed: Placed) -> float:
        """Returns the seconds until an entry is read. Readers look for new entries at intervals, so this takes longer than an append."""
        del namespace, placed
        return 2 * self._time()

    def handed_over(self, namespace: str, placed: Placed) -> bool:
        """Decides whether an entry is handed over when it is due."""
        del namespace, placed
        return self._healed or self._chance.random() >= self._profile.not_handed_over

    def question_delay(self, namespace: str) -> float | None:
        """Returns the seconds that a question takes; None: it gets no answer."""
        del namespace
        self._counts["questions"] += 1
        if not self._healed and self._chance.random() < self._profile.unanswered:
            self._counts["questions without an answer"] += 1
            return None
        return self._time()

    def session_seconds(self, namespace: str) -> float:
        """Returns the seconds until the log lets another process write after this one has died."""
        del namespace
        return 0.0 if self._healed else self._chance.choice((0.0, 1.0)) * self._chance.uniform(0, self._profile.session_seconds)

    def _time(self) -> float:
        if not self._healed and self._chance.random() < self._profile.late:
            self._counts["late steps"] += 1
            return self._chance.uniform(0, _LATEST)
        return self._chance.uniform(*_USUAL)
