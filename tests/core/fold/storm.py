"""A storm of calls at a broker that changes the document in its cache in place, as 4.0.0 does, and a guard that reads every event.

An admin call takes the cached document, changes its setting in it, and publishes the document as it is when it is encoded. Until an event
is read, which puts another document into the cache, all calls change the same one: so an event can carry the changes of calls whose own
events come after it, and events can be appended in another order than that of the changes.

Administrators each change a setting of their own, round after round. When a round has come to rest, each setting must have the value of
its last call. The simulation has such a broker too (``late-in-place``); this has nothing else, and is some ten times as fast.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from topicpolicies_server.core.fold.fold import FoldContext, KeyState, fold, restatement
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import Document, Setting
from topicpolicies_server.core.policies.events import Action, Event, Placed, Stamp, StampKind

KEY = PolicyKey("persistent://t/n/0", Scope.LOCAL)
SIDECAR: Setting = "message_ttl_in_seconds"
"""The setting that a client of the sidecar changes."""
SETTINGS: tuple[Setting, ...] = (
    "max_producer_per_topic",
    "max_consumer_per_topic",
    "max_subscriptions_per_topic",
    "compaction_threshold",
    "max_consumers_per_subscription",
    "max_unacked_messages_on_consumer",
)
_PAUSE = 2
"""How long an administrator waits after an answer before the next call, in milliseconds."""
_LONG = 40_000
"""Longer than the fold keeps superseded documents, in milliseconds."""

Answered = Callable[[], None]


class Clock:
    """Simulated time, in milliseconds since 1970. Actions of one time run in the order in which they were added."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self._order = itertools.count()
        self._actions: list[tuple[int, int, Callable[[], None]]] = []

    def after(self, delay: int, action: Callable[[], None]) -> None:
        """Runs an action some milliseconds from now."""
        heapq.heappush(self._actions, (self.now + max(delay, 0), next(self._order), action))

    def run(self) -> None:
        """Runs all actions."""
        while self._actions:
            self.now, _, action = heapq.heappop(self._actions)
            action()


@dataclass(frozen=True)
class Options:
    """The broker, the guard, and which calls are made when. Times are in milliseconds."""

    rounds: int = 10
    rests: tuple[int, ...] = (200, 40_000)
    """The pauses between rounds: one of these, at random."""
    lag: tuple[int, int] = (3, 60)
    """How long the broker takes to read an event."""
    stalls: tuple[int, int] | None = None
    """How long the broker reads nothing in each round; None: it never stalls."""
    fresh: bool = False
    """Whether the broker has no document at first: then each call makes one of its own, until an event is read."""
    busy: int = 0
    """For how long at most an encoded document waits until it gets its publish time."""
    guard: bool = True
    """Whether the guard writes repairs."""
    known: bool = True
    """Whether the guard knows that the broker changes its document in place."""
    settled: bool = False
    """Whether every setting was set long before."""
    values: int = 1_000
    """How many values of a setting there are, which take turns."""
    sidecar: bool = False
    """Whether a client of the sidecar changes a setting too."""
    spread: int = 40
    """Over how long the calls of a round are spread."""
    removals: float = 0
    """The share of calls that remove their setting, set or not."""
    repeats: float = 0
    """The share of calls that set their setting to its present value."""
    reverts: float = 0
    """The share of calls that are followed by one that restores the value before."""
    after: tuple[int, int] = (5, 900)
    """How much later the value is restored."""
    quiet: bool = False
    """Whether only one administrator calls in a round."""
    single: bool = False
    """Whether one administrator makes all calls, each as soon as the one before is in the log."""


class _Call(NamedTuple):
    """A call of an administrator in a round."""

    at: int
    """How long after the round's beginning."""
    setting: Setting
    value: bytes | None
    """None: the setting is removed."""


