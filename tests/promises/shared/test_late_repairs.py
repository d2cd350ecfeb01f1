"""Repairs that come half a minute late, with a real broker: a sidecar that starts after them undoes nothing.

Compaction has left a broker's stale event of a key, followed by the repair. A sidecar that starts reads both, and must believe the repair.
New sidecars recall no events that were compacted away, as if these had been trimmed; otherwise they would know all and guess nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.broker.pulsar_broker import Broker
from tests.promises.api import Api, Update
from tests.promises.server_process import ServerProcess

from .acknowledged import Acknowledged, Cell
from .clients import wrongly_answered
from .heads import Heads
from .late_repairs import late_repairs, write_stale
from .raw_log import RawLog
from .rest import wrongly_shown
from .run import Place, sidecar
from .settings import CLIENTS, REST

pytestmark = [pytest.mark.broker, pytest.mark.slow]
TOPICS = 6
TOGETHER = CLIENTS[:4]
"""The settings that each update of the client changes: so one stale document undoes several."""
ALONE = REST[0]
"""The setting that a broker changes."""
LATE_SECONDS = 33.0
REPAIRED_SECONDS = 75.0
RECALLS_NOTHING = ("--recalled-entries", "0")


class Field:
    """A place whose documents become stale, its log, and the acknowledged changes."""

    def __init__(self, place: Place, log: RawLog) -> None:
        self.place = place
        self.log = log
        self.acknowledged = Acknowledged()

    async def undone(self, seconds: float) -> list[str]:
        """Describes the cells that the broker still shows wrongly after this time."""
        wrong = await asyncio.to_thread(wrongly_shown, self.place.broker.admin, self.acknowledged, seconds)
        return [f"the broker shows {cell} as {number}, not {self.acknowledged.newest[cell]}" for cell, number in wrong.items()]

    async def leave_stale(self, api: Api) -> None:
        """Has the newest document of each topic lack the client's last change."""
        for topic in self.place.topics:
            await self._change(api, topic)
            read = {cell.owned: number for cell, number in self.acknowledged.newest.items() if cell.topic == topic}
            await self._change(api, topic)
            await asyncio.to_thread(write_stale, self.log, Cell(topic, ALONE), read, self.acknowledged)
        async with asyncio.timeout(60):
            while self.log.wrong_topics != frozenset(self.place.topics):  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def _change(self, api: Api, topic: str) -> None:
        """Has the client change its settings with one update."""
        numbers = {cell: self.acknowledged.next(cell) for cell in (Cell(topic, owned) for owned in TOGETHER)}
        update = Update(topic, mask=[cell.owned.path for cell in numbers])
        for cell, number in numbers.items():
            update.policies.MergeFrom(cell.owned.policies(number))
        assert (await api.send(update)).outcome == "APPLIED"
        for cell, number in numbers.items():
            self.acknowledged.acknowledge(cell, number, "sidecars")


@contextlib.asynccontextmanager
async def two_fields(broker: Broker) -> AsyncIterator[list[Field]]:
    """Two namespaces, one with a plain and one with a partitioned log."""
    async with contextlib.AsyncExitStack() as stack:
        places = [await asyncio.to_thread(Place, broker, topics=TOPICS, partitions=each, prefix="late") for each in (0, 3)]
        yield [Field(place, await stack.enter_async_context(place.log())) for place in places]


def process(broker: Broker, output: Path, *options: str) -> ServerProcess:
    always = ["--pulsar", broker.service_url, "--admin-url", broker.admin_url, "--writer", "shared", *RECALLS_NOTHING]
    return ServerProcess([*always, *options], output)


async def asked(server: ServerProcess, fields: list[Field]) -> list[str]:
    """Describes the cells that a sidecar shows wrongly. Has it load all logs."""
    async with Api(server.address) as api:
        wrong = [(field, await wrongly_answered(api, field.place.topics, field.acknowledged)) for field in fields]
    return [
        f"{cell} is answered as {number}, not {field.acknowledged.newest.get(cell, 0)}"
        for field, each in wrong
        for cell, number in each.items()
    ]


async def leave_stale(fields: list[Field], server: ServerProcess) -> None:
    """Makes all documents of all fields stale; ``server`` is the client's sidecar, whose repairs must be paused."""
    async with Api(server.address) as api:
        await asyncio.gather(*(field.leave_stale(api) for field in fields))


async def compact(fields: list[Field]) -> None:
    await asyncio.gather(*(asyncio.to_thread(field.place.compact) for field in fields))


async def repaired(fields: list[Field]) -> None:
    """Waits until brokers show every document rightly."""
    async with asyncio.timeout(REPAIRED_SECONDS):
        while True:
            if not any(field.log.wrong for field in fields):
                break
            await asyncio.sleep(0.2)
    for field in fields:
        assert await field.undone(5.0) == [] and not field.acknowledged.errors, "every stale document was repaired"


