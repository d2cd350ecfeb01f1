"""One cluster in simulated time: the stored log of one namespace, the sidecars and brokers on it, and the history that is recorded."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable

from tests.memory_log import MemoryStorage
from tests.memory_log.ledgers import LedgeredStorage
from tests.validators.documents import Document
from tests.validators.records import Broken, Head, History, Key
from topicpolicies_server.config import Limits
from topicpolicies_server.core.fold.fold import FoldContext, KeyState, fold
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies import documents
from topicpolicies_server.core.policies.documents import Settings
from topicpolicies_server.core.policies.events import Placed, Position
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.producer_names import leader_of
from topicpolicies_server.logs.routing import partition_of

from .faults import SimulatedFaults
from .knowledge import repaired_late
from .loop import SimulatedLoop
from .profile import Profile
from .sidecar import Sidecar
from .traffic import Traffic, flat

NAMESPACE = "acme/orders"
WINDOW_MS = 4_000
"""W of the runs: longer than any broker lags and than any repair takes that is not held up."""


class Journal:
    """Follows the storage from its beginning: what the log came to. Whatever is compacted, it forgets only what everybody has forgotten."""

    def __init__(self, context: FoldContext, knows: Callable[[int, Position], bool]) -> None:
        """``knows``: whether anybody is there who has read, or will read, an entry of a partition that a compaction has erased."""
        self.entries: list[tuple[float, Placed]] = []
        self.heads: list[Head] = []
        self.counts: Counter[str] = Counter()
        self.stale: list[Placed] = []
        """Changes that brokers, who apply documents as they come, show otherwise than they are."""
        self.misleading: set[tuple[int, Position]] = set()
        """The places of events that tell something else than the head, to whoever sees nothing else of the key."""
        self._due: dict[PolicyKey, list[tuple[int, bool]]] = {}
        """By key: when it was written (ms), and whether a repair was due then."""
        self._context = context
        self._knows = knows
        self._erased: dict[PolicyKey, Placed] = {}
        self._remembered: set[PolicyKey] = set()
        """Keys that began anew behind a deletion that the log does not tell any more, and somebody still knows."""
        """Deleted keys of which the log tells nothing any more, each with the last that it told."""
        self._states: dict[PolicyKey, KeyState] = {}

    @property
    def repair_due(self) -> bool:
        """Whether somebody who sees only the newest event of a key would get something else than its head."""
        return any(state.due for state in self._states.values())

    def heard_of(self, key: PolicyKey) -> bool:
        """Whether the log ever told anything of a key."""
        return key in self._states

    def repair_was_due(self, before: int) -> bool:
        """The same, if there were only what was written before a time (ms)."""
        newest = ([due for at, due in moments if at < before][-1:] for moments in self._due.values())
        return any(due for (due,) in filter(None, newest))

    def erased(self, key: PolicyKey, tombstone: Placed) -> None:
        """A compaction took away a tombstone, and the log tells nothing of its key any more."""
        self._erased[key] = tombstone

    def show(self, placed: Placed) -> None:
        """Takes an entry that was stored."""
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
                self.counts["keys that everybody had forgotten"] += 1
        state = self._states.setdefault(event.key, KeyState())
        folded = fold(state, placed, self._context)
        self._due.setdefault(event.key, []).append((placed.published_at, state.due))
        if state.due:
            self.misleading.add((placed.partition, placed.position))
        else:
            self._remembered.discard(event.key)
        counts = self.counts
        counts[f"events {folded.status.value}"] += 1
        counts["events of a stale base"] += folded.stale
        counts["events unexplained"] += folded.unexplained
        counts["events ambiguous"] += folded.ambiguous
        if folded.changed:
            if state.due and state.document is not None:
                # A leader that reads the log behind such a deletion can't tell of its request. Whoever knows it does, in a repair.
                if event.key in self._remembered and state.document == event.document:
                    counts["allowed because a deletion was compacted away: its request is not told of by what follows"] += 1
                else:
                    self.stale.append(placed)
            request_id = event.stamp.request_id if event.stamp is not None else ""
            document = document_of(state.document)
            self.heads.append(Head(record_key(event.key), folded.version, folded.previous, document, at, request_id))

    def lose(self, error: LogError) -> None:
        """Is no process that could lose it."""


class World:
    """What everybody in a run shares."""

    def __init__(self, profile: Profile, chance: random.Random) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        self.loop = loop
        self.profile = profile
        self.chance = chance
        self.counts: Counter[str] = Counter()
        self.broken: list[Broken] = []
        """What was found out about promises on the way."""
        self.trace: list[tuple[float, str, str]] = []
        """What happened besides calls: time, who, what."""
        self.storage = (LedgeredStorage if profile.ledgers else MemoryStorage)(partitions=profile.partitions, now=loop.milliseconds)
        self.stored = self.storage.namespace(NAMESPACE)
        self.journal = Journal(FoldContext(window_ms=WINDOW_MS, sole_writer=profile.sole_writer), self._anybody_knows)
        self.stored.followers.append(self.journal)
        self.traffic = Traffic(random.Random(chance.getrandbits(64)), profile.deletes)
        self.keys = [
            Key(f"persistent://{NAMESPACE}/topic-{number}", scope)
            for number in range(profile.topics)
            for scope in ((1, 2) if profile.both_scopes and number == 0 else (1,))
        ]
        partitions = {key: partition_of(policy_key(key), profile.partitions) for key in self.keys}
        self.history = History(partitions=partitions, led=profile.exclusive)
        self.healed = False
        """Whether everything goes well from now on."""
        self.resting = asyncio.Event()
        """Set when nothing is asked any more and everything has come to rest."""
        self.orphans: dict[Key, float] = {}
        """Keys of which nobody alive has seen everything, in a log that was compacted, and since when."""
        self.acknowledged: set[tuple[Key, str]] = set()
        """Changes that newcomers acknowledged: by key and request."""
        self.once: set[tuple[Key, str]] = set()
        """Requests that nobody repeats."""
        self.sidecars = [self._sidecar(f"sidecar-{number}") for number in range(profile.sidecars)]
        """Those that clients call."""
        self.newcomers: list[Sidecar] = []
        """Those that started in the middle."""
        self._named = len(self.sidecars)

    def now(self) -> float:
        """Seconds since the run began."""
        return self.loop.time()

    @property
    def everybody(self) -> list[Sidecar]:
        """All sidecars that there are."""
        return [*self.sidecars, *self.newcomers]

    @property
    def survivor(self) -> Sidecar | None:
        """Who lives all along where repairs are delayed, and so has seen everything."""
        return self.sidecars[0] if self.profile.delayed and self.profile.survivor else None

    @property
    def leader(self) -> Sidecar | None:
        """Who takes itself for the leader; of several the one whose place it is."""
        leading = [sidecar for sidecar in self.sidecars if sidecar.leads(NAMESPACE)]
        holder = self.stored.seats[0].holder
        return next((each for each in leading if holder is not None and leader_of(holder.name) == each.name), next(iter(leading), None))

    def note(self, who: str, what: str) -> None:
        """Puts something into the trace."""
        self.trace.append((self.now(), who, what))

    async def pause(self, mean: float | None = None) -> None:
        """A pause of a random length."""
        if mean is None and self.profile.lulls and not self.healed and self.chance.random() < self.profile.lulls:
            await asyncio.sleep(self.chance.uniform(0, 1.5 * WINDOW_MS / 1000))
        await asyncio.sleep(self.chance.expovariate(1 / (self.profile.seconds_per_pause if mean is None else mean)))

    def heal(self) -> None:
        """From now on nothing goes wrong."""
        self.healed = True
        for sidecar in self.everybody:
            if sidecar.running:
                sidecar.faults.heal()
                sidecar.resume_repairs()

    def note_orphans(self) -> None:
        """Notes of which keys nobody alive has seen everything. To be called when somebody has died, and when the log was compacted."""
        for key in self.keys if self.profile.delayed and self.survivor is None else ():
            told = self.journal.heard_of(policy_key(key)) and self.stored.compacted[self.history.partitions[key]] != ""
            if told and key not in self.orphans and not any(sidecar.knows(policy_key(key)) for sidecar in self.everybody):
                self.orphans[key] = self.now()
                self.note("world", f"nobody alive has seen everything of {key}")

    def _anybody_knows(self, partition: int, position: Position) -> bool:
        """Whether somebody opened the log before a compaction erased an entry, and has it open still."""
        logs = (each.log.opened(NAMESPACE) for each in self.everybody if each.running and each.log.has_open(NAMESPACE))
        return any(position > (log.complete_after(partition) or "") for log in logs)

    def note_opening(self) -> None:
        """A sidecar begins to read the log."""
        self.counts["openings of a log that was compacted"] += any(self.stored.compacted)
        self.counts["joins between a late repair and a compaction"] += repaired_late(self.stored, self.journal.misleading, WINDOW_MS)

    def replacement(self) -> Sidecar:
        """One more sidecar, which has seen nothing yet."""
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
            # Nothing is told that is a guess yet. Where one writes at a time it may be: it turns out to be right.
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
            (NAMESPACE,) if self.profile.guard or delayed else (),  # who is to see everything must have it loaded
            exclusive=self.profile.exclusive,
            checkpoints=self.profile.checkpoints,
            opened=self.note_opening if delayed else None,
        )


def policy_key(key: Key) -> PolicyKey:
    """A recorded key in the service's own terms."""
    return PolicyKey(key.topic, Scope(key.scope))


def record_key(key: PolicyKey) -> Key:
    """A key as it is recorded."""
    return Key(key.topic, int(key.scope))


def document_of(settings: Settings | None) -> Document | None:
    """A document as it is recorded."""
    return None if settings is None else flat(documents.join(settings))
