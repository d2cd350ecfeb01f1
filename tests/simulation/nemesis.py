"""Faults of processes and of whole logs: crashes, lost logs, compactions at a bad time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tests.memory_log import Channel

from .compaction import Compaction
from .sidecar import Sidecar
from .world import NAMESPACE, World


class Nemesis:
    """Causes one fault after the other."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self._world = world
        self._chance = chance
        self._compaction = Compaction(world, chance)
        profile = world.profile
        acts: tuple[tuple[float, Callable[[], Awaitable[None]]], ...] = (
            (profile.crash, self._crash),
            (profile.restart, self._restart),
            (profile.lose, self._lose),
            (profile.compact, self._compaction.strike),
            (profile.gap, self._gap),
            (profile.unreadable, self._unreadable),
            (profile.stall, self._stall),
            (profile.fence, self._fence),
            (profile.isolate, self._isolate),
            (profile.suspend, self._suspend),
            (profile.compact_takeover, self._compact_takeover),
            (profile.compact_crash, self._compact_crash),
            (profile.compact_deletion, self._compact_deletion),
            (profile.overtake, self._overtake),
        )
        self._acts = [(weight, act) for weight, act in acts if weight > 0]

    async def run(self, steps: int) -> None:
        """Causes this many faults, and then starts all sidecars that do not run."""
        for _ in range(steps if self._acts else 0):
            await self._world.pause(0.15)
            weights = [weight for weight, _ in self._acts]
            ((_, act),) = self._chance.choices(self._acts, weights)
            await act()
        for sidecar in self._world.all_sidecars:
            if not sidecar.running:
                sidecar.start()

    def _running(self) -> Sidecar | None:
        running = [sidecar for sidecar in self._world.all_sidecars if sidecar.running]
        return self._chance.choice(running) if running else None

    def _victim(self) -> Sidecar | None:
        """Returns a sidecar that need not run all the time: if there is a leader, mostly that."""
        leader = self._world.leader
        if leader is not None and self._chance.random() < 0.7:
            return leader
        mortal = [sidecar for sidecar in self._world.all_sidecars if sidecar.running and sidecar is not self._world.survivor]
        return self._chance.choice(mortal) if mortal else None

    async def _crash(self) -> None:
        sidecar = self._victim()
        if sidecar is not None:
            self._world.counts["leaders killed"] += sidecar.leads(NAMESPACE)
            if self._chance.random() < 0.7:
                await self._until_busy(sidecar)
            if not sidecar.running:
                return  # another task has ended it
            self._world.note(sidecar.name, "crashes")
            await sidecar.crash()
            self._world.note_orphans()
            await self._world.pause(0.1)
            self._start_again(sidecar)

    async def _until_busy(self, sidecar: Sidecar) -> None:
        """Waits, not for long, until an append is in flight."""
        for _ in range(200):
            if sidecar.in_flight:
                return
            await asyncio.sleep(0.001)

    async def _restart(self) -> None:
        sidecar = self._victim()
        if sidecar is not None:
            self._world.counts["leaders stopped gracefully"] += sidecar.leads(NAMESPACE)
            self._world.note(sidecar.name, "stops gracefully")
            self._world.counts["graceful restarts"] += 1
            await sidecar.stop()
            self._world.note_orphans()
            self._start_again(sidecar)

    def _start_again(self, sidecar: Sidecar) -> None:
        """Starts a sidecar, unless it was removed or started meanwhile."""
        if sidecar in self._world.all_sidecars and not sidecar.running:
            sidecar.start()
            self._world.note(sidecar.name, "is started again")

    async def _compact_crash(self) -> None:
        """Holds up a sidecar's answers, compacts the log and crashes the sidecar: its requests are repeated only after the compaction."""
        sidecar = self._victim()
        if sidecar is None:
            return
        await self._until_busy(sidecar)
        if not (sidecar.running and sidecar.log.has_open(NAMESPACE)):
            return
        log = sidecar.log.opened(NAMESPACE)
        channels: list[Channel[Any]] = [*log.answers, *log.reads]
        for channel in channels:
            channel.hold()
        await asyncio.sleep(self._chance.uniform(0.01, 0.1))
        self._world.counts["crashes right after a compaction"] += 1
        await self._compaction.strike(wholly=True)
        if sidecar.running:
            await sidecar.crash()
            self._start_again(sidecar)

    async def _compact_deletion(self) -> None:
        """Compacts the log as soon as a key is deleted, and then mostly crashes a sidecar."""
        for _ in range(1_000):
            if self._compaction.would_erase():
                break
            await asyncio.sleep(0.001)
        await self._compaction.strike(wholly=True)
        sidecar = self._victim()
        if sidecar is not None and self._chance.random() < 0.8:
            await sidecar.crash()
            self._start_again(sidecar)

    async def _overtake(self) -> None:
        """Compacts the log while sidecars read nothing, so that a compaction erases what they have not read."""
        world = self._world
        behind = [each for each in world.sidecars if each.running and each.log.has_open(NAMESPACE)]
        if len(behind) > 1 and self._chance.random() < 0.6:
            behind = [self._chance.choice(behind)]
        channels: list[Channel[Any]] = [channel for sidecar in behind for channel in sidecar.log.opened(NAMESPACE).reads]
        for channel in channels:
            channel.hold()
        before = world.counts["compactions"]
        for _ in range(self._chance.choice((1, 20, 60))):
            await world.pause(0.03)
            await self._compaction.strike(wholly=self._chance.random() < 0.7)
        world.counts["compactions of what sidecars had not read"] += any(channel.waiting for channel in channels) and (
            world.counts["compactions"] > before
        )
        await world.pause(0.2)
        for channel in channels:
            channel.release()

    async def _lose(self) -> None:
        survivor = self._world.survivor
        if survivor is not None and not survivor.has_read_what_is_compacted(NAMESPACE):
            return  # after opening the log again it would not have seen all events
        self._world.note("log", "is lost for all its readers")
        self._world.counts["logs lost"] += 1
        self._world.storage.lose(NAMESPACE)

    async def _gap(self) -> None:
        self._world.counts["gaps"] += 1
        self._world.storage.skip(NAMESPACE, partition=self._partition(), count=self._chance.randint(1, 3))

    async def _unreadable(self) -> None:
        self._world.counts["unreadable entries"] += 1
        self._world.storage.write_unreadable(NAMESPACE, partition=self._partition())

    def _partition(self) -> int:
        return self._chance.randrange(self._world.profile.partitions)

    async def _stall(self) -> None:
        sidecar = self._running()
        if sidecar is None or not sidecar.log.has_open(NAMESPACE):
            return
        log = sidecar.log.opened(NAMESPACE)
        stallable: dict[str, Sequence[Channel[Any]]] = {"reads": log.reads, "answers": log.answers, "appends": log.appends}
        which, channels = self._chance.choice(list(stallable.items()))
        self._world.note(sidecar.name, f"its {which} stall")
        self._world.counts[f"stalls of {which}"] += 1
        for channel in channels:
            channel.hold()
        await asyncio.sleep(self._chance.uniform(0.05, 1.5))
        for channel in channels:
            channel.release()

    # --- faults of the leader of an exclusive log --------------------------------------------------------------------

    async def _fence(self) -> None:
        """Cuts the leader's connection to the log."""
        await self._fenced()

    async def _fenced(self) -> Sidecar | None:
        """Cuts the leader's connection, mostly while it writes, and returns the leader."""
        leader = self._world.leader
        if leader is None:
            return None
        if self._chance.random() < 0.8:
            await self._until_busy(leader)
        log = leader.led_log(NAMESPACE)
        if log is None:
            return None
        self._world.note(leader.name, f"loses its connection, with {log.in_flight} events in flight")
        self._world.counts["leaders fenced"] += 1
        self._world.counts["leaders fenced in the middle of a batch"] += log.in_flight > 1
        log.cut(answers=self._chance.random() < 0.5)
        return leader

    async def _isolate(self) -> None:
        """Holds up all that passes between the leader and the log, but not its clients. Another sidecar can lead before it notices."""
        leader = self._world.leader
        log = leader.led_log(NAMESPACE) if leader is not None else None
        if leader is None or log is None:
            return
        if self._chance.random() < 0.5:
            await self._until_busy(leader)
        self._world.note(leader.name, "is cut off from the log")
        self._world.counts["leaders isolated"] += 1
        channels: list[Channel[Any]] = [*log.appends, *log.answers, *log.reads]
        for channel in channels:
            channel.hold()
        await asyncio.sleep(self._chance.uniform(0.01, self._world.profile.session_seconds + 0.01))
        log.cut()
        self._world.note(leader.name, "loses its connection to the log")
        await asyncio.sleep(self._chance.uniform(0.0, 2.0))
        if leader.leads(NAMESPACE):
            self._world.counts["leaders that did not know that they were none"] += any(
                other is not leader and other.leads(NAMESPACE) for other in self._world.sidecars
            )
        for channel in channels:
            channel.release()
        self._world.note(leader.name, "reaches the log again")

    async def _suspend(self) -> None:
        """Suspends the leader's process while it is isolated, until another sidecar may hold its seat."""
        leader = self._world.leader
        if leader is None:
            return
        self._world.counts["leaders suspended"] += 1
        self._world.note(leader.name, "is suspended")
        leader.suspend()
        await self._isolate()
        leader.resume()
        self._world.note(leader.name, "is resumed")

    async def _compact_takeover(self) -> None:
        """Compacts the log between the terms of two leaders."""
        leader = await self._fenced()
        if leader is None:
            return
        await asyncio.sleep(self._chance.choice((0.0, 0.005, 0.1)))
        before = self._world.counts["compactions"]
        unled = self._world.leader in (None, leader)
        await self._compaction.strike()
        self._world.counts["compactions while nobody led"] += unled and self._world.counts["compactions"] > before
