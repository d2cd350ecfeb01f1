"""The memory of a closed namespace is freed with the last reference to it, without a run of the garbage collector."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from topicpolicies_server.config import Address, EmbeddedLogConfig, ServerConfig
from topicpolicies_server.core.policies.events import ABSENT
from topicpolicies_server.core.reading.tokens import Mode, Selection
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.core.reading.watch import WatchHub
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.namespaces.namespace import Namespace, Phase
from topicpolicies_server.rpc.server import Server

from .bench import KEY, NAMESPACE, Bench, simulate


@pytest.fixture(autouse=True)
def no_search() -> Iterator[None]:
    """Disables the garbage collector for the test, after collecting the cycles of other tests."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Kept:
    """Lists the objects of large classes that were created since."""

    def __init__(self) -> None:
        self._before = {id(each) for each in self._all()}

    def __call__(self) -> list[str]:
        return sorted(type(each).__name__ for each in self._all() if id(each) not in self._before)

    def _all(self) -> list[object]:
        kinds = (Namespace, View, WatchHub)
        return [each for each in gc.get_objects() if isinstance(each, kinds) and (not isinstance(each, View) or len(each))]


@pytest.mark.parametrize("sole_writer", [True, False])
@pytest.mark.parametrize("watched", [True, False])
def test_a_closed_namespace_is_freed_with_the_last_reference_to_it(sole_writer: bool, watched: bool) -> None:
    async def scenario(bench: Bench) -> None:
        kept = Kept()
        bench.elsewhere(1)
        namespace = bench.namespace
        version = (await bench.set(2)).version
        watcher = await namespace.watch(Selection(None), Mode.LATEST, None, lambda: None) if watched else None
        if watcher is not None:
            watcher.take(10)
            await bench.set(3)
            watcher.take(10)
            version = namespace.version(KEY)
        await asyncio.sleep(1)
        await namespace.close()
        if watcher is not None:
            namespace.unwatch(watcher)
            del watcher
        assert (namespace.version(KEY), namespace.documents, namespace.phase) == (version, 1, Phase.CLOSED)
        assert namespace.log_identity
        gone = weakref.ref(namespace)
        bench.registry._namespaces.clear()
        del namespace
        assert gone() is None and kept() == []

    simulate(scenario, sole_writer=sole_writer)


def test_a_namespace_whose_log_never_opened_is_freed_too() -> None:
    async def scenario(bench: Bench) -> None:
        kept = Kept()
        bench.log.refusals = [LogError(LogState.UNREACHABLE, "The change log can't be reached.")]
        namespace = bench.namespace
        await asyncio.sleep(0.2)
        assert namespace.phase is Phase.FAILED
        await namespace.close()
        assert namespace.version(KEY) == ABSENT and namespace.view is None
        bench.registry._namespaces.clear()
        del namespace
        assert kept() == []

    simulate(scenario)


@pytest.mark.parametrize("again", ["the same log", "the same log, compacted", "another log"])
def test_nothing_of_replaced_openings_is_kept(again: str) -> None:
    async def scenario(bench: Bench) -> None:
        kept = Kept()
        await bench.set(1)
        await bench.set(2)
        for _ in range(3):
            if again == "another log":
                bench.storage.recreate(NAMESPACE)
            else:
                if again != "the same log":
                    bench.storage.compact(NAMESPACE)
                bench.storage.lose(NAMESPACE)
            await asyncio.sleep(1)
            await bench.namespace.ready()
            assert bench.namespace.documents == (again != "another log")
            assert set(kept()) <= {"Namespace", "View", "WatchHub"} and len(kept()) <= 3
        assert len(bench.log.openings) == 4

    simulate(scenario)


@pytest.mark.parametrize("ends", ["nothing comes", "it is lost", "it is closed"])
def test_an_opening_that_continues_a_view_and_fails_leaves_the_view_unchanged(ends: str) -> None:
    async def scenario(bench: Bench) -> None:
        version = (await bench.set(1)).version
        namespace = bench.namespace
        wakes: list[str] = []
        watcher = await namespace.watch(Selection(None), Mode.LATEST, None, lambda: wakes.append("woken"))
        assert len(watcher.take(10).heads) == 1
        bench.faults.read_seconds = 100.0
        bench.elsewhere(2)
        bench.storage.lose(NAMESPACE)
        await asyncio.sleep(1)
        assert (namespace.phase, len(bench.log.openings)) == (Phase.LOADING, 2)
        if ends == "nothing comes":
            await asyncio.sleep(bench.limits.load_timeout_seconds)
            assert namespace.phase is Phase.FAILED
        elif ends == "it is lost":
            bench.log.refusals = [LogError(LogState.UNREACHABLE, "The change log can't be reached.")] * 3
            bench.storage.lose(NAMESPACE)
        else:
            await namespace.close()
        assert (namespace.version(KEY), namespace.documents) == (version, 1)
        if ends != "it is closed":
            bench.faults.read_seconds = 0.0
            await asyncio.sleep(5)
            assert [change.previous for change in watcher.take(10).heads] == [version], "no change is sent twice"
        namespace.unwatch(watcher)

    simulate(scenario, sole_writer=False)


async def test_a_server_that_loads_and_closes_a_namespace_repeatedly_keeps_nothing_of_it(tmp_path: Path) -> None:
    config = ServerConfig(log=EmbeddedLogConfig(path=tmp_path / "log.db"), listen=Address("127.0.0.1", 0))
    async with Server(config) as server:
        kept = Kept()
        for _ in range(3):
            namespace = server.registry.get(NAMESPACE)
            await namespace.ready()
            assert server.registry._dismiss(namespace)
            del namespace
            async with asyncio.timeout(20):
                while server.registry._closing:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0)
            assert kept() == []
