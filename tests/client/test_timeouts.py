"""How long calls wait: never longer than their timeout, whatever the service does, and without a bound only if that is requested."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

import topicpolicies as tp
from tests.client.fault_service import HANGS, Fault, FaultService
from topicpolicies.pipelining import Pipeline
from topicpolicies.retries import NO_RETRIES, RetryPolicy
from topicpolicies.routes import Routes
from topicpolicies.timeouts import Watchdog

TOPIC = "persistent://public/default/orders"


def updates(count: int) -> list[tp.Update]:
    return [tp.Update(TOPIC, max_producer_per_topic=value) for value in range(count)]


async def changed(address: str, taken: list[tp.Settled], *, timeout: float) -> None:
    async with tp.AsyncClient(address) as client:
        async for settled in client.update_many(updates(3), timeout=timeout):
            taken.append(settled)


async def changed_in_a_thread(address: str, taken: list[tp.Settled], *, timeout: float) -> None:
    def change() -> None:
        with tp.Client(address) as client:
            taken.extend(client.update_many(updates(3), timeout=timeout))

    await asyncio.to_thread(change)


@pytest.mark.parametrize("change", [changed, changed_in_a_thread])
async def test_an_open_stream_without_results_is_given_up_when_the_patience_ends(
    address: str, service: FaultService, change: Callable[..., Awaitable[None]]
) -> None:
    service.faults.append(HANGS)
    taken: list[tp.Settled] = []
    began = time.monotonic()
    with pytest.raises(tp.DeadlineExceeded, match="There was no answer"):
        await asyncio.wait_for(change(address, taken, timeout=0.5), 15)
    assert 0.4 < time.monotonic() - began < 10
    assert [type(each.error) for each in taken] == [tp.OutcomeUnknown] * 3
    assert all(isinstance(each.error, tp.OutcomeUnknown) and each.error.request_id == each.request_id for each in taken)


async def watched(address: str, taken: list[tp.WatchEvent], *, pause: float = 0.0) -> None:
    async with tp.AsyncClient(address) as client:
        async for event in client.watch(namespaces=["public/default"], patience=0.5):
            taken.append(event)
            await asyncio.sleep(pause)


async def watched_in_a_thread(address: str, taken: list[tp.WatchEvent], *, pause: float = 0.0) -> None:
    def watch() -> None:
        with tp.Client(address) as client:
            for event in client.watch(namespaces=["public/default"], patience=0.5):
                taken.append(event)
                time.sleep(pause)

    await asyncio.to_thread(watch)


@pytest.mark.parametrize("watch", [watched, watched_in_a_thread])
@pytest.mark.parametrize("messages", [0, 1])
async def test_a_watch_over_an_open_stream_without_messages_is_given_up_when_the_patience_ends(
    address: str, service: FaultService, watch: Callable[..., Awaitable[None]], messages: int
) -> None:
    service.write("public/default", "orders", 1)
    service.faults.append(Fault(None, after=messages))
    taken: list[tp.WatchEvent] = []
    began = time.monotonic()
    with pytest.raises(tp.DeadlineExceeded, match="silent for too long"):
        await asyncio.wait_for(watch(address, taken), 15)
    assert 0.4 < time.monotonic() - began < 10
    assert bool(taken) is bool(messages)
    assert service.met["WatchPolicies"] == 1


@pytest.mark.parametrize("watch", [watched, watched_in_a_thread])
async def test_the_time_that_a_slow_caller_takes_is_not_counted_against_a_watch(
    address: str, service: FaultService, watch: Callable[..., Awaitable[None]]
) -> None:
    for number in range(3):
        service.write("public/default", f"orders-{number}", 1)
    service.faults.append(Fault(None, after=3))
    taken: list[tp.WatchEvent] = []
    with pytest.raises(tp.DeadlineExceeded, match="silent for too long"):
        await asyncio.wait_for(watch(address, taken, pause=0.6), 15)
    assert len(taken) >= 3


async def test_the_time_that_a_slow_caller_takes_is_not_counted_against_the_service(address: str) -> None:
    taken = []
    async with tp.AsyncClient(address) as client:
        async for settled in client.update_many(updates(3), timeout=0.3):
            taken.append(settled.unwrap())
            await asyncio.sleep(0.4)
    assert len(taken) == 3

    def slowly() -> int:
        count = 0
        with tp.Client(address) as client:
            for settled in client.update_many(updates(3), timeout=0.3):
                settled.unwrap()
                time.sleep(0.4)
                count += 1
        return count

    assert await asyncio.to_thread(slowly) == 3


async def test_the_time_that_a_slow_source_takes_is_not_counted_against_the_service(address: str) -> None:
    async def source() -> AsyncIterator[tp.Update]:
        for update in updates(2):
            yield update
            await asyncio.sleep(0.4)

    service_answers_at_once = updates(1)  # every fifth change, beginning with the first, is answered at once
    async with tp.AsyncClient(address) as client:
        assert [each.sequence async for each in client.update_many(service_answers_at_once, timeout=0.3)] == [0]
        slow = client.update_many((each async for each in source()), timeout=2)
        assert [each.sequence async for each in slow] == [0, 1]


def test_time_during_which_results_are_not_read_does_not_use_up_the_patience() -> None:
    pipe = Pipeline(RetryPolicy(), Routes(("here",)), max_in_flight=4, patience_seconds=10, now=0.0)
    pipe.add(updates(1)[0], 0.0)
    assert pipe.patience_left(4.0) == 6
    pipe.excuse(4.0, 9.0)
    assert pipe.patience_left(9.0) == 6
    pipe.add(updates(1)[0], 9.0)
    assert pipe.patience_left(100.0) == 0


def test_without_retries_a_broken_stream_is_given_up_even_with_unbounded_patience() -> None:
    pipe = Pipeline(NO_RETRIES, Routes(("here",)), max_in_flight=4, patience_seconds=math.inf, now=0.0)
    pipe.add(updates(1)[0], 0.0)
    pipe.connect()
    assert pipe.broke(tp.Unavailable("Socket closed"), 1.0, 0.5) is None


def test_a_watchdog_expires_only_during_a_wait_that_is_too_long() -> None:
    expired = threading.Event()
    watchdog = Watchdog(expired.set)
    for seconds in (20.0, math.inf, 1e12, 20.0):
        watchdog.begin(seconds)
        watchdog.end()
    assert not expired.wait(0.05)
    began = time.monotonic()
    watchdog.begin(0.1)
    assert expired.wait(10)
    assert time.monotonic() - began >= 0.1
    assert watchdog.expired
    watchdog.close()


@pytest.mark.parametrize("timeout", [math.inf, 1e12, 10**400], ids=["infinite", "long", "too large for a float"])
async def test_calls_accept_an_unbounded_timeout(address: str, timeout: float) -> None:
    async with tp.AsyncClient(address, timeout=timeout) as client, client.cache(namespaces=["public/default"]) as cache:
        assert (await client.get(TOPIC)).version == "v0"
        assert (await client.update(TOPIC, max_producer_per_topic=1, timeout=timeout)).version == "v1"
        assert [each.sequence async for each in client.update_many(updates(2), timeout=timeout)] == [0, 1]
        assert await cache.wait_synced(timeout)

    def synchronously() -> None:
        with tp.Client(address) as client, client.cache(namespaces=["public/default"]) as cache:
            assert client.get(TOPIC, timeout=timeout).policies is not None
            assert client.update(TOPIC, max_producer_per_topic=5, timeout=timeout).document is not None
            assert len(list(client.update_many(updates(2), timeout=timeout))) == 2
            assert cache.wait_synced(timeout)

    await asyncio.to_thread(synchronously)


@pytest.mark.parametrize("timeout", [math.nan, "5"])
async def test_a_timeout_that_is_not_a_number_is_refused(timeout: float) -> None:
    with tp.Client("127.0.0.1:1") as client:
        with pytest.raises(tp.InvalidArgument, match="timeout must be a number of seconds"):
            client.get(TOPIC, timeout=timeout)
        with pytest.raises(tp.InvalidArgument):
            client.update_many([], timeout=timeout)
    async with tp.AsyncClient("127.0.0.1:1") as aclient:
        with pytest.raises(tp.InvalidArgument):
            await aclient.get(TOPIC, timeout=timeout)
        with pytest.raises(tp.InvalidArgument):
            aclient.update_many([], timeout=timeout)
    with pytest.raises(tp.InvalidArgument):
        tp.Client(timeout=timeout)


@pytest.mark.parametrize("most", [0, -1, 1.5])
async def test_a_max_in_flight_that_is_not_a_positive_whole_number_is_refused(most: int) -> None:
    with tp.Client("127.0.0.1:1") as client, pytest.raises(tp.InvalidArgument, match="max_in_flight"):
        client.update_many(updates(1), max_in_flight=most)
    async with tp.AsyncClient("127.0.0.1:1") as aclient:
        with pytest.raises(tp.InvalidArgument, match="max_in_flight"):
            aclient.update_many(updates(1), max_in_flight=most)
