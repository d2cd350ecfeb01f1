"""An asyncio client belongs to one event loop: in another one, its calls say so, and closing it works."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest

import topicpolicies as tp
from tests.client.fault_service import FaultService

TOPIC = "persistent://public/default/orders"
NAMESPACE = "public/default"
T = TypeVar("T")


async def in_a_loop_of_its_own(begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Runs a coroutine as ``asyncio.run`` does, beside the loop of the service."""
    return await asyncio.to_thread(lambda: asyncio.run(begin()))


async def listed(client: tp.AsyncClient) -> list[tp.Document]:
    return [each async for each in client.list(NAMESPACE)]


async def changed(client: tp.AsyncClient) -> list[tp.Settled]:
    return [each async for each in client.update_many([tp.Update(TOPIC, max_producer_per_topic=1)])]


async def watched(client: tp.AsyncClient) -> tp.WatchEvent:
    return await anext(client.watch(namespaces=[NAMESPACE]))


async def cached(client: tp.AsyncClient) -> bool:
    async with client.cache(namespaces=[NAMESPACE]) as cache:
        return await cache.wait_synced(10)


@pytest.mark.parametrize("first", [lambda client: client.get(TOPIC), watched, changed])
@pytest.mark.parametrize(
    "second",
    [
        lambda client: client.get(TOPIC),
        lambda client: client.update(TOPIC, max_producer_per_topic=1),
        lambda client: client.edit(TOPIC, lambda _: None),
        listed,
        changed,
        watched,
        cached,
    ],
)
async def test_a_client_that_is_used_in_a_second_event_loop_says_so(
    address: str, first: Callable[[tp.AsyncClient], Awaitable[object]], second: Callable[[tp.AsyncClient], Awaitable[object]]
) -> None:
    client = tp.AsyncClient(address)

    async def use(call: Callable[[tp.AsyncClient], Awaitable[object]]) -> object:
        return await call(client)

    await in_a_loop_of_its_own(lambda: use(first))
    with pytest.raises(tp.FailedPrecondition, match=r"another event loop.*Make a client within the loop") as caught:
        await in_a_loop_of_its_own(lambda: use(second))
    assert caught.value.reason == "OTHER_EVENT_LOOP"
    await in_a_loop_of_its_own(client.close)


async def test_an_open_watch_is_not_continued_in_a_second_event_loop_and_goes_on_in_its_own(address: str, service: FaultService) -> None:
    service.write(NAMESPACE, "orders", 1)
    async with tp.AsyncClient(address) as client, client.watch(namespaces=[NAMESPACE]) as watch:

        async def take() -> tp.WatchEvent:
            return await anext(watch)

        assert isinstance(await take(), tp.Changed)
        with pytest.raises(tp.FailedPrecondition, match="another event loop"):
            await in_a_loop_of_its_own(take)
        assert isinstance(await take(), tp.Synced)


async def test_what_was_left_open_in_a_closed_event_loop_can_be_closed_in_another_one(address: str) -> None:
    client = tp.AsyncClient(address)
    opened: list[tp.AsyncWatch | tp.AsyncPolicyCache] = []

    async def open_and_wait() -> None:
        watch, cache = client.watch(namespaces=[NAMESPACE]), client.cache(namespaces=[NAMESPACE])
        opened.extend([watch, cache])
        assert await cache.wait_synced(10)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                async for _ in watch:
                    pass

    async def close() -> None:
        for each in opened:
            await each.close()
        await client.close()

    await in_a_loop_of_its_own(open_and_wait)
    await in_a_loop_of_its_own(close)
    with pytest.raises(tp.TopicPoliciesError, match="The client was closed"):
        await in_a_loop_of_its_own(lambda: listed(client))
