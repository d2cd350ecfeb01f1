"""Sidecars: they fold the log, write operations on the head that they know, and repair. They do no more than the rules demand."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from topicpolicies_server.core.fold import fold as rules
from topicpolicies_server.core.fold.fold import FoldContext, Folded, KeyState, Status
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import WHOLE, Settings, digest, whole_digest
from topicpolicies_server.core.policies.events import ABSENT, Action, Event, Position, Remembered, Stamp, StampKind

from .clock import Clock
from .intents import LIST, OBJECT, Intent
from .log import Entry, Log


@dataclass(eq=False)
class Request:
    """A request to a sidecar, and its answer."""

    key: PolicyKey
    intent: Intent
    request_id: str
    etag: bool = False
    """Whether its etag is the version that the sidecar knows."""
    skip_if_absent: bool = False
    status: Status | None = None
    """The status of its event, once the sidecar has read it; None: no answer."""
    version: Position = ""
    previous: Position = ""
    attempts: int = 0
    guessed: bool = False
    """Whether the sidecar that answered had not seen the key's history from its beginning."""


@dataclass(frozen=True)
class SidecarKind:
    """How a sidecar behaves."""

    lag: tuple[int, int] = (2, 25)
    """Milliseconds between the append of an event and its reading by the sidecar."""
    lost: float = 0.05
    """The share of events that get no acknowledgement and are published again; half of them did not arrive at first."""
    repair_after: tuple[int, int] = (20, 60)
    repair_bound: int = 250
    patience: int = 1_000
    """Milliseconds after loading for which it does not answer for a key of which documents may be unseen."""
    load: tuple[int, int] = (0, 0)
    """Milliseconds until it begins to read."""
    recalls: int = 0
    """How many entries before the compaction's end it reads as they were."""


@dataclass(eq=False)
class _InFlight:
    request: Request
    event: Event


@dataclass(eq=False)
class _Repair:
    since: int
    number: int = field(default=0)