class Storm:
    """One run."""

    def __init__(self, seed: int, **options: Any) -> None:
        """Prepares a run with some ``Options``."""
        self.counts: Counter[str] = Counter()
        """``calls``, of them those that ``changed nothing`` in the broker's document or were ``set back``; and what the fold reported."""
        self.lost: list[str] = []
        """The settings that did not have the value of their last call when a round had come to rest."""
        self._options = Options(**options)
        self._chance = random.Random(seed)
        self._clock = Clock()
        self._length = 0
        """How many events the log has."""
        self._ids = itertools.count(1)
        self._settings = (*SETTINGS, SIDECAR) if self._options.sidecar else SETTINGS
        self._left: dict[Setting, bytes | None] = dict.fromkeys(self._settings)
        """Each setting as the last call left it."""
        self._unseen: set[Setting] = set()
        """The lost settings that were reported, and not set since."""
        self._cached: dict[Setting, bytes] | None = None if self._options.fresh else {}
        self._broker_reads_at = 0
        self._guard_reads_at = self._clock.now
        self._state = KeyState()
        """What the guard has read."""
        self._context = FoldContext(in_place=self._options.known)
        self._guard_events = 0

    def run(self) -> Storm:
        """Runs all rounds."""
        options, chance, clock, counts = self._options, self._chance, self._clock, self.counts
        if options.settled:
            self._call_in_turn((_Call(0, setting, b"0") for setting in self._left), clock.now)
            clock.run()
            clock.now += _LONG
        for number in range(1, options.rounds + 1):
            if options.stalls is not None:
                clock.after(chance.randint(0, options.spread), functools.partial(self._stall, options.stalls))
            self._begin(number)
            doubts, lost = counts["ambiguous"] + counts["unexplained"], len(self.lost)
            clock.run()
            self._look(number)
            flagged = counts["ambiguous"] + counts["unexplained"] > doubts
            counts["rounds that lost"] += len(self.lost) > lost
            counts["rounds that lost and were flagged"] += len(self.lost) > lost and flagged
            clock.now += chance.choice(options.rests)
        return self

    def _look(self, number: int) -> None:
        """Compares the newest raw document with the values of the last calls; reports each lost setting once."""
        shown, head = self._state.raw or {}, self._state.document or {}
        wrong = {setting for setting, value in self._left.items() if shown.get(setting) != value}
        self.lost += [f"{setting} {shown.get(setting)!r} in round {number}" for setting in sorted(wrong - self._unseen)]
        self._unseen = wrong
        self.counts["undone in heads"] += sum(head.get(setting) != value for setting, value in self._left.items())

    def _append(self, event: Event, writer: str, at: int) -> None:
        placed = Placed(0, f"{self._length + 1:08d}", event, at, writer)
        self._length += 1
        now, lag = self._clock.now, self._options.lag
        self._broker_reads_at = max(self._broker_reads_at + 1, now + self._chance.randint(*lag))
        self._clock.after(self._broker_reads_at - now, lambda: self._broker_reads(event))
        self._guard_reads_at = max(self._guard_reads_at + 1, now + self._chance.randint(2, 20))
        self._clock.after(self._guard_reads_at - now, lambda: self._guard_reads(placed))

    # -- administrators ------------------------------------------------------------------------------------------------

    def _begin(self, number: int) -> None:
        """Schedules the calls of a round."""
        chance, options = self._chance, self._options
        value = b"%d" % (number % options.values)
        by_administrator: list[list[_Call]] = []
        for setting in (chance.choice(self._settings),) if options.quiet else self._settings:
            calls = [_Call(chance.randint(0, options.spread), setting, self._next(setting, value))]
            if options.reverts and chance.random() < options.reverts:
                calls.append(_Call(calls[0].at + chance.randint(*options.after), setting, self._left[setting]))
                self.counts["set back"] += 1
            by_administrator.append(calls)
        if options.single:
            by_administrator = [sorted(itertools.chain.from_iterable(by_administrator), key=lambda call: call.at)]
        for calls in by_administrator:
            self._call_in_turn(iter(calls), self._clock.now)

    def _next(self, setting: Setting, value: bytes) -> bytes | None:
        """Returns the value to which a call sets its setting; None: it removes it."""
        options = self._options
        kind = self._chance.random() if options.removals or options.repeats else 1.0
        if setting == SIDECAR or kind >= options.removals + options.repeats:
            return value
        return None if kind < options.removals else self._left[setting]

    def _call_in_turn(self, calls: Iterator[_Call], begun: int, pause: int = 0) -> None:
        """Makes calls, each at its time or when the one before has been answered, whichever is later."""
        call = next(calls, None)
        if call is not None:
            answered = functools.partial(self._call_in_turn, calls, begun, _PAUSE)
            self._clock.after(max(begun + call.at - self._clock.now, pause), functools.partial(self._call, call, answered))

    def _call(self, call: _Call, answered: Answered) -> None:
        self._left[call.setting] = call.value
        self._unseen.discard(call.setting)
        self.counts["calls"] += 1
        if call.setting == SIDECAR:
            self._update(call.setting, call.value or b"")
            answered()
        else:
            self._call_broker(call, answered)

    # -- the broker ----------------------------------------------------------------------------------------------------

    def _call_broker(self, call: _Call, answered: Answered) -> None:
        cached = {} if self._cached is None else self._cached
        self.counts["changed nothing"] += cached.get(call.setting) == call.value
        if call.value is None:
            cached.pop(call.setting, None)
        else:
            cached[call.setting] = call.value
        self._clock.after(self._chance.randint(0, 3), lambda: self._publish(dict(cached), answered))

    def _publish(self, document: Document, answered: Answered) -> None:
        wait = self._chance.randint(0, self._options.busy) if self._options.busy else 0
        at = self._clock.now + wait

        def append() -> None:
            self._append(Event(KEY, Action.UPDATE, document), "broker", at)
            answered()

        self._clock.after(wait + self._chance.randint(0, 3), append)

    def _stall(self, stalls: tuple[int, int]) -> None:
        self._broker_reads_at = max(self._broker_reads_at, self._clock.now + self._chance.randint(*stalls))

    def _broker_reads(self, event: Event) -> None:
        self._cached = dict(event.document or {})

    # -- the guard -----------------------------------------------------------------------------------------------------

    def _guard_reads(self, placed: Placed) -> None:
        folded = fold(self._state, placed, self._context)
        self.counts["stale"] += folded.stale
        self.counts["unexplained"] += folded.unexplained
        self.counts["ambiguous"] += folded.ambiguous
        self._guard_events += 1
        if self._options.guard and self._state.repair_due:  # a repair comes a little after the newest event
            self._clock.after(self._chance.randint(20, 60), functools.partial(self._repair, self._guard_events))

    def _repair(self, read: int) -> None:
        if read == self._guard_events and self._state.repair_due:
            self.counts["repairs"] += 1
            self._append(restatement(KEY, self._state, f"guard-{next(self._ids)}"), "guard", self._clock.now)

    def _update(self, setting: Setting, value: bytes) -> None:
        """Has the guard's process change a setting."""
        number = next(self._ids)
        document = {**(self._state.document or {}), setting: value}
        stamp = Stamp(f"update-{number}", StampKind.UPDATE, f"request-{number}", mask=(setting,), base=self._state.base)
        self._append(Event(KEY, Action.UPDATE, document, stamp), "guard", self._clock.now)
