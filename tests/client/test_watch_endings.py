"""What ends an open watch, and what must not end it."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable

import pytest

import topicpolicies as tp
from tests.client.fault_service import FaultService

NAMESPACE = "public/default"
HASTY = tp.RetryPolicy(first_delay_seconds=0.005, longest_delay_seconds=0.02)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.005)


class Tokens:
    """A token function that fails where it is told so."""

    def __init__(self) -> None:
        self.failing = 0
        """How many of the next calls fail."""

    def __call__(self) -> str:
        if self.failing:
            self.failing -= 1
            raise OSError("the identity provider is away")
        return "token"


async def test_a_watch_whose_token_function_fails_tries_again_as_after_any_broken_stream(address: str) -> None:
    tokens = Tokens()
    async with tp.AsyncClient(address, token=tokens, retries=HASTY) as client:
        tokens.failing = 3
        events: list[tp.WatchEvent] = []
        async with asyncio.timeout(20), client.watch(namespaces=[NAMESPACE]) as watch:
            while not (events and isinstance(events[-1], tp.Synced)):
                events.append(await anext(watch))
    interrupted = [event.error for event in events if isinstance(event, tp.Interrupted)]
    assert sum(isinstance(error.__cause__, OSError) for error in interrupted) == 3


async def test_a_cache_outlives_a_token_function_that_fails_for_a_while(address: str, service: FaultService) -> None:
    tokens = Tokens()
    tokens.failing = 3
    client = tp.Client(address, token=tokens, retries=HASTY)
    cache = client.cache(namespaces=[NAMESPACE])
    assert await asyncio.to_thread(cache.wait_synced, 20)
    service.write(NAMESPACE, "orders", 7)
    await until(lambda: cache.get("public/default/orders") is not None)
    assert (cache.closed, cache.error, tokens.failing) == (False, None, 0)
    await asyncio.to_thread(client.close)


async def test_a_watch_that_nobody_refers_to_any_more_ends(address: str, service: FaultService, caplog: pytest.LogCaptureFixture) -> None:
    async def follow(client: tp.AsyncClient) -> None:
        async for _ in client.watch(namespaces=[NAMESPACE]):
            pass

    async with tp.AsyncClient(address, retries=HASTY) as client:
        followers = [asyncio.create_task(follow(client)) for _ in range(5)]
        await until(lambda: service.watches == 5)
        await asyncio.sleep(0.05)  # they wait for the next event
        for follower in followers:
            follower.cancel()
        await asyncio.wait(followers)
        followers.clear()
        del follower
        gc.collect()
        await until(lambda: service.watches == 0)
    with caplog.at_level(logging.ERROR):
        gc.collect()
    assert not caplog.records


async def test_a_watch_ends_if_the_loop_over_its_events_is_left_and_nobody_refers_to_it(address: str, service: FaultService) -> None:
    async def first(client: tp.AsyncClient) -> tp.WatchEvent:
        async for event in client.watch(namespaces=[NAMESPACE]):
            return event
        raise AssertionError

    async with tp.AsyncClient(address, retries=HASTY) as client:
        for _ in range(5):
            await first(client)
        gc.collect()
        await until(lambda: service.watches == 0)
        await until(lambda: not any("_AioCall" in repr(task) for task in asyncio.all_tasks()))  # gRPC's tasks for a client's stream


async def test_a_watch_goes_on_when_the_task_that_waited_for_its_next_event_was_cancelled(address: str, service: FaultService) -> None:
    async with tp.AsyncClient(address) as client, client.watch(namespaces=[NAMESPACE]) as watch:
        while not isinstance(await anext(watch), tp.Synced):
            pass
        for number in range(1, 4):
            waiting = asyncio.create_task(anext(watch))
            await asyncio.sleep(0.02)
            waiting.cancel()
            await asyncio.wait([waiting])
            gc.collect()
            service.write(NAMESPACE, "orders", number)
            event = await asyncio.wait_for(anext(watch), 10)
            while not isinstance(event, tp.Changed):
                event = await asyncio.wait_for(anext(watch), 10)
            assert event.document.policies is not None
            assert event.document.policies.max_producer_per_topic == number
        assert service.watches == 1
