"""A second writer of the naive kind, for comparison, which is as careful as such a writer can be.

It computes whole documents from the newest one that it has read, one update of a topic at a time, and waits until it has read its own
event. Brokers write in the same way.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence

from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import merged, split
from topicpolicies_server.core.policies.events import Action, Event, Placed

from .acknowledged import Acknowledged, Cell
from .raw_log import RawLog
from .settings import Owned
from .term import Term


class NaiveWriter:
    """Writes to a log that a ``RawLog`` follows."""

    def __init__(self, log: RawLog) -> None:
        self._log = log
        self._turns: dict[PolicyKey, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._awaited: dict[tuple[PolicyKey, str, int], asyncio.Future[None]] = {}
        self._owned: dict[PolicyKey, tuple[Owned, int]] = {}
        log.listeners.append(self._heard)

    async def client(self, owned: Owned, topics: Sequence[str], acknowledged: Acknowledged, term: Term, seed: int) -> None:
        """Changes one setting, of one topic after the other, until the term is over."""
        chance = random.Random(seed)
        while not term.over:
            cell = Cell(chance.choice(topics), owned)
            key = PolicyKey(cell.topic, Scope.LOCAL)
            async with self._turns[key]:
                number = acknowledged.next(cell)
                part = split(owned.policies(number))
                document = merged(self._log.raw(key), part, [owned.setting])
                read = asyncio.get_running_loop().create_future()
                self._awaited[key, owned.setting, number] = read
                self._owned[key] = (owned, number)
                self._log.append(Event(key, Action.UPDATE, document))
                await asyncio.wait_for(read, 15)
                acknowledged.acknowledge(cell, number, "naive writer")

    def _heard(self, events: Sequence[Placed]) -> None:
        for placed in events:
            if placed.event is None or placed.event.key not in self._owned:
                continue
            key = placed.event.key
            owned, number = self._owned[key]
            if owned.of(placed.event.document) == number:
                read = self._awaited.pop((key, owned.setting, number), None)
                if read is not None and not read.done():
                    read.set_result(None)
