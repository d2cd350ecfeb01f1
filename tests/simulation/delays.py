"""Repairs that are late by any time, while the log is compacted and sidecars start and end at every point."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tests.memory_log import Channel

from .broker import Broker
from .compaction import Compaction
from .sidecar import Sidecar
from .world import NAMESPACE, WINDOW_MS, World

_W = WINDOW_MS / 1000
_MOST = 3 * _W
"""The longest delay of a repair, in seconds."""
_TRIES = 5
"""How often overlapping changes are made until a repair is due."""


class Delays:
    """Delays repairs again and again, with changes, compactions, starts and ends of sidecars before, meanwhile and afterwards."""

    def __init__(self, world: World, chance: random.Random, brokers: Sequence[Broker]) -> None:
        """``brokers``: the brokers whose writes make repairs due."""
        self._world = world
        self._chance = chance
        self._brokers = brokers
        self._compaction = Compaction(world, chance)

    async def run(self, times: int) -> None:
        """Delays repairs this many times, and then starts newcomers up to the profile's limit."""
        for _ in range(times):
            await self._world.pause(0.3)
            await (self._delay_to_the_point() if self._chance.random() < 0.4 else self._delay())
        while times and len(self._world.newcomers) < self._world.profile.newcomers:
            self._start()

    async def _delay(self) -> None:
        chance, length = self._chance, self._chance.choice((0.2, 1.0, 1.0)) * self._chance.uniform(0, _MOST)
        plan: list[tuple[float, Callable[[], Awaitable[None]]]] = [(chance.uniform(0.0, 0.3), self._overlap) for _ in range(3)]
        plan += [(chance.uniform(0, length), self._compaction.strike) for _ in range(chance.choice((0, 1, 1, 2)))]
        plan += [(chance.uniform(0, length + 1), self._newcomers) for _ in range(chance.randint(0, 2))]
        plan += [(chance.uniform(0, length), self._overlap) for _ in range(chance.randint(0, 1))]
        plan += [(chance.uniform(0, length), self._death) for _ in range(chance.choice((0, 0, 1)))]
        plan += [(length + chance.uniform(0.1, 1.0), act) for act in (self._newcomers, self._overlap) if chance.random() < 0.6]
        async with asyncio.TaskGroup() as group:
            for sidecar in self._delayed():
                group.create_task(self._hold_up(sidecar, length if chance.random() < 0.7 else chance.uniform(0, length)))
            for after, act in plan:
                group.create_task(self._later(after, act))

    async def _delay_to_the_point(self) -> None:
        """The worst case: compaction leaves a stale event, all repairs come more than W later, and a sidecar starts after them."""
        length = self._chance.uniform(_W, _MOST)
        running = [sidecar for sidecar in self._world.all_sidecars if sidecar.running]
        async with asyncio.TaskGroup() as group:
            for sidecar in running:
                group.create_task(self._pause(sidecar, length))
            for _ in range(_TRIES):
                await self._overlap()
                if self._world.journal.repair_due:
                    break
            await asyncio.sleep(self._chance.uniform(0, 0.1))
            await self._compaction.strike()
            await self._later(self._chance.uniform(0, length), self._chance.choice((self._newcomers, self._death)))
        await self._later(self._chance.uniform(0.1, 0.5), self._newcomers)
        await self._later(self._chance.uniform(0, _W), self._overlap)

    def _delayed(self) -> Sequence[Sidecar]:
        """Returns the sidecars whose repairs are delayed: mostly all, because otherwise another one's repair comes in time."""
        running = [sidecar for sidecar in self._world.all_sidecars if sidecar.running]
        if not running or self._chance.random() < 0.7:
            return running
        return self._chance.sample(running, self._chance.randint(1, len(running)))

    async def _later(self, seconds: float, act: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(seconds)
        await act()

    # --- what delays a sidecar's repairs ------------------------------------------------------------------------------

    async def _hold_up(self, sidecar: Sidecar, seconds: float) -> None:
        if self._chance.random() < 0.8 or not sidecar.log.has_open(NAMESPACE):
            await self._pause(sidecar, seconds)
        else:
            await self._cut_off(sidecar, seconds)

    async def _pause(self, sidecar: Sidecar, seconds: float) -> None:
        counts = self._world.counts
        counts["repairs paused"] += 1
        counts["repairs paused or cut off"] += 1
        self._world.note(sidecar.name, f"its repairs are paused for {seconds:.1f} s")
        sidecar.pause_repairs()
        await asyncio.sleep(seconds)
        counts["repairs resumed with some due"] += sidecar.repairs_due > 0
        counts["repairs resumed with some due after W"] += sidecar.repairs_due > 0 and seconds > _W
        self._world.note(sidecar.name, f"its repairs resume, {sidecar.repairs_due} are due")
        sidecar.resume_repairs()

    async def _cut_off(self, sidecar: Sidecar, seconds: float) -> None:
        """Keeps what a sidecar writes from the log for a while; it still reads."""
        self._world.counts["sidecars whose writing was cut off"] += 1
        self._world.counts["repairs paused or cut off"] += 1
        self._world.note(sidecar.name, f"can't write for {seconds:.1f} s")
        channels: list[Channel[Any]] = [*sidecar.log.opened(NAMESPACE).appends]
        for channel in channels:
            channel.hold()
        await asyncio.sleep(seconds)
        for channel in channels:
            channel.release()
        self._world.note(sidecar.name, "can write again")

    # --- what happens meanwhile ---------------------------------------------------------------------------------------

    async def _overlap(self) -> None:
        """Has several administrators change one document at once."""
        key = self._chance.choice(self._world.keys)
        asked = [self._chance.choice(self._brokers).ask(key, self._world.traffic.setting()) for _ in range(self._chance.randint(2, 4))]
        await asyncio.gather(*asked)
        self._world.counts["times that a rate held repairs up"] += any(each.held_up_by_rate for each in self._world.all_sidecars)

    async def _newcomers(self) -> None:
        """Starts one or two sidecars, and ends others if there are too many."""
        for _ in range(self._chance.choice((1, 1, 2))):
            if len(self._world.newcomers) >= self._world.profile.newcomers:
                await self._end(self._chance.choice(self._world.newcomers))
            self._start()
        self._world.counts["several newcomers at once"] += sum(not each.ready for each in self._world.newcomers) > 1

    def _start(self) -> None:
        newcomer = self._world.replacement()
        paused = not self._world.healed and self._chance.random() < 0.3
        newcomer.start(paused=paused)
        self._world.newcomers.append(newcomer)
        self._world.counts["newcomers"] += 1
        self._world.note(newcomer.name, f"starts{', with its repairs paused' if paused else ''}")
        if paused:
            asyncio.get_running_loop().call_later(self._chance.uniform(0, _MOST), newcomer.resume_repairs)

    async def _death(self) -> None:
        """Ends a newcomer, or crashes another sidecar that need not run all the time."""
        world = self._world
        mortal = [sidecar for sidecar in world.all_sidecars if sidecar.running and sidecar is not world.survivor]
        if not mortal:
            return
        sidecar = self._chance.choice(mortal)
        if sidecar in world.newcomers:
            await self._end(sidecar)
            return
        world.note(sidecar.name, "crashes")
        await sidecar.crash()
        world.note_orphans()
        await asyncio.sleep(self._chance.uniform(0, _W))
        if not sidecar.running:
            sidecar.start()
            world.note(sidecar.name, "is started again")

    async def _end(self, newcomer: Sidecar) -> None:
        """Ends a newcomer for good."""
        if newcomer in self._world.newcomers:
            self._world.newcomers.remove(newcomer)
        if not newcomer.running:
            return  # another task has ended it
        self._world.note(newcomer.name, f"ends, with {newcomer.repairs_due} repairs due")
        await (newcomer.crash() if self._chance.random() < 0.6 else newcomer.stop())
        self._world.note_orphans()
