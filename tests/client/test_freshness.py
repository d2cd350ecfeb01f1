"""Results have the time since which the server can't confirm them, or none if it can."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import topicpolicies as tp
from tests.cli.faults import Proxy
from topicpolicies.freshness import UNCONFIRMED_KEY, unconfirmed_since
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, ServerConfig, parse_address
from topicpolicies_server.rpc import deadline_errors
from topicpolicies_server.rpc.server import Server

NAMESPACE = "public/a"
TOPIC = f"persistent://{NAMESPACE}/orders"
SINCE = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)


@pytest.fixture
def proxy() -> Proxy:
    return Proxy()


@pytest.fixture
async def address(tmp_path: Path, proxy: Proxy) -> AsyncIterator[str]:
    """The address of ``proxy`` in front of a server with two documents."""
    (tmp_path / "cluster.toml").write_text(f'cluster = "us"\n[broker]\n[namespaces."{NAMESPACE}"]\n')
    log = EmbeddedLogConfig(path=None, cluster_file=tmp_path / "cluster.toml")
    history = HistoryConfig(path=tmp_path / "history.db")
    async with Server(ServerConfig(log=log, listen=parse_address("127.0.0.1:0"), history=history)) as server:
        async with tp.AsyncClient(server.address) as client:
            await client.update(TOPIC, max_producer_per_topic=1)
            await client.update(f"{TOPIC}-2", max_producer_per_topic=2)
        async with proxy.serving(server.address) as address:
            yield address


def unconfirmed(client: tp.Client) -> dict[str, list[datetime | None]]:
    """Returns the ``unconfirmed_since`` of the results of each read."""
    listing, both = client.list(NAMESPACE, page_size=1), client.get_both(TOPIC)
    documents = list(listing)
    return {
        "get": [client.get(TOPIC).unconfirmed_since],
        "get_both": [both[scope].unconfirmed_since for scope in tp.Scope],
        "list": [listing.unconfirmed_since, *(document.unconfirmed_since for document in documents)],
        "effective": [client.effective(TOPIC).unconfirmed_since],
        "history": [page.unconfirmed_since for page in client.history_pages(topic=TOPIC)],
    }


async def unconfirmed_async(client: tp.AsyncClient) -> dict[str, list[datetime | None]]:
    """Returns the same for the asyncio client."""
    listing, both = client.list(NAMESPACE, page_size=1), await client.get_both(TOPIC)
    documents = [document async for document in listing]
    return {
        "get": [(await client.get(TOPIC)).unconfirmed_since],
        "get_both": [both[scope].unconfirmed_since for scope in tp.Scope],
        "list": [listing.unconfirmed_since, *(document.unconfirmed_since for document in documents)],
        "effective": [(await client.effective(TOPIC)).unconfirmed_since],
        "history": [page.unconfirmed_since async for page in client.history_pages(topic=TOPIC)],
    }


def expected(since: datetime | None) -> dict[str, list[datetime | None]]:
    return {"get": [since], "get_both": [since] * 2, "list": [since] * 3, "effective": [since], "history": [since]}


async def test_each_read_of_both_clients_has_the_time_since_which_it_is_not_confirmed(address: str, proxy: Proxy) -> None:
    async with tp.AsyncClient(address) as client:
        with tp.Client(address) as blocking:
            for since in (None, SINCE, None):
                proxy.unconfirmed_since = since.isoformat() if since is not None else ""
                assert await unconfirmed_async(client) == expected(since)
                assert await asyncio.to_thread(unconfirmed, blocking) == expected(since)


async def test_documents_are_compared_without_their_unconfirmed_since(address: str, proxy: Proxy) -> None:
    async with tp.AsyncClient(address) as client:
        confirmed = await client.get(TOPIC), await client.get(TOPIC, scope=tp.Scope.GLOBAL)
        proxy.unconfirmed_since = SINCE.isoformat()
        assert (await client.get(TOPIC), await client.get(TOPIC, scope=tp.Scope.GLOBAL)) == confirmed


def test_server_and_client_use_the_same_metadata_key() -> None:
    assert UNCONFIRMED_KEY == deadline_errors.UNCONFIRMED_KEY


@pytest.mark.parametrize(
    ("trailing", "since"),
    [
        (None, None),
        ((), None),
        ((("other", "2026-03-01"),), None),
        ((("a", b"\xff"), (UNCONFIRMED_KEY, "2026-03-01T12:00:00.250+00:00")), SINCE),
        (((UNCONFIRMED_KEY, "2026-03-01T14:00:00.250+02:00"),), SINCE),
        (((UNCONFIRMED_KEY, "2026-03-01T12:00:00.250Z"),), SINCE),
        (((UNCONFIRMED_KEY, "2026-03-01T12:00:00.250"),), SINCE),
        (((UNCONFIRMED_KEY, "yesterday"),), None),
        (((UNCONFIRMED_KEY, ""),), None),
        (((UNCONFIRMED_KEY, b"2026"),), None),
    ],
)
def test_a_valid_time_in_the_metadata_is_parsed_to_utc_and_anything_else_is_ignored(
    trailing: tuple[tuple[str, object], ...] | None, since: datetime | None
) -> None:
    found = unconfirmed_since(trailing)
    assert found == since
    assert found is None or found.utcoffset() == timedelta(0)
