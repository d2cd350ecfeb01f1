"""A sidecar's client and administrators change the same topics at the same time, until brokers show documents that need a repair.

The client changes several settings with each update, so that one stale document undoes several.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.broker.admin import Admin
from tests.promises.api import Api, Update
from tests.promises.change_log import Stored
from tests.promises.server_process import ServerProcess

from .acknowledged import Acknowledged, Cell
from .raw_log import RawLog
from .rest import set_over_rest, wrongly_shown
from .run import Place
from .settings import CLIENTS, REST

TOGETHER = CLIENTS[:4]
"""The settings that each update of the client changes."""
ALONE = REST[0]
"""The setting that the administrators change."""
_TRIES = 120
_REST_SECONDS = 0.5
_LATEST_SECONDS = 0.008
"""The most seconds by which an administrator changes a topic later than the client, on a quiet machine: the broker has hardly read the
client's event by then. On a busy machine, half of the administrators may be later by the time that a change of the client takes."""


class Field:
    """A place where the client and the administrators clash, its log, and the acknowledged changes."""

    def __init__(self, place: Place, log: RawLog) -> None:
        self.place = place
        self.log = log
        self.acknowledged = Acknowledged()
        self._latest_seconds = _LATEST_SECONDS
        self._brokers: dict[str, bool] = {}
        """By topic: whether a broker wrote its newest event."""
        log.listeners.append(self._note)

    @property
    def stale(self) -> frozenset[str]:
        """The topics whose documents brokers show wrongly and wrote last."""
        return frozenset(topic for topic in self.log.wrong_topics if self._brokers[topic])

    async def undone(self, seconds: float) -> list[str]:
        """Describes the cells that the broker still shows wrongly after this time."""
        wrong = await asyncio.to_thread(wrongly_shown, self.place.broker.admin, self.acknowledged, seconds)
        return [f"the broker shows {cell} as {number}, not {self.acknowledged.newest[cell]}" for cell, number in wrong.items()]

    async def clash(self, api: Api) -> None:
        """Has the client and an administrator change each topic once that is not stale, all at the same time."""
        topics = [topic for topic in self.place.topics if topic not in self.stale]
        with ThreadPoolExecutor(len(self.place.topics)) as threads, self.place.broker.admin() as admin:
            await asyncio.gather(*(self._client(api, topic) for topic in topics), self._administrators(threads, admin, topics))

    async def _administrators(self, threads: ThreadPoolExecutor, admin: Admin, topics: Sequence[str]) -> None:
        loop, chance = asyncio.get_running_loop(), random.Random(self.acknowledged.total)

        def set_later(topic: str, seconds: float) -> None:
            time.sleep(seconds)
            set_over_rest(admin, Cell(topic, ALONE), self.acknowledged)

        later = [(topic, chance.uniform(0, chance.choice((_LATEST_SECONDS, self._latest_seconds)))) for topic in topics]
        await asyncio.gather(*(loop.run_in_executor(threads, set_later, *each) for each in later))

    async def _client(self, api: Api, topic: str) -> None:
        numbers = {cell: self.acknowledged.next(cell) for cell in (Cell(topic, owned) for owned in TOGETHER)}
        update = Update(topic, mask=[cell.owned.path for cell in numbers])
        for cell, number in numbers.items():
            update.policies.MergeFrom(cell.owned.policies(number))
        began = time.monotonic()
        answer = await api.send(update)
        self._latest_seconds = max(_LATEST_SECONDS, 0.8 * self._latest_seconds + 0.2 * (time.monotonic() - began))
        assert answer.outcome == "APPLIED", answer
        for cell, number in numbers.items():
            self.acknowledged.acknowledge(cell, number, "sidecars")

    def _note(self, stored: Stored) -> None:
        self._brokers[stored.topic] = stored.by_broker


async def leave_stale(fields: Sequence[Field], server: ServerProcess, keys: int) -> None:
    """Makes clashes until at least ``keys`` documents of each field are stale.

    ``server`` is the client's sidecar, whose repairs must be paused.
    """
    async with Api(server.address) as api:
        for _ in range(_TRIES):
            await asyncio.gather(*(field.clash(api) for field in fields if len(field.stale) < keys))
            await asyncio.sleep(_REST_SECONDS)
            if all(len(field.stale) >= keys for field in fields):
                return
    raise AssertionError(f"{_TRIES} clashes left {[len(field.stale) for field in fields]} documents stale, not {keys}")
