"""The memory of a closed namespace is freed with the last reference to it, without a run of the garbage collector."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from topicpolicies_server.config import Address, EmbeddedLogConfig, ServerConfig
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.core.reading.watch import WatchHub
from topicpolicies_server.namespaces.namespace import Namespace
from topicpolicies_server.rpc.server import Server

from .bench import NAMESPACE


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
        return [each for each in gc.get_objects() if isinstance(each, kinds) and (not isinstance(each, View) or each.head_count)]


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
