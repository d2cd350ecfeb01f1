"""Guards that start, stop, crash and pause while a broker changes its document in place, with compaction at any time.

    python -m tests.core.fold.model.restarted_guards relayed 17        # replays one run
    python -m tests.core.fold.model.restarted_guards relayed 0 500     # runs many, and sums up

A run is judged whenever it has come to rest: at least one guard runs, none is paused, and none has anything to read or to repair. Then
brokers show every setting as the last call left it, and all guards agree.
"""

from __future__ import annotations

import functools
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from topicpolicies_server.core.fold.keystate import WINDOW_MS
from topicpolicies_server.core.policies.documents import Setting, Settings
from topicpolicies_server.core.policies.events import StampKind

from .administrators import Administrators, Answered, Mix
from .clock import Clock
from .guards import Guard
from .in_place_broker import InPlaceBroker
from .log import Entry, Log

_STORM = 150
"""How long after the beginning of a round its events are written, in milliseconds: half of all moves are made in that time."""
_STEP = 20
"""How often it is checked whether a guard may stop, or whether the run is at rest, in milliseconds."""
_REST = 2_000
"""How long to wait for a rest, in milliseconds, if no guard is paused."""
_MANY = 600
"""More events than a log gets unless repairs loop."""
_MOST = 5
"""How many guards may run at once."""


@dataclass(frozen=True)
class Way:
    """How guards start and end."""

    witness: bool = False
    """Whether the first guard runs from the beginning to the end."""
    relays: bool = False
    """Whether a guard stops only when no repair is due and another guard has read the log."""
    waits: bool = False
    """Whether a guard stops only when another one has seen every document that brokers may compute from."""
    restarts: bool = False
    """Whether all guards crash at any time, and others start after a while."""
    pauses: bool = True
    compacts: bool = True
    compacts_in_gaps: bool = False
    """Whether the log is also compacted while no guard runs."""
    recalls: tuple[int, ...] = (0, 0, 0, 10, 10_000)
    """How many entries before the compaction's end a guard reads as they were: one of these, at random."""


WAYS: Mapping[str, Way] = {
    "alone": Way(pauses=False, compacts=False),
    "witnessed": Way(witness=True),
    "relayed": Way(relays=True),
    "relayed, waited for": Way(relays=True, waits=True),
    "relayed, none recalled": Way(relays=True, recalls=(0,)),
    "restarted": Way(restarts=True, recalls=(10_000,)),
    "restarted, few recalled": Way(restarts=True, pauses=False, recalls=(40,)),
    "restarted, none recalled": Way(restarts=True, recalls=(0,), compacts_in_gaps=True),
}


class Unrest(AssertionError):
    """Repairs loop, or a run does not come to rest although no guard is paused."""


@dataclass
class Run:
    """The result of a run."""

    counts: Counter[str] = field(default_factory=Counter)
    """Calls, moves, what the fold reported, and how often the run was judged."""
    lost: list[str] = field(default_factory=list)
    """The settings that did not have the value of their last call at a rest."""
    disagreed: list[str] = field(default_factory=list)
    """The guards that had another head than the first one at a rest."""


