"""Brokers that change the document in their cache in place, as 4.0.0 does, and a guard beside them.

An admin call takes the cached document, sets its setting in it, and publishes what the document is when it is encoded. Until an event is
read, which puts another document into the cache, all calls change the same one: so an event can carry the changes of calls whose own
events come after it, and events come into the log in another order than that of the changes.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

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
_LONG = 40_000
"""Longer than anything is remembered, in milliseconds."""
_PAUSE = 2
"""How long an administrator waits after an answer before the next call, in milliseconds."""


class _Call(NamedTuple):
    """What an administrator does to a setting in a round."""

    at: int
    """How long after the round's beginning, in milliseconds."""
    setting: Setting
    value: bytes | None
    """None: the setting is removed."""


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
        removals: float = 0,
        repeats: float = 0,
        reverts: float = 0,
        after: tuple[int, int] = (5, 900),
        quiet: bool = False,
        single: bool = False,
        settled: bool = False,
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
            removals: the share of calls that remove their setting, set or not.
            repeats: the share of calls that set their setting to what it is.
            reverts: the share of calls that are followed by one that sets back what they changed.
            after: how much later that is, in milliseconds.
            quiet: whether only one administrator calls in a round.
            single: whether one administrator makes all calls, each as soon as the one before is in the log.
            settled: whether everything was set long before.
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
        self._removals = removals
        self._repeats = repeats
        self._reverts = reverts
        self._after = after
        self._quiet = quiet
        self._single = single
        self._settled = settled
        self._settings = (*SETTINGS, SIDECAR) if sidecar else SETTINGS
        self._cached: dict[Setting, bytes] | None = None if fresh else {}
        self._left: dict[Setting, bytes | None] = dict.fromkeys(self._settings)
        self._wrong: set[Setting] = set()
        self._events: list[Placed] = []
        self._read_until = self._heard_until = 0
        self._sent = 0
        self._state = KeyState()
        self._context = FoldContext(in_place=known)
        self._due = 0
        self.counts: Counter[str] = Counter()
        """``calls``, of them those that ``changed nothing`` in the broker's document, and those that ``set back``; what the fold told."""
        self.lost: list[str] = []
        """What was not as it was left when a round had come to rest."""

    def run(self) -> InPlace:
        """Runs all rounds."""
        if self._settled:
            self._one_by_one((_Call(0, setting, b"0") for setting in self._settings), self._clock.now)
            self._clock.run()
            self._clock.run(self._clock.now + _LONG)
        for number in range(1, self._rounds + 1):
            if self._stalls is not None:
                self._clock.after(self._chance.randint(0, self._spread), functools.partial(self._stall, self._stalls))
            self._begin(b"%d" % (number % self._values))
            doubts, lost = self._doubts, len(self.lost)
            self._clock.run()
            self._look(number)
            self.counts["rounds that lost and told a doubt"] += len(self.lost) > lost and self._doubts > doubts
            self._clock.run(self._clock.now + self._chance.choice(self._rests))
        return self

    def _look(self, number: int) -> None:
        """Compares what the broker shows with what it was left as; what is lost is told once."""
        document, shown = self._state.document or {}, self._state.live or {}
        wrong = {setting for setting in self._settings if shown.get(setting) != self._left[setting]}
        lost = [f"{setting} {shown.get(setting)!r} in round {number}" for setting in sorted(wrong - self._wrong)]
        self._wrong = wrong
        self.lost += lost
        self.counts["undone in heads"] += sum(document.get(setting) != self._left[setting] for setting in self._settings)
        self.counts["rounds that lost"] += bool(lost)

    @property
    def _doubts(self) -> int:
        return self.counts["ambiguous"] + self.counts["unexplained"]

    def _begin(self, number: bytes) -> None:
        """Has a round's calls made, each in its time."""
        chance = self._chance
        by_administrator: list[list[_Call]] = []
        for setting in (chance.choice(self._settings),) if self._quiet else self._settings:
            calls = [_Call(chance.randint(0, self._spread), setting, self._next(setting, number))]
            if self._reverts and chance.random() < self._reverts:
                calls.append(_Call(calls[0].at + chance.randint(*self._after), setting, self._left[setting]))
                self.counts["set back"] += 1
            by_administrator.append(calls)
        if self._single:
            by_administrator = [sorted(itertools.chain.from_iterable(by_administrator), key=lambda call: call.at)]
        for calls in by_administrator:
            self._one_by_one(iter(calls), self._clock.now)

    def _one_by_one(self, calls: Iterator[_Call], begun: int, pause: int = 0) -> None:
        """Makes calls, each in its time, and when the one before has been answered."""
        call = next(calls, None)
        if call is not None:
            answered = functools.partial(self._one_by_one, calls, begun, _PAUSE)
            self._clock.after(max(begun + call.at - self._clock.now, pause), functools.partial(self._make, call, answered))

    def _next(self, setting: Setting, number: bytes) -> bytes | None:
        """What a call makes of its setting."""
        kind = self._chance.random() if self._removals or self._repeats else 1.0
        if setting == SIDECAR or kind >= self._removals + self._repeats:
            return number
        return None if kind < self._removals else self._left[setting]

    def _make(self, call: _Call, answered: Callable[[], None]) -> None:
        setting, value = call.setting, call.value
        self._left[setting] = value
        self._wrong.discard(setting)
        self.counts["calls"] += 1
        if setting == SIDECAR:
            self._update(setting, value or b"")
            answered()
            return
        cached = {} if self._cached is None else self._cached
        if cached.get(setting) == value:
            self.counts["changed nothing"] += 1
        if value is None:
            cached.pop(setting, None)
        else:
            cached[setting] = value
        self._clock.after(self._chance.randint(0, 3), lambda: self._encode(dict(cached), answered))

    def _update(self, setting: Setting, value: bytes) -> None:
        self._sent += 1
        document = {**(self._state.document or {}), setting: value}
        stamp = Stamp(f"update-{self._sent}", StampKind.UPDATE, f"request-{self._sent}", mask=(setting,), base=self._state.base)
        self._append(Event(KEY, Action.UPDATE, document, stamp), self._clock.now)

    def _encode(self, document: Settings, answered: Callable[[], None]) -> None:
        at = self._clock.now

        def append() -> None:
            self._append(Event(KEY, Action.UPDATE, document), at)
            answered()

        self._clock.after(self._chance.randint(0, 3), append)

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
