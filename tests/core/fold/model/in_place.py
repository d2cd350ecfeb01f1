"""A broker that changes the document in its cache in place, administrators that call it, and a guard that reads every event."""

from __future__ import annotations

import functools
import random
from collections import Counter
from typing import Any

from topicpolicies_server.core.policies.documents import Setting
from topicpolicies_server.core.policies.events import Action, Event, Stamp, StampKind

from .administrators import SETTINGS, SIDECAR, Administrators, Answered, Mix
from .clock import Clock
from .guards import Guard
from .in_place_broker import KEY, InPlaceBroker
from .log import Log

_LONG = 40_000
"""Longer than the fold keeps superseded documents, in milliseconds."""


class InPlace:
    """One broker, a guard, and administrators that each set a setting of their own, round after round; optionally a sidecar's client."""

    def __init__(
        self,
        seed: int,
        *,
        rounds: int = 10,
        lag: tuple[int, int] = (3, 60),
        guard: bool = True,
        known: bool = True,
        rests: tuple[int, ...] = (200, 40_000),
        stalls: tuple[int, int] | None = None,
        fresh: bool = False,
        busy: int = 0,
        settled: bool = False,
        **mix: Any,
    ) -> None:
        """Prepares a run.

        Args:
            seed: of the randomness.
            rounds: how many rounds of calls there are.
            lag: how long the broker takes to read an event, in milliseconds.
            guard: whether the guard writes repairs.
            known: whether the guard knows that the broker changes its document in place.
            rests: the pauses between rounds, in milliseconds.
            stalls: how long the broker reads nothing in each round, in milliseconds; None: it never stalls.
            fresh: whether the broker has no document at first.
            busy: for how many milliseconds at most a document that the broker encoded waits until it gets its publish time.
            settled: whether every setting was set long before.
            mix: the administrators' calls (``Mix``).
        """
        self.counts: Counter[str] = Counter()
        """``calls``, of them those that ``changed nothing`` in the broker's document or were ``set back``; and what the fold reported."""
        self.lost: list[str] = []
        """The settings that did not have the value of their last call when a round had come to rest."""
        self._mix = Mix(**mix)
        self._chance = random.Random(seed)
        self._clock = Clock()
        self._rounds = rounds
        self._rests = rests
        self._stalls = stalls
        self._settled = settled
        self._log = Log()
        self._broker = InPlaceBroker(self._clock, self._log, self._chance, lag, fresh=fresh, busy=busy)
        self._guard = Guard("guard", self._clock, self._log, self._chance, self.counts, known=known, repairs=guard)
        self._administrators = Administrators(self._mix, self._clock, self._chance, self.counts, self._make)
        self._sent = 0

    def run(self) -> InPlace:
        """Runs all rounds."""
        if self._settled:
            self._administrators.settle()
            self._clock.run()
            self._clock.run(self._clock.now + _LONG)
        for number in range(1, self._rounds + 1):
            if self._stalls is not None:
                stall = functools.partial(self._broker.stall, self._stalls)
                self._clock.after(self._chance.randint(0, self._mix.spread), stall)
            self._administrators.begin(number)
            doubts, lost = self._doubts, len(self.lost)
            self._clock.run()
            self._look(number)
            self.counts["rounds that lost and were flagged"] += len(self.lost) > lost and self._doubts > doubts
            self._clock.run(self._clock.now + self._chance.choice(self._rests))
        return self

    def _look(self, number: int) -> None:
        """Compares the newest raw document with the values of the last calls; reports each lost setting once."""
        shown = self._guard.state.raw
        lost = [f"{setting} {(shown or {}).get(setting)!r} in round {number}" for setting in self._administrators.newly_lost(shown)]
        self.lost += lost
        self.counts["undone in heads"] += len(self._administrators.wrong(self._guard.state.document))
        self.counts["rounds that lost"] += bool(lost)

    @property
    def _doubts(self) -> int:
        return self.counts["ambiguous"] + self.counts["unexplained"]

    def _make(self, setting: Setting, value: bytes | None, answered: Answered) -> None:
        if setting == SIDECAR:
            self._update(setting, value or b"")
            answered()
        else:
            self.counts["changed nothing"] += not self._broker.call(setting, value, answered)

    def _update(self, setting: Setting, value: bytes) -> None:
        self._sent += 1
        state = self._guard.state
        document = {**(state.document or {}), setting: value}
        stamp = Stamp(f"update-{self._sent}", StampKind.UPDATE, f"request-{self._sent}", mask=(setting,), base=state.base)
        self._log.append(Event(KEY, Action.UPDATE, document, stamp), "guard", None, None, self._clock.now)


__all__ = ["SETTINGS", "SIDECAR", "InPlace"]
