"""Checkpoints on simulated time: the service's own keepers and views, and a disk that outlives the process."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from topicpolicies_server.checkpoints import Keeper, Restored
from topicpolicies_server.checkpoints.cells import key_cells_of
from topicpolicies_server.checkpoints.file import Row
from topicpolicies_server.checkpoints.header import CheckpointHeader
from topicpolicies_server.checkpoints.requests import to_bytes
from topicpolicies_server.checkpoints.restoring import is_usable, restore
from topicpolicies_server.checkpoints.store import Stored
from topicpolicies_server.core.fold.fold import FoldContext


class Disk:
    """The checkpoint of each namespace: its header, its cells, and its requests."""

    def __init__(self) -> None:
        self.written: dict[str, tuple[CheckpointHeader, dict[str, Row], dict[int, bytes]]] = {}


class SimulatedCheckpoints:
    """The checkpoints of one process from its start to its end (in place of ``checkpoints.Checkpoints``)."""

    def __init__(self, disk: Disk, chance: random.Random, counts: Counter[str]) -> None:
        self._disk = disk
        self._chance = chance
        self._counts = counts
        self._keepers: dict[Keeper, None] = {}
        self._task = asyncio.get_running_loop().create_task(self._move_on())

    def end(self) -> None:
        """Ends with the process: writes nothing any more."""
        self._task.cancel()
        self._keepers.clear()

    async def restored(self, namespace: str, context: FoldContext, *, seconds: float) -> Restored | None:
        del seconds
        await asyncio.sleep(self._chance.choice((0.0, 0.01)))
        found = self._disk.written.get(namespace)
        if found is None or not is_usable(found[0], context):
            return None
        header, cells, requests = found
        self._counts["checkpoints restored"] += 1
        rows = sorted(cells.values())
        pages = (rows[at : at + 3] for at in range(0, len(rows), 3))
        return restore(Stored(header, (key_cells_of(*zip(*page, strict=True)) for page in pages), sorted(requests.items())))

    def keeper(self, namespace: str) -> Keeper:
        return Keeper(namespace)

    def keep(self, keeper: Keeper | None, older: Keeper | None = None) -> None:
        if older is not None and older is not keeper:
            self._keepers.pop(older, None)
            older.ended = True
        if keeper is not None:
            self._keepers[keeper] = None

    async def finish(self, keeper: Keeper | None) -> None:
        if keeper is None:
            return
        if self._keepers.pop(keeper, self) is None and not keeper.copying:
            await self._move(keeper)
        keeper.ended = True

    async def _move_on(self) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(0.02, 0.6))
            for keeper in list(self._keepers):
                if keeper.has_news and not keeper.copying:
                    await self._move(keeper)

    async def _move(self, keeper: Keeper) -> None:
        copy = keeper.begin()
        if copy is None:
            return
        header, cells, requests = self._disk.written.get(keeper.namespace, (None, {}, {}))
        cells, requests = ({}, {}) if copy.anew else (dict(cells), dict(requests))
        while some := keeper.next_cells(self._chance.choice((1, 1, 2, 64)), 1 << 20):
            for name, row in some:
                if row is None:
                    cells.pop(name, None)
                else:
                    cells[name] = row
            await asyncio.sleep(self._chance.choice((0.0, 0.0, 0.005, 0.05)))
        requests = {number: some for number, some in requests.items() if number >= copy.dropped_before}
        requests |= {number: to_bytes(some) for number, some in copy.requests}
        header = copy.header._replace(forgotten=keeper.forgotten())
        for _ in range(100):
            kept = keeper.kept
            if kept is None or not kept.trusted or self._chance.random() < 0.02:
                break
            if keeper.ended or (copy.base and self._disk.written[keeper.namespace][0].id != copy.base):
                keeper.start_over()
                return
            if kept.is_confirmed(header.positions):
                self._disk.written[keeper.namespace] = header, cells, requests
                self._counts["checkpoints written"] += 1
                keeper.done()
                return
            await asyncio.sleep(0.02)
        self._counts["checkpoints given up"] += 1
        keeper.failed()
