"""Work in flight is limited: waiting work has its turn in order, and work that hangs delays no other for long."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from topicpolicies_server.fair_limit import FairLimiter, NoPlaceError

HERE = "acme/orders"


async def test_a_free_place_is_taken_at_once_whatever_the_time_limit() -> None:
    limiter = FairLimiter(1, 1, 1.0)
    async with limiter.place(HERE, -1.0):
        with pytest.raises(NoPlaceError):
            async with limiter.place(HERE, 0.01):
                pass
    async with limiter.place(HERE, 0.0):
        pass


async def test_places_are_given_in_the_order_of_requests() -> None:
    limiter, had = FairLimiter(2, 1, 1.0), list[int]()

    async def wait(number: int) -> None:
        async with limiter.place(number, 10.0):
            had.append(number)
            await asyncio.sleep(0.001 * (number % 3))

    tasks = [asyncio.create_task(wait(number)) for number in range(50)]
    await asyncio.sleep(0)
    tasks[20].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert had == [number for number in range(50) if number != 20]


@pytest.mark.parametrize("seed", range(20))
async def test_no_place_is_lost_or_taken_twice_whichever_requests_time_out_or_are_cancelled(seed: int) -> None:
    chance, limiter = random.Random(seed), FairLimiter(3, 3, 1.0)
    had = most = 0

    async def ask() -> None:
        nonlocal had, most
        try:
            async with limiter.place(object(), chance.choice((0.0, 0.001, 0.002, 10.0))):
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
    async with limiter.place("a", 0.0), limiter.place("b", 0.0), limiter.place("c", 0.0):
        with pytest.raises(NoPlaceError):
            async with limiter.place("d", 0.0):
                pass


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_one_subject_has_half_of_the_places_and_its_other_work_waits_for_its_own() -> None:
    limiter = FairLimiter(4, 4, 60.0)

    async def hang() -> None:
        async with limiter.place("bad"):
            await asyncio.sleep(60)

    tasks = [asyncio.create_task(hang()) for _ in range(20)]
    await asyncio.sleep(0)
    with pytest.raises(NoPlaceError, match="of the same kind"):
        async with limiter.place("bad", 0.01):
            pass
    async with limiter.place("a", 0.0), limiter.place("b", 0.0):
        with pytest.raises(NoPlaceError, match="too many other"):
            async with limiter.place("c", 0.01):
                pass
    await _end(tasks)
    async with limiter.place("bad", 0.0), limiter.place("bad", 0.0):
        pass


async def test_work_without_progress_gives_its_place_to_others_and_goes_on() -> None:
    limiter, ended = FairLimiter(2, 4, 0.05), list[int]()

    async def hang(number: int) -> None:
        async with limiter.place(number):
            await asyncio.sleep(1.0)
            ended.append(number)

    tasks = [asyncio.create_task(hang(number)) for number in range(4)]
    await asyncio.sleep(0)
    began = time.monotonic()
    async with limiter.place("good"):
        assert 0.08 < time.monotonic() - began < 0.8, "two pairs before it, 0.05 s each"
    await asyncio.gather(*tasks)
    assert ended == [0, 1, 2, 3]


async def test_no_more_work_goes_on_without_a_place_than_allowed() -> None:
    limiter, free = FairLimiter(1, 2, 0.02), asyncio.Event()

    async def hang(number: int) -> None:
        async with limiter.place(number):
            await free.wait()

    tasks = [asyncio.create_task(hang(number)) for number in range(3)]
    await asyncio.sleep(0.2)
    with pytest.raises(NoPlaceError):
        async with limiter.place("good", 0.1):
            pass
    free.set()
    await asyncio.gather(*tasks)
    async with limiter.place("good", 0.0):
        with pytest.raises(NoPlaceError):
            async with limiter.place("other", 0.0):
                pass


async def test_work_that_makes_progress_keeps_its_place() -> None:
    limiter, progress = FairLimiter(1, 1, 0.05), 0

    async def go_on() -> None:
        nonlocal progress
        async with limiter.place("large", progress=lambda: progress):
            for _ in range(30):
                progress += 1
                await asyncio.sleep(0.01)

    large = asyncio.create_task(go_on())
    await asyncio.sleep(0)
    with pytest.raises(NoPlaceError):
        async with limiter.place("other", 0.2):
            pass
    await large


@pytest.mark.parametrize("seed", range(20))
async def test_no_place_is_lost_whatever_hangs_fails_and_is_cancelled(seed: int) -> None:
    chance, limiter, in_flight, most = random.Random(seed), FairLimiter(2, 3, 0.002), 0, 0

    async def ask(about: int) -> None:
        nonlocal in_flight, most
        async with limiter.place(about, chance.choice((0.0, 0.003, 10.0))):
            in_flight += 1
            most = max(most, in_flight)
            try:
                await asyncio.sleep(chance.choice((0.0, 0.001, 0.004, 0.01)))
                if chance.random() < 0.2:
                    raise ValueError
            finally:
                in_flight -= 1

    tasks = []
    for _ in range(200):
        tasks.append(asyncio.create_task(ask(chance.randrange(5))))
        if chance.random() < 0.3:
            chance.choice(tasks).cancel()
        await asyncio.sleep(chance.choice((0.0, 0.0, 0.001)))
    async with asyncio.timeout(20):
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(result is None or isinstance(result, (NoPlaceError, ValueError, asyncio.CancelledError)) for result in results)
    assert most <= 2 + 3
    async with limiter.place("a", 0.0), limiter.place("b", 0.0):
        with pytest.raises(NoPlaceError):
            async with limiter.place("c", 0.0):
                pass
