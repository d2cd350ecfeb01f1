"""A client that knows more leaders than it keeps connections to closes the oldest connection, even if it is in use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import topicpolicies as tp
from tests.client.fault_service import HANGS, FaultService, serving
from topicpolicies import connections

NAMESPACE = "public/default"
TOPIC = "persistent://public/default/orders"


async def many(client: tp.AsyncClient) -> int:
    updates = [tp.Update(TOPIC, max_producer_per_topic=7)]
    return len([settled async for settled in client.update_many(updates) if settled.error is None])


async def changed(client: tp.AsyncClient) -> int:
    return len((await client.update(TOPIC, max_producer_per_topic=7)).version[:1])


async def read(client: tp.AsyncClient) -> int:
    return len((await client.get(TOPIC)).version[:1])


@pytest.mark.parametrize("call", [read, changed, many])
async def test_calls_over_a_connection_that_is_closed_for_another_are_made_again_and_not_cancelled(
    address: str, monkeypatch: pytest.MonkeyPatch, call: Callable[[tp.AsyncClient], Awaitable[int]]
) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 1)
    leading = FaultService(NAMESPACE)
    leading.faults.append(HANGS)
    async with serving(leading) as leader, tp.AsyncClient(address, timeout=20) as client:
        client._connections.routes._leaders[NAMESPACE] = leader
        calling = asyncio.ensure_future(call(client))
        async with asyncio.timeout(20):
            while not leading.met:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        client._connections.stub("127.0.0.1:1")  # another leader
        assert await asyncio.wait_for(asyncio.shield(calling), 20) == 1
