"""The policy caches of both clients against the real server."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

import topicpolicies as tp
from topicpolicies_server.config import EmbeddedLogConfig, Limits, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server

NAMESPACE = "public/default"
TOPIC = f"persistent://{NAMESPACE}/orders"
FAST_RETRIES = tp.RetryPolicy(first_delay_seconds=0.005, longest_delay_seconds=0.1, attempt_timeout_seconds=2.0)
LIMITS = replace(Limits(), bookmark_interval_seconds=1.0, drain_seconds=1.0)


def _server(log: EmbeddedLogConfig, listen: str = "127.0.0.1:0") -> Server:
    return Server(ServerConfig(log=log, listen=parse_address(listen), limits=LIMITS))


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with _server(EmbeddedLogConfig(path=None)) as server:
        yield server


def _value(document: tp.Document | None) -> int | None:
    return document.policies.max_producer_per_topic if document is not None and document.policies is not None else None


def _values(change: tp.Change) -> tuple[int | None, int | None]:
    return _value(change.before), _value(change.after)


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - there is no event for this
            await asyncio.sleep(0.005)


async def test_a_cache_has_the_snapshot_and_calls_listeners_for_every_change(server: Server) -> None:
    async with tp.AsyncClient(server.address) as client:
        await client.update(TOPIC, max_producer_per_topic=1)
        async with client.cache(namespaces=[NAMESPACE], bookmark_interval=1) as cache:
            assert await cache.wait_synced(20)
            assert _value(cache.get("public/default/orders")) == 1
            changes: list[tuple[int | None, int | None]] = []
            stop = cache.listen(lambda change: changes.append(_values(change)))
            await client.update(TOPIC, max_producer_per_topic=2)
            await _until(lambda: len(changes) == 2)
            await client.delete(TOPIC)
            await _until(lambda: len(changes) == 3)
            assert changes == [(None, 1), (1, 2), (2, None)]
            assert cache.documents() == []
            assert cache.staleness() < 5
            stop()
            await client.update(TOPIC, max_producer_per_topic=3)
            await _until(lambda: _value(cache.get(TOPIC)) == 3)
            assert len(changes) == 3
        assert cache.closed
        assert _value(cache.get(TOPIC)) == 3


async def test_the_synchronous_cache_has_the_snapshot_and_calls_listeners(server: Server) -> None:
    def use() -> list[tuple[int | None, int | None]]:
        changes: list[tuple[int | None, int | None]] = []
        with tp.Client(server.address) as client, client.cache(topics=[TOPIC]) as cache:
            assert cache.wait_synced(20)
            assert cache.get(TOPIC) is None
            cache.listen(lambda change: changes.append(_values(change)))
            client.update(TOPIC, max_producer_per_topic=1)
            while _value(cache.get(TOPIC)) != 1:
                time.sleep(0.005)
            assert [_value(document) for document in cache.documents()] == [1]
        assert cache.closed
        assert cache.error is None
        return changes

    async with asyncio.timeout(30):
        assert await asyncio.to_thread(use) == [(None, 1)]


async def test_a_cache_keeps_its_documents_while_the_server_is_down_and_catches_up_later(tmp_path: Path) -> None:
    log = EmbeddedLogConfig(path=tmp_path / "policies.db")
    async with _server(log) as first:
        client = tp.AsyncClient(first.address, retries=FAST_RETRIES)
        await client.update(TOPIC, max_producer_per_topic=1)
        cache = client.cache(namespaces=[NAMESPACE], bookmark_interval=1)
        assert await cache.wait_synced(20)
    await _until(lambda: cache.staleness() > 1.2 and bool(cache.problem))
    assert cache.staleness(NAMESPACE) > 1.2
    assert cache.synced()
    assert _value(cache.get(TOPIC)) == 1
    async with _server(log, first.address):
        await client.update(TOPIC, max_producer_per_topic=2)
        await _until(lambda: _value(cache.get(TOPIC)) == 2 and cache.staleness() < 1)
        assert not cache.problem
        await cache.close()
        await client.close()


async def test_a_cache_that_can_not_follow_raises_the_reason(server: Server) -> None:
    async with tp.AsyncClient(server.address) as client:
        with pytest.raises(tp.InvalidArgument):
            client.cache()
        cache = client.cache(namespaces=["not a namespace"])
        with pytest.raises(tp.InvalidArgument):
            await cache.wait_synced(20)
        assert isinstance(cache.error, tp.InvalidArgument)
        assert cache.staleness() == float("inf")
        unsynced = client.cache(namespaces=[NAMESPACE])
        await unsynced.close()
        if not unsynced.synced():
            with pytest.raises(tp.TopicPoliciesError, match="closed"):
                await unsynced.wait_synced()


async def test_a_listener_that_raises_is_logged_and_does_not_stop_the_cache_or_other_listeners(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async with tp.AsyncClient(server.address) as client, client.cache(topics=[TOPIC]) as cache:
        assert await cache.wait_synced(20)
        changes: list[str] = []

        def fail(_: tp.Change) -> None:
            raise RuntimeError("a bad listener")

        cache.listen(fail)
        cache.listen(lambda change: changes.append(change.topic))
        with caplog.at_level(logging.ERROR):
            await client.update(TOPIC, max_producer_per_topic=1)
            await client.update(TOPIC, max_producer_per_topic=2)
            await _until(lambda: _value(cache.get(TOPIC)) == 2)
        assert changes
        assert "a listener failed on a change of" in caplog.text
        assert not cache.closed
