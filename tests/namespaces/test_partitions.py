"""A log that is opened again with more partitions is the same log: reads, updates and watches continue."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from tests.memory_log.storage import StoredNamespace
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.reading.tokens import Mode, Selection, Token

from .bench import KEY, NAMESPACE, Bench, simulate


def _grow(stored: StoredNamespace, partitions: int) -> None:
    """Adds partitions to a log; its entries stay where they are."""
    more = StoredNamespace(stored.name, partitions - stored.partitions, stored.identity)
    stored.partitions = partitions
    for mine, new in (
        (stored.entries, more.entries),
        (stored.seats, more.seats),
        (stored.compacted, more.compacted),
        (stored.ends, more.ends),
        (stored._next_row, more._next_row),
    ):
        mine.extend(new)  # type: ignore[arg-type]


def _key_of(bench: Bench, partition: int) -> PolicyKey:
    keys = (PolicyKey(f"{KEY.topic}-{number}", KEY.scope) for number in itertools.count())
    return next(key for key in keys if bench.opened.partition_of(key) == partition)


async def _reopened(bench: Bench, partitions: int) -> None:
    _grow(bench.storage.namespace(NAMESPACE), partitions)
    bench.storage.lose(NAMESPACE)
    await asyncio.sleep(5)
    assert bench.opened.partitions == partitions and len(bench.log.openings) == 2, "precondition"


def test_updates_in_new_partitions_are_applied_and_read() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        await _reopened(bench, 3)
        for partition in range(3):
            key = _key_of(bench, partition)
            assert (await bench.set(7, key=key)).version
            assert await bench.value(key) == 7

    simulate(scenario)


@pytest.mark.parametrize("mode", [Mode.LATEST, Mode.EVERY])
@pytest.mark.parametrize("begun", ["with a snapshot", "from a token", "from a token that is ahead"])
def test_a_watch_continues_in_more_partitions(mode: Mode, begun: str) -> None:
    async def scenario(bench: Bench) -> None:
        version = (await bench.set(1)).version
        token = None
        if begun != "with a snapshot":
            ahead = begun.endswith("ahead")
            assert bench.namespace.hub is not None
            token = Token(bench.namespace.hub.token.log, (version.replace("1", "2") if ahead else version,))
        watcher = await bench.namespace.watch(Selection(None), mode, token, lambda: None)
        watcher.take(100)
        await _reopened(bench, 3)
        place = watcher.resume_from  # the view is another one, so the watch is begun again from there
        assert place is not None
        watcher = await bench.namespace.watch(Selection(None), mode, place, lambda: None)
        keys = [_key_of(bench, partition) for partition in range(3)]
        for key in keys[1:]:
            await bench.set(2, key=key)
        received = {change.key for _ in range(2) for change in watcher.take(100).heads}
        assert received == set(keys[1:])
        place = watcher.token
        assert place is not None and len(place.positions) == 3

    simulate(scenario, sole_writer=False)
