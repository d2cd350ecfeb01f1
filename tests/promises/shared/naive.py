"""A second writer of the naive kind, for comparison, which is as careful as such a writer can be.

It computes whole documents from the newest one that it has read, one update of a topic at a time, and waits until it has read its own
event. Brokers write in the same way.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence

from tests.promises.change_log import Stored

from .acknowledged import Acknowledged, Cell
from .raw_log import RawLog
from .settings import Owned
from .term import Term


class NaiveWriter:
    """Writes to a log that a ``RawLog`` follows."""

    def __init__(self, log: RawLog) -> None:
        self._log = log
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._awaited: dict[str, tuple[Owned, int, asyncio.Future[None]]] = {}
        log.listeners.append(self._heard)

    async def client(self, owned: Owned, topics: Sequence[str], acknowledged: Acknowledged, term: Term, seed: int) -> None:
        """Changes one setting, of one topic after the other, until the term is over."""
        chance = random.Random(seed)
        while not term.over:
            cell = Cell(chance.choice(topics), owned)
            async with self._turns[cell.topic]:
                number = acknowledged.next(cell)
                document = owned.put(self._log.document(cell.topic), number)
                read = asyncio.get_running_loop().create_future()
                self._awaited[cell.topic] = (owned, number, read)
                await asyncio.to_thread(self._log.log.write, cell.topic, document)
                await asyncio.wait_for(read, 15)
                acknowledged.acknowledge(cell, number, "naive writer")

    def _heard(self, stored: Stored) -> None:
        if stored.topic in self._awaited:
            owned, number, read = self._awaited[stored.topic]
            if owned.of(stored.policies) == number and not read.done():
                read.set_result(None)