class RestartedGuards:
    """One run."""

    def __init__(
        self,
        way: Way,
        seed: int,
        *,
        rounds: int = 10,
        lag: tuple[int, int] = (3, 60),
        rests: tuple[int, ...] = (200, 2_000, 40_000, 100_000, 100_000),
        mix: Mix | None = None,
    ) -> None:
        """Starts one guard; makes no calls yet.

        Args:
            way: how guards start and end.
            seed: of the randomness.
            rounds: how many rounds of calls there are.
            lag: how long the broker takes to read an event, in milliseconds.
            rests: the pauses between rounds, in milliseconds.
            mix: the administrators' calls.
        """
        self._way = way
        self._chance = random.Random(seed)
        self._rounds = rounds
        self._rests = rests
        self._run = Run()
        self._counts = self._run.counts
        self._clock = Clock()
        self._log = Log()
        self._broker = InPlaceBroker(self._clock, self._log, self._chance, lag)
        self._administrators = Administrators(mix or Mix(), self._clock, self._chance, self._counts, self._make)
        self._started = 0
        self._idle: set[Setting] = set()
        """The settings whose last call changed nothing at the broker: the log does not show such a call if a newer change was undone."""
        self._guards: list[Guard] = []
        self._newcomers: set[Guard] = set()
        self._log.readers.append(self._observe)
        self._start()

    def run(self) -> Run:
        """Runs all rounds, and waits for a last rest."""
        for number in range(1, self._rounds + 1):
            rest = _STORM + self._chance.choice(self._rests)
            self._plan(rest)
            self._administrators.begin(number)
            self._clock.run(self._clock.now + rest)
            if self._chance.random() < 0.8:  # otherwise repairs are still due in the next round
                self._look(f"round {number}")
        self._clock.run()
        if not self._guards:
            self._start()
        for guard in self._guards:
            self._resume(guard)
        self._look("the end")
        return self._run

    # -- what happens --------------------------------------------------------------------------------------------------

    def _make(self, setting: Setting, value: bytes | None, answered: Answered) -> None:
        self._idle.discard(setting)
        if not self._broker.call(setting, value, answered):
            self._counts["changed nothing"] += 1
            self._idle.add(setting)

    def _plan(self, rest: int) -> None:
        """Schedules some moves until the end of a round."""
        way, chance = self._way, self._chance
        moves: list[tuple[float, Callable[[], None]]] = []
        if way.compacts:
            moves += [(0.8, self._compact), (0.4, self._compact)]
        if way.witness:
            moves += [(0.6, self._start), (0.4, self._crash), (0.3, self._stop_one)]
        if way.relays:
            moves += [(0.7, self._succeed)]
        if way.restarts:
            moves += [(0.6, self._restart)]
        if way.pauses and chance.random() < 0.5:
            self._clock.after(chance.randint(0, _STORM), self._pause)
        for often, move in moves:
            if chance.random() < often:
                self._clock.after(chance.randint(0, _STORM if chance.random() < 0.5 else rest), move)

    def _compact(self) -> None:
        if self._guards or self._way.compacts_in_gaps:
            self._counts["compactions"] += 1
            self._counts["compactions in gaps"] += not self._guards
            self._log.compact()
            self._newcomers.clear()

    def _start(self) -> None:
        if len(self._guards) >= _MOST:
            return
        self._started += 1
        self._counts["started"] += 1
        entries, horizon = self._log.entries, self._log.horizon
        self._counts["started between a late repair and a compaction"] += len(entries) > horizon and self._is_late(entries[horizon])
        recalls = self._chance.choice(self._way.recalls)
        guard = Guard(f"guard-{self._started}", self._clock, self._log, self._chance, self._counts, recalls=recalls)
        self._guards.append(guard)
        self._newcomers.add(guard)

    def _observe(self, entry: Entry) -> None:
        if entry.number > _MANY:
            raise Unrest("repairs go to and fro")
        if self._is_late(entry):
            self._counts["late repairs"] += 1
            self._counts["started between a compaction and a late repair"] += sum(guard.alive for guard in self._newcomers)

    def _is_late(self, entry: Entry) -> bool:
        """Returns whether an entry repairs, W late or later, the stale document just before the compaction's end."""
        stamp = entry.event.stamp
        if stamp is None or stamp.kind is not StampKind.REPAIR or entry.number != self._log.horizon or not entry.number:
            return False
        stale = self._log.entries[entry.number - 1]
        return stale.event.stamp is None and entry.placed.published_at - stale.placed.published_at >= WINDOW_MS

    def _pause(self) -> None:
        going = [guard for guard in self._guards if not guard.paused]
        if not going:
            return
        self._counts["paused"] += 1
        pause = self._chance.randint(0, 3 * WINDOW_MS)
        for guard in going if self._chance.random() < 0.8 else [self._chance.choice(going)]:
            guard.pause()
            self._clock.after(pause, functools.partial(self._resume, guard))
        if self._chance.random() < 0.8:  # so that a newcomer sees the stale document and its late repair
            if self._way.compacts:
                self._clock.after(self._chance.randint(0, pause), self._compact)
            if not self._way.restarts:
                self._clock.after(self._chance.randint(0, pause + 500), self._start)

    def _resume(self, guard: Guard) -> None:
        if guard.alive and guard.paused:
            self._counts["resumed with a repair due"] += guard.state.due
            guard.resume()

    def _end(self, guard: Guard) -> None:
        self._counts["crashed"] += 1
        self._counts["crashed with a repair due"] += guard.state.due
        guard.end()
        self._guards.remove(guard)

    def _crash(self) -> None:
        if len(self._guards) > 1:
            self._end(self._chance.choice(self._guards[1:]))

    def _stop_one(self) -> None:
        if len(self._guards) > 1:
            self._stop(self._chance.choice(self._guards[1:]), 0)

    def _succeed(self) -> None:
        """Starts one or two guards; all others stop as soon as they may."""
        before = list(self._guards)
        self._start()
        if self._chance.random() < 0.2:
            self._start()
        if len(self._guards) > len(before):
            self._counts["succeeded"] += 1
            for guard in before:
                self._stop(guard, len(self._log.entries))

    def _stop(self, guard: Guard, least: int) -> None:
        """Stops a guard as soon as it has read so many entries, no repair is due, and another guard can take its place."""
        if not guard.alive:
            return
        beside = any(other.loaded and (other.sees_all or not self._way.waits) for other in self._guards if other is not guard)
        if beside and guard.read_until >= least and not guard.state.due:
            self._counts["stopped"] += 1
            guard.end()
            self._guards.remove(guard)
        else:
            self._clock.after(_STEP, functools.partial(self._stop, guard, least))

    def _restart(self) -> None:
        """Ends all guards, and starts others after a while."""
        if not self._guards:
            return
        for guard in list(self._guards):
            self._end(guard)
        gap = self._chance.randint(0, self._chance.choice((_STORM, 2_000, WINDOW_MS, 2 * WINDOW_MS)))
        self._counts["gaps"] += 1
        for _ in range(self._chance.choice((1, 1, 2))):
            self._clock.after(gap, self._start)

    # -- what must hold at rest ----------------------------------------------------------------------------------------

    @property
    def _at_rest(self) -> bool:
        quiet = not self._administrators.calling and not self._broker.behind
        return quiet and all(guard.at_rest for guard in self._guards)

    def _look(self, when: str) -> None:
        """Waits for a rest, and compares the newest document with the values of the last calls; reports each lost setting once."""
        until = self._clock.now + _REST
        while self._guards and not self._at_rest and not any(guard.paused for guard in self._guards):
            if self._clock.now >= until:
                raise Unrest(f"no rest {when}")
            self._clock.run(self._clock.now + _STEP)
        if not self._at_rest or not self._guards or any(guard.paused for guard in self._guards):
            return
        self._counts["rests"] += 1
        shown: Settings = self._log.entries[-1].event.document or {}
        for setting in self._administrators.newly_lost(shown):
            if setting in self._idle:
                self._counts["its call changed nothing"] += 1
                continue
            self._run.lost.append(f"{setting} {shown.get(setting)!r}, left as {self._administrators.left[setting]!r}, at {when}")
        first, *others = self._guards
        for other in others:
            if (other.state.document, other.state.version) != (first.state.document, first.state.version):
                self._run.disagreed.append(f"{other.name} {other.state.version} {first.name} {first.state.version} at {when}")


def main(arguments: list[str]) -> None:
    """Replays one run, or many."""
    way, first = WAYS[arguments[0]], int(arguments[1])
    total: Counter[str] = Counter()
    for seed in range(first, int(arguments[2]) if len(arguments) > 2 else first + 1):
        run = RestartedGuards(way, seed).run()
        total += run.counts
        total["lost"] += len(run.lost)
        total["disagreed"] += len(run.disagreed)
        for line in (*run.lost, *run.disagreed):
            print(f"seed {seed}: {line}")
    for name, count in sorted(total.items()):
        print(f"{count:8} {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
