"""Brokers that change the document in their cache in place, as 4.0.0 does, and a guard beside them.

An admin call takes the cached document, sets its setting in it, and publishes what the document is when it is encoded. Until an event is
read, which puts another document into the cache, all calls change the same one: so an event can carry the changes of calls whose own
events come after it, and events come into the log in another order than that of the changes.
"""

from __future__ import annotations

import functools
import random
from collections import Counter

from topicpolicies_server.core import fold as rules
from topicpolicies_server.core.documents import Setting, Settings
from topicpolicies_server.core.events import Action, Event, Placed, Stamp, StampKind
from topicpolicies_server.core.fold import FoldContext, KeyState
from topicpolicies_server.core.names import PolicyKey, Scope

from .clock import Clock
from .log import position

KEY = PolicyKey("persistent://t/n/0", Scope.LOCAL)
SIDECAR: Setting = "message_ttl_in_seconds"
"""What a client of the sidecar sets."""
SETTINGS: tuple[Setting, ...] = (
    "max_producer_per_topic",
    "max_consumer_per_topic",
    "max_subscriptions_per_topic",
    "compaction_threshold",
    "max_consumers_per_subscription",
    "max_unacked_messages_on_consumer",
)


class InPlace:
    """One broker, a guard, and administrators who each set a setting of their own, round after round; perhaps a sidecar's client too."""

    def __init__(
        self,
        seed: int,
        *,
        rounds: int = 10,
        lag: tuple[int, int] = (3, 60),
        guard: bool = True,
        known: bool = True,
        values: int = 1_000,
        rests: tuple[int, ...] = (200, 40_000),
        sidecar: bool = False,
        spread: int = 40,
        stalls: tuple[int, int] | None = None,
        fresh: bool = False,
    ) -> None:
        """A run.

        Args:
            seed: of all chance.
            rounds: how many.
            lag: how long the broker takes to read what was written, in milliseconds.
            guard: whether there is one.
            known: whether the guard knows that the broker does this.
            values: how many there are of a setting, which take turns.
            rests: between rounds, in milliseconds.
            sidecar: whether one writes too.
            spread: over how many milliseconds the calls of a round are spread.
            stalls: how long the broker reads nothing in each round, in milliseconds; None: it never stalls.
            fresh: whether the broker has no document at first: then each call makes one of its own, until an event is read.
        """
        self._chance = random.Random(seed)
        self._clock = Clock()
        self._rounds = rounds
        self._lag = lag
        self._guard = guard
        self._values = values
        self._rests = rests
        self._spread = spread
        self._stalls = stalls
        self._settings = (*SETTINGS, SIDECAR) if sidecar else SETTINGS
        self._cached: dict[Setting, bytes] | None = None if fresh else {}
        self._events: list[Placed] = []
        self._read_until = self._heard_until = 0
        self._sent = 0
        self._state = KeyState()
        self._context = FoldContext(in_place=known)
        self._due = 0
        self.counts: Counter[str] = Counter()
        self.lost: list[str] = []
        """What was not there when a round had come to rest."""

    def run(self) -> InPlace:
        """Runs all rounds."""
        for number in range(1, self._rounds + 1):
            wanted = b"%d" % (number % self._values)
            if self._stalls is not None:
                self._clock.after(self._chance.randint(0, self._spread), functools.partial(self._stall, self._stalls))
            for setting in self._settings:
                call = self._update if setting == SIDECAR else self._call
                self._clock.after(self._chance.randint(0, self._spread), functools.partial(call, setting, wanted))
            doubts = self._doubts
            self._clock.run()
            shown = self._state.live or {}
            wrong = [f"{setting} {shown.get(setting)!r} in round {number}" for setting in self._settings if shown.get(setting) != wanted]
            self.counts["undone in heads"] += sum((self._state.document or {}).get(setting) != wanted for setting in self._settings)
            self.lost += wrong
            self.counts["rounds that lost"] += bool(wrong)
            self.counts["rounds that lost and told a doubt"] += bool(wrong) and self._doubts > doubts
            self._clock.run(self._clock.now + self._chance.choice(self._rests))
        return self

    @property
    def _doubts(self) -> int:
        return self.counts["ambiguous"] + self.counts["unexplained"]

    def _call(self, setting: Setting, value: bytes) -> None:
        cached = {} if self._cached is None else self._cached
        cached[setting] = value
        self._clock.after(self._chance.randint(0, 3), lambda: self._encode(dict(cached)))

    def _update(self, setting: Setting, value: bytes) -> None:
        self._sent += 1
        document = {**(self._state.document or {}), setting: value}
        stamp = Stamp(f"update-{self._sent}", StampKind.UPDATE, f"request-{self._sent}", mask=(setting,), base=self._state.base)
        self._append(Event(KEY, Action.UPDATE, document, stamp), self._clock.now)

    def _encode(self, document: Settings) -> None:
        at = self._clock.now
        self._clock.after(self._chance.randint(0, 3), lambda: self._append(Event(KEY, Action.UPDATE, document), at))

    def _append(self, event: Event, at: int) -> None:
        placed = Placed(0, position(len(self._events)), event, at, "broker" if event.stamp is None else "guard")
        self._events.append(placed)
        now = self._clock.now
        self._read_until = max(self._read_until + 1, now + self._chance.randint(*self._lag))
        self._clock.after(self._read_until - now, lambda: self._read(event))
        self._heard_until = max(self._heard_until + 1, now + self._chance.randint(2, 20))
        self._clock.after(self._heard_until - now, lambda: self._hear(placed))

    def _stall(self, stalls: tuple[int, int]) -> None:
        self._read_until = max(self._read_until, self._clock.now + self._chance.randint(*stalls))

    def _read(self, event: Event) -> None:
        self._cached = dict(event.document or {})

    def _hear(self, placed: Placed) -> None:
        folded = rules.fold(self._state, placed, self._context)
        self.counts["stale"] += folded.stale
        self.counts["unexplained"] += folded.unexplained
        self.counts["ambiguous"] += folded.ambiguous
        self._due += 1
        number = self._due
        if self._guard and rules.repair_due(self._state):
            self._clock.after(self._chance.randint(20, 60), lambda: self._repair(number))

    def _repair(self, number: int) -> None:
        if number == self._due and rules.repair_due(self._state):
            self._sent += 1
            self.counts["repairs"] += 1
            self._append(rules.restatement(KEY, self._state, f"guard-{self._sent}"), self._clock.now)
