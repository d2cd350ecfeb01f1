"""A world in which sidecars and brokers write one change log, and what must hold in it.

An *observer* folds the whole log. After every event its heads are compared with the truth (the intents, applied in log order), and every
sidecar that has read as far is compared with the observer. A broken promise raises ``Broken``; everything else is counted.

    python -m tests.core.fold.model.world mixed 17        # replays one run
    python -m tests.core.fold.model.world mixed 0 500     # runs many, and sums up
"""

from __future__ import annotations

import functools
import random
import sys
from collections import Counter, defaultdict, deque
from dataclasses import dataclass

from topicpolicies_server.core.fold import fold as rules
from topicpolicies_server.core.fold.fold import FoldContext, Folded, KeyState, Status
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import Settings, differing
from topicpolicies_server.core.policies.events import ABSENT, Position, Stamp, StampKind

from .brokers import Broker, seen_by
from .clock import Clock
from .intents import Chooser
from .kinds import WORLDS, WorldKind
from .log import Entry, Log
from .sidecars import Request, Sidecar, SidecarKind


class Broken(AssertionError):
    """A promise was broken. The message names it, the run, and the command that replays it."""


@dataclass
class _Made:
    """The observer's result of folding an entry."""

    folded: Folded
    document: Settings | None
    version: Position


