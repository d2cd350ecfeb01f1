"""One cluster in simulated time: the stored log of one namespace, the sidecars and brokers on it, and the recorded history."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable

from tests.logs.routing import partition_of
from tests.memory_log import MemoryStorage
from tests.memory_log.ledgers import LedgeredStorage
from tests.validators.documents import Document, Edit
from tests.validators.records import Broken, ForgottenDeletion, Head, History, Key
from topicpolicies_server.config import Limits
from topicpolicies_server.core.fold.fold import FoldContext, KeyState, fold
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies import documents
from topicpolicies_server.core.policies.events import Event, Placed, Position
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.leadership import leader_of

from .faults import SimulatedFaults
from .loop import SimulatedLoop
from .profile import Profile
from .promises import repaired_late
from .sidecar import Sidecar
from .traffic import Traffic, flat

NAMESPACE = "acme/orders"
WINDOW_MS = 4_000
"""W of the runs: longer than any broker lags, and than any repair takes that is not delayed on purpose."""


class Journal:
    """Folds the log from its beginning. After a compaction it forgets only what every sidecar has forgotten."""

    def __init__(self, context: FoldContext, knows: Callable[[int, Position], bool]) -> None:
        """``knows``: whether some sidecar has read, or will read, an entry of a partition that a compaction has erased."""
        self.entries: list[tuple[float, Placed]] = []
        self.heads: list[Head] = []
        self.counts: Counter[str] = Counter()
        self.stale: list[Placed] = []
        """Changes of which brokers, which apply documents as they arrive, show another document than the fold."""
        self.forgotten: list[ForgottenDeletion] = []
        """Deletions that every sidecar had forgotten before the key's next event came."""
        self.misleading: set[tuple[int, Position]] = set()
        """The places of events whose document is not the head: misleading for a reader that sees no other event of the key."""
        self._due: dict[PolicyKey, list[tuple[int, bool]]] = {}
        """By key: the times (ms) of its events, each with whether a repair was due after it."""
        self._context = context
        self._knows = knows
        self._erased: dict[PolicyKey, Placed] = {}
        """Deleted keys of which the log has no event any more, each with its last one, the tombstone."""
        self._remembered: set[PolicyKey] = set()
        """Keys that were created again after a deletion that is not in the log any more but that some sidecar still knows."""
        self._states: dict[PolicyKey, KeyState] = {}

    @property
    def repair_due(self) -> bool:
        """Whether a reader that sees only the newest event of some key would take something else than its head."""
        return any(state.repair_due for state in self._states.values())

    def has_had(self, key: PolicyKey) -> bool:
        """Whether the log ever had an event of a key."""
        return key in self._states

    def stated(self, key: PolicyKey, version: Position) -> Position:
        """Returns where the log states a version of a key last: the position of its event, or of a later event that restates it."""
        restating = (placed.position for _, placed in self.entries if _restates(placed.event, key, version))
        return max(restating, default=version)

    def repair_was_due(self, before: int) -> bool:
        """The same, with only the events that were published before a time (ms)."""
        newest = ([due for at, due in moments if at < before][-1:] for moments in self._due.values())
        return any(due for (due,) in filter(None, newest))

    def erased(self, key: PolicyKey, tombstone: Placed) -> None:
        """Notes that a compaction erased a tombstone, and that the log has no event of its key any more."""
        self._erased[key] = tombstone

    def show(self, placed: Placed) -> None:
        """Folds an entry that was stored."""
        at = asyncio.get_running_loop().time()
        self.entries.append((at, placed))
        event = placed.event
        if event is None:
            return
        gone = self._erased.pop(event.key, None)
        if gone is not None:
            if self._knows(gone.partition, gone.position):
                self._remembered.add(event.key)
            else:
                del self._states[event.key]
                self.forgotten.append(ForgottenDeletion(record_key(event.key), gone.position, placed.position))
                self.counts["keys that everybody had forgotten"] += 1
        state = self._states.setdefault(event.key, KeyState())
        folded = fold(state, placed, self._context)
        self._due.setdefault(event.key, []).append((placed.published_at, state.repair_due))
        if state.repair_due:
            self.misleading.add((placed.partition, placed.position))
        elif state.document is not None:  # another deletion tells of no request
            self._remembered.discard(event.key)
        counts = self.counts
        counts[f"events {folded.status.value}"] += 1
        counts["events of a stale base"] += folded.stale
        counts["events unexplained"] += folded.unexplained
        counts["events ambiguous"] += folded.ambiguous
        if folded.changed:
            if state.repair_due and state.document is not None:
                # A leader that began to read the log after such a deletion does not know its request. Another sidecar restates it.
                if event.key in self._remembered and state.document == event.document:
                    counts["allowed by a documented limit: its request is not told of by what follows"] += 1
                else:
                    self.stale.append(placed)
            request_id = event.stamp.request_id if event.stamp is not None else ""
            document = document_of(state.document)
            informed = event.stamp is None or event.stamp.history is None or not event.stamp.history.since
            self.heads.append(Head(record_key(event.key), folded.version, folded.previous, document, at, request_id, informed))

    def lose(self, error: LogError) -> None:
        """Does nothing: the journal is not a process, and can't lose its log."""