class Sidecar:
    """One sidecar, from its start to its end."""

    def __init__(
        self,
        name: str,
        kind: SidecarKind,
        clock: Clock,
        log: Log,
        chance: random.Random,
        heard: Callable[[Sidecar, Entry, KeyState, Folded], None],
        *,
        window_ms: int,
    ) -> None:
        self.name = name
        self.kind = kind
        self.states: dict[PolicyKey, KeyState] = defaultdict(KeyState)
        self.alive = True
        self.events = 0
        self.repairs = 0
        self._ids = itertools.count(1)
        self._clock = clock
        self._log = log
        self._chance = chance
        self._heard = heard
        self._in_flight: dict[PolicyKey, list[_InFlight]] = defaultdict(list)
        self._repairs: dict[PolicyKey, _Repair] = {}
        self._published_until = self._read_until = clock.now
        self._window = window_ms
        self._paused = False
        self._patient_until = 0
        joined_at = clock.now if log.horizon else None
        self._context = FoldContext(window_ms, joining=joined_at is not None, joined_at=joined_at)
        if kind.load[1]:
            self._read_until += chance.randint(*kind.load)
        for entry in log.compacted(kind.recalls):
            self._hear(entry)
        self._loaded = self._read_until == clock.now
        self._clock.after(self._read_until - clock.now, self._caught_up)
        log.readers.append(self._hear)

    @property
    def paused(self) -> bool:
        """Whether its repairs are paused."""
        return self._paused

    def pause(self) -> None:
        """Holds back its repairs: they were paused, there are too many, or the log cannot be reached."""
        self._paused = True

    def resume(self) -> None:
        """Schedules the repairs that are due."""
        self._paused = False
        for key in list(self.states):
            self._consider(key)

    def crash(self) -> None:
        """Ends, and loses its state and the events that it has not published yet."""
        self.alive = False
        self._log.readers.remove(self._hear)

    def ready(self, key: PolicyKey) -> bool:
        """Returns whether it answers for a key."""
        if not self.alive or not self._loaded:
            return False
        return self._clock.now >= self._patient_until or self.states[key].all_seen(self._clock.now, self._window)

    def submit(self, request: Request) -> None:
        """Computes a request on the head with all that is in flight, and publishes its event."""
        if not self.ready(request.key):
            return
        state = self.states[request.key]
        first = state.remembers(request.request_id)
        if first is not None:
            request.status, request.version, request.previous = Status.DUPLICATE, first.version, first.previous
            request.guessed = state.since != ""
            return
        flying = self._in_flight[request.key]
        document = state.document
        for earlier in flying:
            document = earlier.request.intent.apply(document)
        base = flying[-1].event.stamp.event_id if flying and flying[-1].event.stamp else state.base
        intent = request.intent
        after = intent.apply(document)
        etag = None
        if request.etag:
            etag = state.version if state.document is not None else ABSENT
        reads = {OBJECT: digest((document or {}).get(OBJECT))} if intent.leaf is not None else {}
        if etag is not None and request.key.scope is Scope.GLOBAL:
            reads[WHOLE] = whole_digest(document)
        stamp = Stamp(
            event_id=f"{self.name}-{next(self._ids)}",
            kind=StampKind.DELETE if intent.delete else StampKind.UPDATE,
            request_id=request.request_id,
            digest="d",
            mask=intent.mask(),
            base=base,
            etag=etag,
            skip_if_absent=request.skip_if_absent,
            reads=reads,
            operands={LIST: (intent.operation, intent.values[LIST] or b"")} if intent.operation is not None else {},
            history=state.history,
            remembered=(*state.remembered, *(Remembered(each.request.request_id, "d", "", "") for each in flying))[-16:],
        )
        event = Event(request.key, Action.UPDATE, after if after is not None else {}, stamp)
        flying.append(_InFlight(request, event))
        self._publish(event, intent, document)

    # -- writing -------------------------------------------------------------------------------------------------------

    def _publish(self, event: Event, intent: Intent | None, base: Settings | None = None) -> None:
        at = self._clock.now
        self._published_until = max(self._published_until + 1, at + self._chance.randint(1, 6))

        def publish() -> None:
            if self.alive:
                self.events += 1
                self._log.append(event, self.name, intent, base, at)

        roll = self._chance.random()
        if roll >= self.kind.lost / 2:  # otherwise the first copy never arrives
            self._clock.after(self._published_until - at, publish)
        if roll < self.kind.lost:
            self._clock.after(self._published_until - at + 100, publish)

    def _consider(self, key: PolicyKey) -> None:
        """Schedules the repair of a key, postpones it, or drops it if none is due any more."""
        if not self._loaded or self._paused or not self.states[key].due:
            self._repairs.pop(key, None)
            return
        repair = self._repairs.setdefault(key, _Repair(self._clock.now))
        repair.number += 1
        number = repair.number
        latest = repair.since + self.kind.repair_bound - self._clock.now
        delay = max(min(self._chance.randint(*self.kind.repair_after), latest), 0)
        self._clock.after(delay, lambda: self._fire(key, number))

    def _fire(self, key: PolicyKey, number: int) -> None:
        repair = self._repairs.get(key)
        if not self.alive or self._paused or repair is None or repair.number != number:
            return
        del self._repairs[key]
        if self._in_flight[key]:
            self._consider(key)
            return
        self.repairs += 1
        event = rules.restatement(key, self.states[key], f"{self.name}-{next(self._ids)}")
        self._publish(event, None)

    # -- reading -------------------------------------------------------------------------------------------------------

    def _hear(self, entry: Entry) -> None:
        self._read_until = max(self._read_until, self._clock.now + self._chance.randint(*self.kind.lag))
        self._clock.after(self._read_until - self._clock.now, lambda: self._read(entry))

    def _caught_up(self) -> None:
        self._context = self._context._replace(joining=False)
        self._loaded = True
        self._patient_until = self._clock.now + self.kind.patience
        for key in list(self.states):
            self._consider(key)

    def _read(self, entry: Entry) -> None:
        if not self.alive:
            return
        event = entry.event
        state = self.states[event.key]
        folded = rules.fold(state, entry.placed, self._context)
        self._heard(self, entry, state, folded)
        if event.stamp is not None:
            self._answer(event, event.stamp, folded)
        self._consider(event.key)

    def _answer(self, event: Event, stamp: Stamp, folded: Folded) -> None:
        flying = self._in_flight[event.key]
        mine = next((one for one in flying if one.event.stamp is not None and one.event.stamp.event_id == stamp.event_id), None)
        if mine is None:
            return
        flying.remove(mine)
        request = mine.request
        if folded.status is Status.REJECTED_READS and request.attempts < 5:
            request.attempts += 1
            self.submit(request)
            return
        request.status, request.version, request.previous = folded.status, folded.version, folded.previous
        request.guessed = self.states[event.key].since != ""


__all__ = ["Request", "Settings", "Sidecar", "SidecarKind"]
