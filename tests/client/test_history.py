"""The history as the clients tell it, from a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from topicpolicies import ActorStanding, AsyncClient, Client, HistoryEntry, HistoryKind, HistoryOutcome, OutOfRange, Scope
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server

TOPIC = "persistent://public/default/orders"


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    config = ServerConfig(
        log=EmbeddedLogConfig(path=tmp_path / "p.db"), listen=parse_address("127.0.0.1:0"), history=HistoryConfig(path=tmp_path / "h.db")
    )
    async with Server(config) as server:
        yield server.address


async def test_the_history_and_documents_as_they_were(address: str) -> None:
    async with AsyncClient(address, actor="ann") as client:
        first = await client.update(TOPIC, max_producer_per_topic=1)
        await asyncio.sleep(0.01)
        between = datetime.now(UTC)
        await asyncio.sleep(0.01)
        await client.update(TOPIC, max_producer_per_topic=2)
        pages = [page async for page in client.history_pages(topic=TOPIC, page_size=1)]
        assert [len(page.entries) for page in pages] == [1, 1]
        newest, oldest = (page.entries[0] for page in pages)
        assert (newest.kind, newest.outcome, newest.actor) == (HistoryKind.UPDATE, HistoryOutcome.APPLIED, "ann")
        assert newest.actor_standing is ActorStanding.UNAUTHENTICATED
        assert newest.previous_version == oldest.version == first.version
        assert newest.changed == newest.update_mask == ("max_producer_per_topic",)
        assert newest.before is not None
        assert newest.before.max_producer_per_topic == 1
        assert timedelta() <= newest.time - oldest.time < timedelta(minutes=1)
        assert pages[0].following
        assert pages[0].gaps == ()
        for moment in (between, between.astimezone().replace(tzinfo=None), first.version):
            then = await client.get_as_of(TOPIC, moment)
            assert then.policies is not None
            assert (then.policies.max_producer_per_topic, then.version) == (1, first.version)
        assert not (await client.get_as_of(TOPIC, between, scope=Scope.GLOBAL)).exists
        with pytest.raises(OutOfRange):
            await client.get_as_of(TOPIC, "nonsense")


async def test_both_clients_tell_the_same(address: str) -> None:
    def told() -> list[HistoryEntry]:
        with Client(address, actor="bob") as client:
            for number in (1, 2, 3):
                client.update(TOPIC, max_producer_per_topic=number)
            pages = client.history_pages(namespace="public/default", oldest_first=True, start=datetime(2020, 1, 1, tzinfo=UTC), actor="bob")
            return [entry for page in pages for entry in page.entries]

    entries = await asyncio.to_thread(told)
    assert [entry.after.max_producer_per_topic for entry in entries if entry.after is not None] == [1, 2, 3]
    async with AsyncClient(address) as client:
        pages = client.history_pages(namespace="public/default", oldest_first=True, page_size=2)
        assert [entry async for page in pages for entry in page.entries] == entries
