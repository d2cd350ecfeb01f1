"""The history of a real server, as the clients read it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from topicpolicies import ActorStanding, AsyncClient, Client, HistoryEntry, HistoryKind, HistoryOutcome, InvalidArgument, OutOfRange, Scope
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


async def test_the_client_reads_the_history_and_past_versions_of_documents(address: str) -> None:
    async with AsyncClient(address, actor="ann") as client:
        first = await client.update(TOPIC, max_producer_per_topic=1)
        await asyncio.sleep(0.01)
        between = datetime.now(UTC)
        await asyncio.sleep(0.01)
        second = await client.update(TOPIC, max_producer_per_topic=2, reason="busy")
        pages = [page async for page in client.history_pages(topic=TOPIC, page_size=1)]
        assert [len(page.entries) for page in pages] == [1, 1]
        newest, oldest = (page.entries[0] for page in pages)
        assert (newest.kind, newest.outcome, newest.origin.actor) == (HistoryKind.UPDATE, HistoryOutcome.APPLIED, "ann")
        assert newest.origin.actor_standing is ActorStanding.UNAUTHENTICATED
        assert newest.origin.reason == "busy"
        assert newest.previous == oldest.document == first.document
        assert newest.document == second.document
        assert newest.changed == newest.origin.update_mask == ("max_producer_per_topic",)
        assert timedelta() <= newest.time - oldest.time < timedelta(minutes=1)
        assert pages[0].following
        assert pages[0].gaps == ()
        for document in (
            await client.get(TOPIC, as_of_time=between),
            await client.get(TOPIC, as_of_time=between.astimezone().replace(tzinfo=None)),
            await client.get(TOPIC, as_of_version=first.version),
        ):
            assert document == first.document
        then = await client.get_both(TOPIC, as_of_time=between)
        assert {scope: document.exists for scope, document in then.items()} == {Scope.LOCAL: True, Scope.GLOBAL: False}
        with pytest.raises(OutOfRange):
            await client.get(TOPIC, as_of_version="nonsense")
        with pytest.raises(InvalidArgument, match="Give only one of"):
            await client.get(TOPIC, as_of_version=first.version, as_of_time=between)


async def test_both_clients_read_the_same_history(address: str) -> None:
    def read() -> list[HistoryEntry]:
        with Client(address, actor="bob") as client:
            for number in (1, 2, 3):
                client.update(TOPIC, max_producer_per_topic=number)
            since = datetime(2020, 1, 1, tzinfo=UTC)
            return list(client.history(namespace="public/default", oldest_first=True, start=since, actor="bob", page_size=1))

    entries = await asyncio.to_thread(read)
    policies = [entry.document.policies for entry in entries if entry.document is not None]
    assert [each.max_producer_per_topic for each in policies if each is not None] == [1, 2, 3]
    async with AsyncClient(address) as client:
        assert [entry async for entry in client.history(namespace="public/default", oldest_first=True, page_size=2)] == entries