class World:
    """One run."""

    def __init__(self, kind: WorldKind, seed: int, *, clock: Clock | None = None, scope: Scope = Scope.LOCAL, salt: str = "") -> None:
        self.kind = kind
        self.seed = seed
        self.salt = salt
        self.at_once = False
        """Whether another cluster changes the same keys at the same time: then changes may be undone."""
        self.counts: Counter[str] = Counter()
        self.clock = clock or Clock()
        self.log = Log()
        self.chance = random.Random(f"{kind.name} {seed} {salt}")
        self.chooser = Chooser(self.chance)
        self.keys = [PolicyKey(f"persistent://t/n/{number}", scope) for number in range(kind.keys)]
        self.truth: dict[PolicyKey, Settings | None] = dict.fromkeys(self.keys)
        self.heads: dict[PolicyKey, KeyState] = defaultdict(KeyState)
        self.made: list[_Made] = []
        self.context = FoldContext(kind.window_ms)
        self.requests: list[Request] = []
        self.applied: dict[str, list[tuple[Position, Position]]] = defaultdict(list)
        self.last: dict[PolicyKey, deque[str]] = defaultdict(lambda: deque(maxlen=16))
        """The requests of each key that were applied last."""
        self.judged: set[str] = set()
        self.torn: set[PolicyKey] = set()
        """Keys about which sidecars disagree because a request was repeated that some have forgotten."""
        self.served: dict[tuple[str, PolicyKey], Position] = {}
        self.log.readers.append(self._observe)
        self.brokers = [
            Broker(f"broker-{number}", broker, self.clock, self.log, self.chance, self.chooser)
            for number, broker in enumerate(kind.brokers)
        ]
        self.sidecars: list[Sidecar] = []
        for sidecar in kind.sidecars:
            self._start(sidecar)

    def run(self) -> Counter[str]:
        """Runs the world until nothing more happens, and checks what must hold then. Returns what was counted."""
        self.start()
        self.clock.run()
        self.finish()
        return self.counts

    def start(self) -> None:
        """Schedules changes, joins, crashes, compactions and pauses."""
        at = 200
        for _ in range(self.kind.changes):
            at += self.chance.randint(*self.kind.pause)
            if self.chance.random() < self.kind.long_pause[0]:
                at += self.chance.randint(0, self.kind.long_pause[1])
            self.clock.after(at, self._change)
        for action, times in (
            (self._join, self.kind.joins),
            (self._crash, self.kind.crashes),
            (self.log.compact, self.kind.compactions),
            (self._pause, self.kind.pauses),
        ):
            for _ in range(times):
                self.clock.after(self.chance.randint(200, at), action)
        if not self.kind.survivor:
            self.clock.after(self.chance.randint(200, at), self.sidecars[0].crash)

    def finish(self) -> None:
        """Resumes paused sidecars, and checks what must hold at rest."""
        for sidecar in self.sidecars:
            if sidecar.alive and sidecar.paused:
                self._resume(sidecar)
                self.clock.run()
        self._at_rest()

    # -- what happens --------------------------------------------------------------------------------------------------

    def _change(self) -> None:
        key = self.chance.choice(self.keys)
        if self.brokers and (not self.kind.requests or self.chance.random() < 0.5):
            self.chance.choice(self.brokers).admin(key)
            return
        sidecar = self.chance.choice(self.sidecars)
        if sidecar.ready(key) and sidecar not in self.sidecars[: len(self.kind.sidecars)]:
            self.counts["asked of a joined sidecar"] += 1
        roll = self.chance.random()
        if roll < 0.1 and self.requests:
            earlier = self.chance.choice(self.requests[-6:])  # a repeat, perhaps to another sidecar
            again = Request(earlier.key, earlier.intent, earlier.request_id)
            self.counts["repeated requests"] += 1
            self.requests.append(again)
            sidecar.submit(again)
            return
        request = Request(
            key, self.chooser.request(), f"r{len(self.requests)}{self.salt}", etag=roll > 0.9, skip_if_absent=0.8 < roll < 0.9
        )
        self.requests.append(request)
        for _ in range(self.chance.choice((1, 1, 1, 3))):  # several in a row are pipelined
            sidecar.submit(request)
            request = Request(key, self.chooser.request(), f"r{len(self.requests)}{self.salt}")
            self.requests.append(request)

    def _start(self, kind: SidecarKind) -> None:
        name = f"sidecar-{len(self.sidecars)}{self.salt}"
        sidecar = Sidecar(name, kind, self.clock, self.log, self.chance, self._heard, window_ms=self.kind.window_ms)
        self.sidecars.append(sidecar)

    def _join(self) -> None:
        self.counts["joined"] += 1
        self.counts["joined between a late repair and a compaction"] += self._repaired_late()
        self._start(self.kind.sidecars[0])

    def _repaired_late(self) -> bool:
        """Returns whether the compacted log has a stale document and its repair, W later or more: the changes that it undid are gone."""
        before: dict[PolicyKey, Entry] = {}
        for entry in self.log.compacted():
            stamp, earlier = entry.event.stamp, before.get(entry.event.key)
            repairs = stamp is not None and stamp.kind is StampKind.REPAIR
            if repairs and earlier is not None and earlier.number < self.log.horizon:
                late = entry.placed.published_at - earlier.placed.published_at
                if late >= self.kind.window_ms:
                    return True
            before[entry.event.key] = entry
        return False

    def _pause(self) -> None:
        going = [sidecar for sidecar in self.sidecars if sidecar.alive and not sidecar.paused]
        if not going:
            return
        self.counts["paused"] += 1
        pause = self.chance.randint(0, 3 * self.kind.window_ms)
        for sidecar in going if self.chance.random() < 0.5 else [self.chance.choice(going)]:
            sidecar.pause()
            self.clock.after(pause, functools.partial(self._resume, sidecar))
        if self.chance.random() < 0.7:  # so that a newcomer sees the stale document and its late repair
            self.clock.after(self.chance.randint(0, pause), self.log.compact)
            self.clock.after(pause + self.chance.randint(0, 500), self._join)

    def _resume(self, sidecar: Sidecar) -> None:
        if sidecar.alive and sidecar.paused:
            self.counts["resumed with repairs due"] += any(state.due for state in sidecar.states.values())
            sidecar.resume()

    def _crash(self) -> None:
        candidates = [sidecar for sidecar in self.sidecars[1:] if sidecar.alive]
        if candidates:
            self.counts["crashed"] += 1
            sidecar = self.chance.choice(candidates)
            self.counts["crashed with repairs due"] += any(state.due for state in sidecar.states.values())
            sidecar.crash()

    # -- what must hold after every event ------------------------------------------------------------------------------

    def _observe(self, entry: Entry) -> None:
        event = entry.event
        state = self.heads[event.key]
        before = KeyState()
        before.document, before.version, before.raw = state.document, state.version, state.raw
        folded = rules.fold(state, entry.placed, self.context)
        self.made.append(_Made(folded, state.document, state.version))
        self.counts["events"] += 1
        self.counts[folded.status.value] += 1
        self.counts["stale"] += folded.stale
        self.counts["flagged unexplained"] += folded.unexplained
        self.counts["flagged ambiguous"] += folded.ambiguous
        if folded.changed:
            self._require(folded.previous == before.version, "previous versions link up", entry)
            self._require(folded.version > before.version or not self.kind.survivor, "versions only grow", entry)
        if event.stamp is not None:
            self._check_ours(entry, event.stamp, before, folded)
            if event.stamp.kind in (StampKind.UPDATE, StampKind.DELETE) or not event.replicated:
                self._check_alone(entry, state)
        self._check_truth(entry, before, folded)

    def _check_ours(self, entry: Entry, stamp: Stamp, before: KeyState, folded: Folded) -> None:
        if stamp.kind in (StampKind.REPAIR, StampKind.TOMBSTONE):
            self.counts[stamp.kind.value] += 1
            if folded.changed:
                torn = entry.event.key in self.torn
                self._require(torn or not self.kind.survivor, "a restatement changes no head", entry)
                self.counts["undone, a forgotten request was repeated" if torn else "undone, no sidecar knew better"] += 1
                self.truth[entry.event.key] = self.heads[entry.event.key].document
            return
        again = stamp.event_id in self.judged or stamp.request_id in self.applied
        if folded.status is Status.DUPLICATE:
            self._require(again, "only what was seen before is a duplicate", entry)
        elif folded.status is Status.APPLIED:
            last = self.last[entry.event.key]
            self._require(stamp.request_id not in last, "a request is applied once", entry)
            last.append(stamp.request_id)
            self.counts["repeated too late"] += stamp.request_id in self.applied
            self.applied[stamp.request_id].append((folded.version, folded.previous))
        etag = before.version if before.document is not None else ABSENT
        if not entry.event.replicated and folded.status in (Status.APPLIED, Status.REJECTED_ETAG):
            self._require((folded.status is Status.APPLIED) == (stamp.etag in (None, etag)), "an etag decides", entry)
        if not stamp.reads and stamp.etag is None and not stamp.skip_if_absent and not again and stamp.event_id not in self.judged:
            self._require(folded.status is Status.APPLIED, "what has no condition is applied", entry)
        self.judged.add(stamp.event_id)

    def _check_alone(self, entry: Entry, state: KeyState) -> None:
        """Checks that a reader of this event alone knows the head and the requests that were applied, unless a repair is due."""
        if state.due or state.document is None:
            return
        alone = KeyState()
        rules.fold(alone, entry.placed, self.context._replace(joining=True))
        same = alone.document == state.document and alone.version == state.version
        self._require(same, "a reader of the newest event alone knows the head, or a repair is due", entry)
        known = {request.request_id for request in alone.remembered}
        lacking = [request for request in state.remembered if request.request_id not in known]
        self._require(not lacking, "a reader of the newest event alone knows what was applied, or a repair is due", entry, f"{lacking}")

    def _check_truth(self, entry: Entry, before: KeyState, folded: Folded) -> None:
        key = entry.event.key
        if entry.intent is not None and (folded.status is Status.APPLIED or entry.event.stamp is None):
            truth = entry.intent.apply(self.truth[key])
            if entry.event.stamp is None and not truth and before.document is None and entry.base is not None:
                truth = None  # a broker's change to a deleted document
            self.truth[key] = truth
        head = self.heads[key].document
        if head == self.truth[key]:
            return
        if not head and not self.truth[key] and entry.event.stamp is None:
            self.counts["empty or absent"] += 1
            self.truth[key] = head
            return
        self.counts[f"undone, {self._excuse(entry, before, folded)}"] += 1
        self.truth[key] = head

    def _excuse(self, entry: Entry, before: KeyState, folded: Folded) -> str:
        """Returns why a head may differ from the truth; raises if it may not."""
        key = entry.event.key
        values = entry.intent.values if entry.intent is not None else {}
        promise = "nothing acknowledged is undone"
        if entry.event.stamp is None:
            nothing = (entry.event.document or {}) == (entry.base or {})
            if nothing and set(differing(self.heads[key].document, self.truth[key])) <= set(values):
                return "it changed nothing"
            if len(values) > 1:
                return "several settings in one write"
            if entry.base == seen_by(before.raw, entry.event.known):
                promise = "a broker that has read everything is understood"
            elif folded.unexplained:
                return "unexplained"
            elif folded.ambiguous:
                return "it changed nothing and looked like a revert" if nothing else "ambiguous"
        if entry.event.replicated or self.at_once:
            return "written in two clusters"
        self._require(False, promise, entry)
        return ""

    def _heard(self, sidecar: Sidecar, entry: Entry, state: KeyState, folded: Folded) -> None:
        """Compares a sidecar that has read an entry with the observer."""
        key = entry.event.key
        made = self.made[entry.number]
        if Status.DUPLICATE in (folded.status, made.folded.status) and folded.status is not made.folded.status:
            self.counts["repeat that some had forgotten"] += 1
            self.torn.add(key)
        if key in self.torn or not sidecar.ready(key):
            return
        same = state.document == made.document and (made.document is None or state.version == made.version)
        if state.since:
            self.counts["wrong guesses"] += not same
        elif self.kind.survivor:
            self._require(same, "all who read the same prefix agree", entry, f"{sidecar.name}: {state.document}@{state.version}")
            self._require(folded.status == made.folded.status or made.document is None, "all agree on what became of an event", entry)
        served = self.served.get((sidecar.name, key), "")
        self._require(state.version >= served or state.document is None or not self.kind.survivor, "versions only grow", entry)
        self.served[sidecar.name, key] = state.version

    # -- what must hold in the end -------------------------------------------------------------------------------------

    def _at_rest(self) -> None:
        last = self.log.entries[-1]
        alive = [sidecar for sidecar in self.sidecars if sidecar.alive]
        for key in self.keys if alive else ():
            head = self.heads[key] if self.kind.survivor else alive[0].states[key]
            self._require(not head.due, "in the end nothing is left to repair", last, f"{key}")
            self._require(head.raw == head.document, "in the end brokers show the head", last, f"{key}")
            for sidecar in alive:
                state = sidecar.states[key]
                same = state.document == head.document and (head.document is None or state.version == head.version)
                self._require(same, "in the end all agree", last, f"{sidecar.name}: {state.document}@{state.version}")
            for broker in self.brokers:
                shown = seen_by(head.document, broker.kind.known)
                self._require(broker.shown.get(key) == shown, "in the end brokers show the head", last, broker.name)
        for request in self.requests:
            self._check_answer(request)
        operations = self.counts["events"] - self.counts["repair"] - self.counts["tombstone"]
        limit = 2 * operations * len(self.sidecars)
        self._require(self.counts["repair"] + self.counts["tombstone"] <= limit, "repairs do not loop", last)

    def _check_answer(self, request: Request) -> None:
        if request.status is None:
            return
        self.counts["answered"] += 1
        self.counts["answered by guesses"] += request.guessed
        applied = self.applied.get(request.request_id)
        if request.status is Status.APPLIED:
            good = applied is not None and any(version == request.version for version, _ in applied)
        elif request.status is Status.DUPLICATE:
            good = applied is not None and request.version in ("", *(version for version, _ in applied))
        else:
            good = True
        if not good:
            last = self.log.entries[-1]
            excused = request.key in self.torn or request.guessed or not self.kind.survivor
            self._require(excused, "answers report what happened", last, f"{request}")
            self.counts["wrong answers of guesses" if request.guessed else "wrong answers"] += 1

    def _require(self, holds: bool, promise: str, entry: Entry, detail: str = "") -> None:
        if not holds:
            key = entry.event.key
            raise Broken(
                f"{promise}: {self.kind.name}, seed {self.seed}, entry {entry.number} ({detail})\n"
                f"  event {entry.event}\n  intent {entry.intent}\n"
                f"  truth {self.truth[key]}\n  head  {self.heads[key].document}@{self.heads[key].version}\n"
                f"  again: python -m tests.core.fold.model.world {self.kind.name} {self.seed}"
            )


def main(arguments: list[str]) -> None:
    """Replays one run, or many."""
    kind, first = WORLDS[arguments[0]], int(arguments[1])
    total: Counter[str] = Counter()
    for seed in range(first, int(arguments[2]) if len(arguments) > 2 else first + 1):
        total += World(kind, seed).run()
    for name, count in sorted(total.items()):
        print(f"{count:8} {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
