"""Those who wait for a namespace that is closed, is loaded slowly, stands still, or comes back with fewer partitions."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest

from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.logs.memory import MemoryStorage
from topicpolicies_server.namespaces.namespace import Phase

from .bench import KEY, NAMESPACE, Bench, error_of, simulate


@pytest.mark.parametrize("expiring", [True, False])
def test_whoever_asks_a_namespace_that_was_closed_is_told_so_at_once(expiring: bool) -> None:
    async def scenario(bench: Bench) -> None:
        namespace = bench.namespace
        await bench.set(1)
        if not expiring:
            await asyncio.sleep(10)  # no timer runs any more
        await namespace.close()
        assert namespace.phase is Phase.CLOSED
        for asked in (namespace.update(bench.request(2)), namespace.get(KEY), namespace.ready()):
            async with asyncio.timeout(0.5):
                error = await error_of(asked)
            assert (error.kind, error.reason) == (Kind.UNAVAILABLE, "NAMESPACE_CLOSED")

    simulate(scenario)


def test_those_who_wait_for_a_partition_that_is_not_there_any_more_break_no_opening() -> None:
    async def scenario(bench: Bench) -> None:
        namespace = bench.namespace
        await namespace.ready()
        keys = (PolicyKey(f"{KEY.topic}-{number}", KEY.scope) for number in itertools.count())
        last = next(key for key in keys if bench.opened.partition_of(key) == 2)
        waiting = asyncio.ensure_future(error_of(namespace.get(last, "~")))
        await asyncio.sleep(0.1)
        bench.storage._partitions = 1
        bench.storage.recreate(NAMESPACE)
        await asyncio.sleep(0.1)
        assert bench.opened.partitions == 1 and not waiting.done()
        assert (await bench.set(1)).version
        assert await bench.value() == 1
        assert len(bench.log.openings) == 2
        assert (await waiting).reason == "VERSION_NOT_REACHED"

    async def partitioned(unused: Bench) -> None:
        bench = Bench(storage=MemoryStorage(partitions=3, now=unused.loop.milliseconds))
        await scenario(bench)
        await bench.registry.close()

    simulate(partitioned)


def test_those_who_gave_up_waiting_for_a_version_are_forgotten_though_nothing_is_read() -> None:
    async def scenario(bench: Bench) -> None:
        namespace = bench.namespace
        await namespace.ready()
        waiting = [asyncio.ensure_future(error_of(namespace.get(KEY, "~"))) for _ in range(100)]
        await asyncio.sleep(0.1)
        assert len(namespace._waiting) == 100, "the case: they wait"
        assert {error.reason for error in await asyncio.gather(*waiting)} == {"VERSION_NOT_REACHED"}
        assert len(namespace._waiting) == 0

    simulate(scenario)


def test_many_who_go_away_while_a_namespace_is_loaded_are_let_go_as_fast_in_any_order() -> None:
    def seconds_for(step: int) -> float:
        took = 0.0

        async def scenario(bench: Bench) -> None:
            nonlocal took
            bench.log.opening_seconds = 0.9
            namespace = bench.namespace
            waiting = [bench.setting(1, key=PolicyKey(f"{KEY.topic}-{number}", KEY.scope)) for number in range(16_000)]
            await asyncio.sleep(0.1)
            assert len(namespace._arrivals) == 16_000, "the case: they wait"
            began = time.process_time()
            for each in waiting[::step]:
                each.cancel()
            await asyncio.sleep(0.1)
            took = time.process_time() - began
            assert not namespace._arrivals and namespace.phase is Phase.LOADING

        simulate(scenario)
        return took

    assert seconds_for(-1) < 5 * seconds_for(1)  # the last first, and the first first
