"""A history beside the embedded log: it keeps everything through compactions of the log and restarts."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.config import Limits
from topicpolicies_server.core.chains.request import Request
from topicpolicies_server.core.changes.change import compile_change
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.history import History, open_history
from topicpolicies_server.history.file import Query
from topicpolicies_server.logs.sqlite import SqliteLog
from topicpolicies_server.logs.sqlite.compaction import Compaction
from topicpolicies_server.namespaces.registry import Registry

from .conftest import BOUNDS, NAMESPACE, topic

KEY = PolicyKey(topic(), Scope.LOCAL)


class Sidecar:
    """An embedded log, its namespaces and their history."""

    def __init__(self, log: SqliteLog, registry: Registry, history: History) -> None:
        self.log = log
        self.registry = registry
        self.history = history

    async def update(self, value: int) -> str:
        change = compile_change(TopicPolicies(max_producer_per_topic=value), ["max_producer_per_topic"], {})
        result = await self.registry.get(NAMESPACE).update(Request(KEY, change, uuid.uuid4().hex, "", "ann"))
        return result.version

    async def values(self) -> list[int]:
        page = await self.history.page(Query(NAMESPACE, newest_first=False, most=1_000))
        assert page.gaps == []
        return [TopicPolicies.FromString(entry.after or b"").max_producer_per_topic for entry in page.entries]


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[Sidecar]:
    log = SqliteLog(directory / "policies.db", compaction=Compaction(retention_ms=0, deletions_ms=0, minimum=1))
    await log.start()
    history = open_history(directory / "history.db", BOUNDS)
    registry = Registry(log, Limits(), FoldContext(sole_writer=True), history=history)
    try:
        yield Sidecar(log, registry, history)
    finally:
        await registry.close()
        await log.close()
        await history.close()


async def test_the_history_keeps_all_events_through_compactions_of_the_log_and_restarts(tmp_path: Path) -> None:
    compacted = 0
    for life in range(3):
        async with running(tmp_path) as sidecar:
            for number in range(30):
                await sidecar.update(life * 30 + number + 1)
            await asyncio.sleep(0.01)
            compacted += await sidecar.log.compact(NAMESPACE)
            await sidecar.update(life * 30 + 30)  # unchanged: no event is published
            assert await sidecar.values() == list(range(1, life * 30 + 31))
    assert compacted >= 80


async def test_every_version_can_be_read_after_the_log_was_compacted(tmp_path: Path) -> None:
    async with running(tmp_path) as sidecar:
        versions = [await sidecar.update(number) for number in range(1, 21)]
        await asyncio.sleep(0.01)
        assert await sidecar.log.compact(NAMESPACE) >= 18
    async with running(tmp_path) as sidecar:
        head = await sidecar.registry.get(NAMESPACE).get(KEY)
        for number, version in enumerate(versions, 1):
            past = await sidecar.history.past(NAMESPACE, KEY, head, version=version)
            assert TopicPolicies.FromString(past.document or b"").max_producer_per_topic == number


async def test_the_history_of_a_namespace_that_is_not_loaded_answers_only_what_is_certain(tmp_path: Path) -> None:
    async with running(tmp_path) as sidecar:
        await sidecar.update(1)
        await asyncio.sleep(0.02)
        await sidecar.update(2)
        first, second = (await sidecar.history.page(Query(NAMESPACE, newest_first=False))).entries
    async with running(tmp_path) as sidecar:
        past = await sidecar.history.past(NAMESPACE, KEY, None, at=second.at - 1, followed=False)
        assert past.version == first.version
        with pytest.raises(PolicyError, match="can't tell for certain"):
            await sidecar.history.past(NAMESPACE, KEY, None, at=second.at + 10**8, followed=False)
        with pytest.raises(PolicyError, match="can't tell for certain"):
            await sidecar.history.past("never/read", KEY._replace(topic="persistent://never/read/x"), None, at=second.at, followed=False)
        assert len(sidecar.registry) == 0
