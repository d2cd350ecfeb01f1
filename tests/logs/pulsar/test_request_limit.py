"""Requests to the admin API are limited to one per connection. Others wait in order, and waiting costs no processor time."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar.admin import Admin
from topicpolicies_server.logs.pulsar.admin.api import _CONNECTIONS
from topicpolicies_server.logs.pulsar.admin.request_limit import NoPlaceError, RequestLimiter


class Broker:
    """A broker that answers when the test lets it, and counts concurrent requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.most = 0
        self.answering = asyncio.Event()
        self._open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                while (await reader.readline()).strip():
                    pass
                self.asked.append(line.decode().split()[1].rpartition("/")[2])
                self._open += 1
                self.most = max(self.most, self._open)
                await self.answering.wait()
                await asyncio.sleep(0.001)  # meanwhile other requests arrive
                self._open -= 1
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        finally:
            writer.close()


@asynccontextmanager
async def asking(broker: Broker) -> AsyncIterator[Admin]:
    listening = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    async with listening:
        admin = Admin(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}")
        try:
            yield admin
        finally:
            broker.answering.set()
            await admin.close()


async def _all(admin: Admin, count: int) -> float:
    """Sends ``count`` requests at once; returns the processor time per request."""
    began = time.process_time()
    await asyncio.gather(*(admin.get("a", str(number), seconds=60.0) for number in range(count)))
    return (time.process_time() - began) / count


async def test_the_number_of_concurrent_requests_is_limited_and_waiting_ones_cost_little() -> None:
    broker = Broker()
    broker.answering.set()
    async with asking(broker) as admin:
        await _all(admin, 100)
        few = min([await _all(admin, 200) for _ in range(3)])
        broker.asked.clear()
        many = await _all(admin, 3_000)
    assert broker.most == _CONNECTIONS
    assert len(broker.asked) == 3_000
    assert many < 3 * few, "with the library's own queue it is some thirty times as long"


async def test_a_request_without_a_connection_in_time_fails_and_a_cancelled_one_leaves_the_queue() -> None:
    broker = Broker()
    async with asking(broker) as admin:
        hanging = [asyncio.create_task(admin.get("a", str(number))) for number in range(_CONNECTIONS)]
        while len(broker.asked) < _CONNECTIONS:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        with pytest.raises(LogError, match="too many other requests wait before it") as refused:
            await admin.get("a", "late", seconds=0.2)
        assert refused.value.reason == Reason.PULSAR_ADMIN_UNREACHABLE
        gone = asyncio.create_task(admin.get("a", "gone"))
        last = asyncio.create_task(admin.get("a", "last"))
        await asyncio.sleep(0.05)
        gone.cancel()
        broker.answering.set()
        assert await asyncio.gather(*hanging) == [{}] * _CONNECTIONS
        assert await last == {}
    assert broker.asked[_CONNECTIONS:] == ["last"]


async def test_waiting_requests_fail_when_the_client_is_closed() -> None:
    broker = Broker()
    async with asking(broker) as admin:
        tasks = [asyncio.create_task(admin.get("a", str(number))) for number in range(3 * _CONNECTIONS)]
        while len(broker.asked) < _CONNECTIONS:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        async with asyncio.timeout(10):
            await admin.close()
            for had in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(had, LogError) and "was closed" in had.message
    assert len(broker.asked) == _CONNECTIONS


async def test_a_free_place_is_taken_at_once_whatever_the_time_limit() -> None:
    limiter = RequestLimiter(1)
    async with limiter.place(-1.0):
        with pytest.raises(NoPlaceError):
            async with limiter.place(0.01):
                pass
    async with limiter.place(0.0):
        pass


async def test_places_are_given_in_the_order_of_requests() -> None:
    limiter, had = RequestLimiter(2), list[int]()

    async def wait(number: int) -> None:
        async with limiter.place(10.0):
            had.append(number)
            await asyncio.sleep(0.001 * (number % 3))

    tasks = [asyncio.create_task(wait(number)) for number in range(50)]
    await asyncio.sleep(0)
    tasks[20].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert had == [number for number in range(50) if number != 20]


async def _let_go(count: int, *, last_first: bool) -> float:
    """Cancels ``count`` waiting tasks; returns the processor time."""
    limiter, over = RequestLimiter(1), asyncio.Event()

    async def wait() -> None:
        async with limiter.place(60.0):
            await over.wait()

    first, *others = [asyncio.create_task(wait()) for _ in range(count)]
    await asyncio.sleep(0)
    began = time.process_time()
    for task in reversed(others) if last_first else others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    took = time.process_time() - began
    over.set()
    await first
    return took


async def test_cancelling_waiting_requests_is_as_fast_from_the_end_of_a_long_queue_as_from_its_front() -> None:
    front = min([await _let_go(20_000, last_first=False) for _ in range(2)])
    end = min([await _let_go(20_000, last_first=True) for _ in range(2)])
    assert end < 2.5 * front, "it is five times as long if each cancellation searches the queue"


@pytest.mark.parametrize("seed", range(20))
async def test_no_place_is_lost_or_taken_twice_whichever_requests_time_out_or_are_cancelled(seed: int) -> None:
    chance, limiter = random.Random(seed), RequestLimiter(3)
    had = most = 0

    async def ask() -> None:
        nonlocal had, most
        try:
            async with limiter.place(chance.choice((0.0, 0.001, 0.002, 10.0))):
                had += 1
                most = max(most, had)
                try:
                    await asyncio.sleep(0.001 * chance.randrange(3))
                finally:
                    had -= 1
        except NoPlaceError:
            pass

    tasks = []
    for _ in range(200):
        tasks.append(asyncio.create_task(ask()))
        if chance.random() < 0.3:
            chance.choice(tasks).cancel()
        if chance.random() < 0.3:
            await asyncio.sleep(0)
        if chance.random() < 0.1:
            await asyncio.sleep(0.001)
    async with asyncio.timeout(10):
        await asyncio.gather(*tasks, return_exceptions=True)
    assert most == 3
    async with limiter.place(0.0), limiter.place(0.0), limiter.place(0.0):
        with pytest.raises(NoPlaceError):
            async with limiter.place(0.0):
                pass
