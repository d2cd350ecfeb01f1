"""Checkpoints on simulated time: the service's own copies and files, and a disk that outlives the process."""

from __future__ import annotations

import asyncio
import io
import random
from collections import Counter

from topicpolicies_server.checkpoints import Checkpoint, Pace, Refused, Restored
from topicpolicies_server.checkpoints.file import dump, load
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.namespaces.registry import Registry


class Disk:
    """The file of each namespace's checkpoint."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}


class SimulatedCheckpoints:
    """The checkpoints of one process from its start to its end (in place of ``checkpoints.Checkpoints``)."""

    pace = Pace(events=1, share=0.0, last_events=1)

    def __init__(self, registry: Registry, disk: Disk, chance: random.Random, counts: Counter[str]) -> None:
        self._registry = registry
        self._disk = disk
        self._chance = chance
        self._counts = counts
        self._ended = False
        self._task = asyncio.get_running_loop().create_task(self._move_on())

    def end(self) -> None:
        """Ends with the process: writes nothing any more."""
        self._task.cancel()
        self._ended = True

    async def restored(self, namespace: str, context: FoldContext, *, seconds: float) -> Restored | None:
        del seconds
        await asyncio.sleep(self._chance.choice((0.0, 0.01)))
        found = self._disk.files.get(namespace)
        if found is None:
            return None
        try:
            restored = load(io.BytesIO(found), namespace, context)
        except Refused:
            return None
        self._counts["checkpoints restored"] += 1
        return restored

    async def write(self, checkpoint: Checkpoint) -> bool:
        await asyncio.sleep(self._chance.choice((0.0, 0.0, 0.005, 0.05)))
        if self._ended or self._chance.random() < 0.02:
            self._counts["checkpoints given up"] += 1
            return False
        file = io.BytesIO()
        dump(checkpoint, file)
        self._disk.files[checkpoint.namespace] = file.getvalue()
        self._counts["checkpoints written"] += 1
        return True

    async def _move_on(self) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(0.02, 0.6))
            await self._registry.save()