async def met(fields: list[Field]) -> None:
    """Asserts that a sidecar that starts now reads late repairs, each of several settings."""
    for field in fields:
        late = await asyncio.to_thread(late_repairs, field.place)
        print(f"{field.place.name}: {len(late)} late repairs, after", *(each.late_ms for each in late), "ms")
        assert len(late) == TOPICS, "compaction left stale events and their late repairs"
        assert min(len(each.restored) for each in late) >= len(TOGETHER)


@contextlib.asynccontextmanager
async def watched(server: ServerProcess, fields: list[Field]) -> AsyncIterator[list[Heads]]:
    """Watches all fields on a sidecar."""
    async with Api(server.address) as api:
        heads = [Heads(api, field.place.namespace) for field in fields]
        watches = [asyncio.create_task(each.follow()) for each in heads]
        try:
            for each in heads:
                await each.synced()
            yield heads
        finally:
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)


async def nothing_is_undone(broker: Broker, first: ServerProcess | None, fields: list[Field], home: Path, seconds: float) -> None:
    """Starts a second and a third sidecar, and asserts that no acknowledged change is undone on any sidecar or broker at any time."""
    went_back = [field.log.counts["went back"] for field in fields]
    heads: list[Heads] = []
    async with contextlib.AsyncExitStack() as stack:
        if first is not None:
            heads = await stack.enter_async_context(watched(first, fields))
        second, _ = await stack.enter_async_context(sidecar(broker, home / "second.log", *RECALLS_NOTHING))
        undone = {"the second at once": await asked(second, fields)}
        if first is None:
            heads = await stack.enter_async_context(watched(second, fields))
        await asyncio.sleep(seconds)
        await compact(fields)  # the third finds the repairs alone
        third, _ = await stack.enter_async_context(sidecar(broker, home / "third.log", *RECALLS_NOTHING))
        await asked(third, fields)
        await asyncio.sleep(1.0)
        for name, server in (("the first", first), ("the second", second), ("the third", third)):
            undone[name] = await asked(server, fields) if server is not None else []
        for field in fields:
            undone[f"the broker, {field.place.name}"] = await field.undone(3.0)
        undone["a watch"] = [line for each in heads for line in each.undone]
        assert min(each.changes for each in heads) > 0, "the watches have received changes"
    print(*(f"{who}: {len(lines)} undone; {', '.join(lines[:2])}" for who, lines in undone.items()), sep="\n")
    went_back = [field.log.counts["went back"] - before for field, before in zip(fields, went_back, strict=True)]
    print(f"settings that went back in the log: {went_back}")
    assert undone == {name: [] for name in undone}, fields[0].log.story(fields[0].place.topics[0])
    assert went_back == [0 for _ in fields], "brokers never showed an older number"


@pytest.mark.stages_compaction
async def test_late_repairs_are_believed(broker: Broker, tmp_path: Path) -> None:
    """Of a sidecar that was restarted, and stays; and of one that was paused, and ends before a newcomer starts."""
    homes = [tmp_path / "restarted", tmp_path / "paused"]
    for home in homes:
        home.mkdir()
    async with asyncio.TaskGroup() as group:
        group.create_task(repairs_of_a_restarted_sidecar(broker, homes[0]))
        group.create_task(repairs_after_a_pause(broker, homes[1]))


async def repaired_late(first: ServerProcess, fields: list[Field]) -> None:
    """Compacts the log, and only then lets a sidecar make the repairs that it owes."""
    await compact(fields)
    first.resume_repairs()
    await repaired(fields)
    await met(fields)


async def repairs_of_a_restarted_sidecar(broker: Broker, home: Path) -> None:
    """Kills a sidecar while documents are stale; it repairs them when it is back, half a minute later."""
    first = process(broker, home / "first.log")
    await first.start()
    try:
        async with two_fields(broker) as fields:
            await asked(first, fields)
            first.pause_repairs()
            await leave_stale(fields, first)
            first.kill()
            await asyncio.sleep(LATE_SECONDS)
            await first.start()
            first.pause_repairs()  # only until the log is compacted
            await asked(first, fields)
            await repaired_late(first, fields)
            await nothing_is_undone(broker, first, fields, home, 3.0)
    finally:
        first.kill()


async def repairs_after_a_pause(broker: Broker, home: Path) -> None:
    """Pauses a sidecar's repairs for half a minute; it ends when it has made them."""
    first = process(broker, home / "first.log")
    await first.start()
    try:
        async with two_fields(broker) as fields:
            await asked(first, fields)
            first.pause_repairs()
            await leave_stale(fields, first)
            await asyncio.sleep(LATE_SECONDS)
            await repaired_late(first, fields)
            assert await asyncio.to_thread(first.stop) == 0
            await nothing_is_undone(broker, None, fields, home, 26.0)
    finally:
        first.kill()
