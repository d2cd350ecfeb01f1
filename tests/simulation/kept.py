"""Checkpoints on simulated time: the service's own copies and files, and a disk that outlives the process."""

from __future__ import annotations

import asyncio
import io
import random
from collections import Counter

from topicpolicies_server.checkpoints import Refused, Restored, checkpoint_of
from topicpolicies_server.checkpoints.checkpoints import Opening
from topicpolicies_server.checkpoints.file import dump, load
from topicpolicies_server.core.fold.fold import FoldContext


class Disk:
    """The file of each namespace's checkpoint."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}


class SimulatedCheckpoints:
    """The checkpoints of one process from its start to its end (in place of ``checkpoints.Checkpoints``)."""

    def __init__(self, disk: Disk, chance: random.Random, counts: Counter[str]) -> None:
        self._disk = disk
        self._chance = chance
        self._counts = counts
        self._kept: dict[str, Opening] = {}
        self._task = asyncio.get_running_loop().create_task(self._move_on())

    def end(self) -> None:
        """Ends with the process: writes nothing any more."""
        self._task.cancel()
        self._kept.clear()

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

    def keep(self, namespace: str, kept: Opening) -> None:
        self._kept[namespace] = kept

    async def finish(self, namespace: str, kept: Opening) -> None:
        if self._kept.get(namespace) is kept:
            del self._kept[namespace]
            if kept.unsaved:
                await self._write(namespace, kept)

    async def _move_on(self) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(0.02, 0.6))
            for namespace, kept in list(self._kept.items()):
                if kept.unsaved:
                    await self._write(namespace, kept)

    async def _write(self, namespace: str, kept: Opening) -> None:
        events, checkpoint = kept.unsaved, checkpoint_of(namespace, kept)
        if checkpoint is None:
            return
        for _ in range(100):
            if not kept.trusted or self._chance.random() < 0.02:
                break
            if kept.is_read_back(checkpoint.place.start.positions):
                await asyncio.sleep(self._chance.choice((0.0, 0.0, 0.005, 0.05)))
                file = io.BytesIO()
                dump(checkpoint, file)
                self._disk.files[namespace] = file.getvalue()
                self._counts["checkpoints written"] += 1
                kept.unsaved -= events
                return
            await asyncio.sleep(0.02)
        self._counts["checkpoints given up"] += 1