def _restates(event: Event | None, key: PolicyKey, version: Position) -> bool:
    return event is not None and event.key == key and event.stamp is not None and event.stamp.head_version == version


class World:
    """What all participants of a run share."""

    def __init__(self, profile: Profile, chance: random.Random) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        self.loop = loop
        self.profile = profile
        self.chance = chance
        self.counts: Counter[str] = Counter()
        self.broken: list[Broken] = []
        """Promises that were found broken during the run."""
        self.trace: list[tuple[float, str, str]] = []
        """What happened apart from calls: time, participant, what."""
        self.storage = (LedgeredStorage if profile.ledgers else MemoryStorage)(partitions=profile.partitions, now=loop.milliseconds)
        self.storage.in_place = profile.in_place
        self.stored = self.storage.namespace(NAMESPACE)
        self.journal = Journal(FoldContext(WINDOW_MS, sole_writer=profile.sole_writer, in_place=profile.in_place), self._is_known)
        self.stored.followers.append(self.journal)
        self.traffic = Traffic(random.Random(chance.getrandbits(64)), profile.deletes)
        self.keys = [
            Key(f"persistent://{NAMESPACE}/topic-{number}", scope)
            for number in range(profile.topics)
            for scope in ((1, 2) if profile.both_scopes and number == 0 else (1,))
        ]
        partitions = {key: partition_of(policy_key(key), profile.partitions) for key in self.keys}
        self.history = History(partitions=partitions, led=profile.exclusive, in_place=profile.in_place)
        self.healed = False
        """Whether the faults have ended."""
        self.resting = asyncio.Event()
        """Set when all requests have ended and the cluster has come to rest."""
        self.orphans: dict[Key, float] = {}
        """Keys of which no live sidecar has seen all events, in a log that was compacted, and since when."""
        self.acknowledged: set[tuple[Key, str]] = set()
        """Changes that newcomers acknowledged, by key and request id."""
        self.calls: list[tuple[Key, Edit]] = []
        """What was called for at brokers that change their documents in place, in order."""
        self.once: set[tuple[Key, str]] = set()
        """Requests that no client repeats."""
        self.sidecars = [self._sidecar(f"sidecar-{number}") for number in range(profile.sidecars)]
        """The sidecars that clients call."""
        self.newcomers: list[Sidecar] = []
        """The sidecars that started in the middle of the run."""
        self._named = len(self.sidecars)

    def now(self) -> float:
        """Seconds since the run began."""
        return self.loop.time()

    @property
    def all_sidecars(self) -> list[Sidecar]:
        """All sidecars."""
        return [*self.sidecars, *self.newcomers]

    @property
    def survivor(self) -> Sidecar | None:
        """The sidecar that runs all the time in a profile with delayed repairs, and so has seen all events."""
        return self.sidecars[0] if self.profile.delayed and self.profile.survivor else None

    @property
    def leader(self) -> Sidecar | None:
        """The sidecar that believes it leads; of several, the one that holds the seat."""
        leading = [sidecar for sidecar in self.sidecars if sidecar.leads(NAMESPACE)]
        holder = self.stored.seats[0].holder
        return next((each for each in leading if holder is not None and leader_of(holder.name) == each.name), next(iter(leading), None))

    def note(self, who: str, what: str) -> None:
        """Adds a line to the trace."""
        self.trace.append((self.now(), who, what))

    async def pause(self, mean: float | None = None) -> None:
        """Pauses for a random time."""
        if mean is None and self.profile.lulls and not self.healed and self.chance.random() < self.profile.lulls:
            await asyncio.sleep(self.chance.uniform(0, 1.5 * WINDOW_MS / 1000))
        await asyncio.sleep(self.chance.expovariate(1 / (self.profile.seconds_per_pause if mean is None else mean)))

    def heal(self) -> None:
        """Ends all faults."""
        self.healed = True
        for sidecar in self.all_sidecars:
            if sidecar.running:
                sidecar.faults.heal()
                sidecar.resume_repairs()

    def note_orphans(self) -> None:
        """Notes of which keys no live sidecar has seen all events. To be called when a sidecar has ended, and after a compaction."""
        for key in self.keys if self.profile.delayed and self.survivor is None else ():
            affected = self.journal.has_had(policy_key(key)) and self.stored.compacted[self.history.partitions[key]] != ""
            if affected and key not in self.orphans and not any(sidecar.knows(policy_key(key)) for sidecar in self.all_sidecars):
                self.orphans[key] = self.now()
                self.note("world", f"no live sidecar has seen all events of {key}")

    def _is_known(self, partition: int, position: Position) -> bool:
        """Whether some sidecar opened the log before a compaction erased an entry, and still has it open."""
        logs = (each.log.opened(NAMESPACE) for each in self.all_sidecars if each.running and each.log.has_open(NAMESPACE))
        return any(position > (log.complete_after(partition) or "") for log in logs)

    def note_opening(self) -> None:
        """Counts that a sidecar begins to read the log."""
        self.counts["openings of a log that was compacted"] += any(self.stored.compacted)
        self.counts["joins between a late repair and a compaction"] += repaired_late(self.stored, self.journal.misleading, WINDOW_MS)

    def replacement(self) -> Sidecar:
        """Returns one more sidecar, which has seen nothing yet."""
        self._named += 1
        return self._sidecar(f"sidecar-{self._named - 1}")

    def _sidecar(self, name: str) -> Sidecar:
        chance = random.Random(self.chance.getrandbits(64))

        def make_faults() -> SimulatedFaults:
            faults = SimulatedFaults(self.profile, random.Random(chance.getrandbits(64)), self.counts, most_late=2 * WINDOW_MS / 1000)
            if self.healed:
                faults.heal()
            return faults

        delayed = self.profile.delayed
        limits = Limits(
            max_in_flight_per_key=chance.choice((1, 2, 4, 16)),
            max_every_backlog_changes=chance.choice((4, 16, 64)),
            update_timeout_seconds=chance.choice((0.3, 1.0, 3.0)),
            load_timeout_seconds=chance.choice((1.0, 5.0)),
            load_retry_seconds=2.0,
            namespace_idle_seconds=chance.choice((0.5, 2.0)),
            drain_seconds=1.0,
            # Long enough that guesses are not shown. With one writer at a time they may be, because they turn out to be right.
            join_patience_seconds=0.1 if self.profile.exclusive else chance.choice((0.0, 1.0, 120.0)) if delayed else 120.0,
            max_repairs_per_second=chance.choice((0.5, 2.0, 500.0)) if delayed else 500.0,
        )
        return Sidecar(
            name,
            self.storage,
            limits,
            FoldContext(window_ms=WINDOW_MS, sole_writer=self.profile.sole_writer),
            make_faults,
            chance,
            self.counts,
            (NAMESPACE,) if self.profile.guard or delayed else (),  # to see all events, a sidecar must keep the namespace loaded
            exclusive=self.profile.exclusive,
            checkpoints=self.profile.checkpoints,
            opened=self.note_opening if delayed else None,
        )


def policy_key(key: Key) -> PolicyKey:
    """Returns a recorded key as the service's type."""
    return PolicyKey(key.topic, Scope(key.scope))


def record_key(key: PolicyKey) -> Key:
    """Returns a key of the service as it is recorded."""
    return Key(key.topic, int(key.scope))


def document_of(settings: documents.Document | None) -> Document | None:
    """Returns a document of the service as it is recorded."""
    return None if settings is None else flat(documents.join(settings))
