"""One run: everything that happens follows from the profile and the seed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.validators import judge
from tests.validators.records import Answer, Broken, History
from topicpolicies_server.core.policies.events import Placed

from . import promises
from .broker import OLDER, Broker
from .calls import Refused
from .clients import BatchWriter, Client, Passerby, Reader, Writer
from .delays import Delays
from .loop import SimulatedLoop
from .nemesis import Nemesis
from .profile import PROFILES, Profile, varied
from .sidecar import Sidecar
from .traffic import Wish
from .watchers import Watcher
from .world import NAMESPACE, WINDOW_MS, World

_REST_SECONDS = 8.0
"""How long nothing is requested and nothing fails at the end: longer than any load, repair, or interval of bookmarks."""

_UNANSWERED_SECONDS = 12.0
"""How much longer on a log of ledgers: longer than a reader pauses between two requests without an answer (10 s)."""

_REPAIRED_SECONDS = 2 * WINDOW_MS / 1000 + 1
"""How long the repairs take of documents that were guesses when they were loaded."""

_LOADING_TRIES = 20
"""How often, 0.1 s apart, a document is requested until a sidecar has loaded it."""

_LATE_SECONDS = 6 * WINDOW_MS / 1000
"""How much longer with delayed repairs: longer than any of them is late, and than publishing them two seconds apart takes."""

_TAKEN_SECONDS = 20.0
"""How long after the faults have ended a leader must accept updates."""


@dataclass(frozen=True, slots=True)
class Run:
    """The results of one run."""

    profile: Profile
    seed: int
    history: History
    counts: Counter[str]
    trace: list[tuple[float, str, str]]
    entries: list[tuple[float, Placed]]
    """Every entry that was ever in the log, and when it was stored."""
    broken: list[Broken]
    seconds: float
    """The length of the run in simulated time."""

    @property
    def command(self) -> str:
        """The command that replays this run."""
        return f"python -m tests.simulation --profile {self.profile.name} --seed {self.seed}"


def rest_seconds(profile: Profile) -> float:
    """Returns how many seconds nothing is requested and nothing fails at the end of a run."""
    return _REST_SECONDS + (_LATE_SECONDS if profile.delayed else 0) + (_UNANSWERED_SECONDS if profile.ledgers else 0)


def run(profile_name: str, seed: int) -> Run:
    """Makes one run and judges it.

    Raises:
        Stuck: the run came to a standstill.
    """
    chance = random.Random(f"{profile_name} {seed}")
    profile = varied(PROFILES[profile_name], chance)
    loop = SimulatedLoop(random.Random(chance.getrandbits(64)), busy=profile.busy)
    with _quiet(), _seeded(f"{profile_name} {seed}"):
        world = loop.run(_live(profile, chance))
    judgement = judge(world.history)
    world.counts.update({f"allowed by a documented limit: {what}": count for what, count in judgement.allowed.items()})
    broken = judgement.broken + world.broken
    broken += [Broken(f"no code handled an exception: {context}") for context in loop.failures]
    return Run(profile, seed, world.history, world.counts, world.trace, world.journal.entries, broken, loop.time())


async def _live(profile: Profile, chance: random.Random) -> World:
    world = World(profile, chance)

    def own() -> random.Random:
        return random.Random(chance.getrandbits(64))

    for sidecar in world.sidecars:
        sidecar.start()
    brokers = [Broker(world, f"broker-{number}", own(), chained=True) for number in range(profile.chained_brokers)]
    brokers += [Broker(world, f"old-broker-{number}", own(), chained=False) for number in range(profile.racing_brokers)]
    brokers += [Broker(world, f"older-broker-{number}", own(), chained=True, known=OLDER) for number in range(profile.older_brokers)]
    watchers = [Watcher(world, f"watcher-{number}", own()) for number in range(profile.watchers)]
    watching = [asyncio.create_task(watcher.run()) for watcher in watchers]
    async with asyncio.TaskGroup() as group:
        for number in range(profile.writers):
            group.create_task(Writer(world, f"writer-{number}", own()).run(profile.updates))
        for number in range(profile.batchers):
            group.create_task(BatchWriter(world, f"batcher-{number}", own()).run(max(1, profile.updates // 3)))
        for number in range(profile.readers):
            group.create_task(Reader(world, f"reader-{number}", own()).run(profile.updates))
        for broker in brokers:
            group.create_task(broker.run(profile.updates))
        group.create_task(Nemesis(world, own()).run(profile.steps))
        if profile.delayed:
            group.create_task(Delays(world, own(), brokers).run(profile.delays))
            group.create_task(Passerby(world, "passer-by", own()).run(2 * profile.updates if profile.writers else 0))
    world.heal()
    await _load(world, world.all_sidecars)
    await asyncio.sleep(rest_seconds(profile))
    if profile.exclusive:
        await _be_led(world, own())
    world.resting.set()
    await asyncio.gather(*watching)
    await _look_at_the_end(world, own())
    await asyncio.sleep(_REPAIRED_SECONDS)
    if profile.delayed:
        await _look(world, Client(world, "last-inspector", own()))
    for broker in brokers:
        broker.final()
    for sidecar in world.all_sidecars:
        await sidecar.stop()
    _finish_history(world)
    return world


def _finish_history(world: World) -> None:
    history, counts = world.history, world.counts
    history.heads = world.journal.heads
    history.forgotten_deletions = world.journal.forgotten
    counts.update(world.journal.counts)
    acknowledged = {
        (update.key, update.request_id) for update in history.updates if isinstance(update.answer, Answer) and not update.answer.replayed
    }
    applied = {(head.key, head.request_id) for head in history.heads if head.request_id}
    counts["requests applied without their client being told"] = len(applied - acknowledged)
    if world.profile.delayed:
        counts["runs with joins between a late repair and a compaction"] = counts["joins between a late repair and a compaction"] > 0
        world.broken += promises.acknowledged_is_there(history, world.acknowledged)
        world.broken += promises.all_agree(promises.leave_out_orphans(history, world.orphans, counts))
    world.broken += promises.calls_are_there(history, world.calls)
    if world.profile.exclusive:
        entries = [placed for _, placed in world.journal.entries]
        counts.update(promises.counts_of(history, entries))
        world.broken += promises.written_in_turns(entries)
        world.broken += promises.nothing_is_stale(world.journal.stale)
        world.broken += promises.turned_away_leave_no_trace(history)


async def _be_led(world: World, chance: random.Random) -> None:
    """Checks that an update is accepted in the end, whichever sidecar the client calls first."""
    for sidecar in world.sidecars:
        client = Writer(world, f"asking-{sidecar.name}", chance)
        wish, until = Wish(world.keys[0], world.traffic.setting(), client.request_id()), world.now() + _TAKEN_SECONDS
        answer = await client.insist(wish, first=sidecar)
        while not isinstance(answer, Answer) and world.now() < until:
            answer = await client.insist(wish)
        if not isinstance(answer, Answer):
            world.broken.append(promises.Unled(f"asked through {sidecar.name} first: {answer}"))
    await asyncio.sleep(3.0)  # for the followers, and for their bookmarks


async def _load(world: World, sidecars: Iterable[Sidecar]) -> None:
    """Has sidecars load every document beside brokers that race, and does not judge what they answer.

    Of what a compaction has left, the first answer may be a guess, until a sidecar that has seen more repairs it (docs/writers.md).
    """
    for sidecar in sidecars if world.profile.racing_brokers else ():
        for key in world.keys:
            for _ in range(_LOADING_TRIES):
                with contextlib.suppress(Refused):
                    await sidecar.read(key, "")
                    break
                await asyncio.sleep(0.1)


async def _look_at_the_end(world: World, chance: random.Random) -> None:
    """Reads every document from every sidecar, and from one that starts only now: all must show the same."""
    client = Client(world, "inspector", chance)
    await _look(world, client)
    if world.profile.sole_writer:
        (only,) = world.sidecars
        await asyncio.sleep(1.0)  # for repairs that became due when the namespace was loaded
        await only.stop()
        world.storage.compact(NAMESPACE, deletions_kept=not world.profile.forgets_deletions)
        only.start()
    else:
        only = world.replacement()
        only.start()
        world.sidecars.append(only)
    only.faults.heal()
    await _load(world, (only,))
    await asyncio.sleep(_REPAIRED_SECONDS if world.profile.racing_brokers else 0)
    for key in world.keys:
        await client.read(key, sidecar=only, final=True)


async def _look(world: World, client: Client) -> None:
    """Reads every document from every sidecar."""
    for sidecar in world.all_sidecars:
        for key in world.keys:
            await client.read(key, sidecar=sidecar, final=True)


@contextlib.contextmanager
def _seeded(seed: str) -> Iterator[None]:
    """Seeds the module ``random`` too, which decides how long a candidate for leadership pauses."""
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences the service's warnings: the faults of a run are intended."""
    logger = logging.getLogger("topicpolicies_server")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
