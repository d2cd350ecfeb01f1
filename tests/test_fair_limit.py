"""Work in flight is limited: waiting work has its turn in order, and work that hangs delays no other for long."""

from __future__ import annotations

import asyncio
import itertools
import random
import time

import pytest

from topicpolicies_server.fair_limit import FairLimiter, GivenUpError, NoPlaceError

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
        async with limiter.place(HERE, 10.0):
            had.append(number)
            await asyncio.sleep(0.001 * (number % 3))

    tasks = [asyncio.create_task(wait(number)) for number in range(50)]
    await asyncio.sleep(0)
    tasks[20].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert had == [number for number in range(50) if number != 20]


async def _cancelling_seconds(count: int, *, last_first: bool) -> float:
    """Cancels ``count`` waiting tasks; returns the processor time."""
    limiter, over = FairLimiter(1, 1, 1.0), asyncio.Event()

    async def wait() -> None:
        async with limiter.place(HERE, 60.0):
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
    front = min([await _cancelling_seconds(20_000, last_first=False) for _ in range(2)])
    end = min([await _cancelling_seconds(20_000, last_first=True) for _ in range(2)])
    assert end < 2.5 * front, "it is five times as long if each cancellation searches the queue"


@pytest.mark.parametrize("seed", range(20))
async def test_no_place_is_lost_or_taken_twice_whichever_requests_time_out_or_are_cancelled(seed: int) -> None:
    chance, limiter = random.Random(seed), FairLimiter(3, 3, 1.0)
    had = most = 0

    async def ask() -> None:
        nonlocal had, most
        try:
            async with limiter.place(HERE, chance.choice((0.0, 0.001, 0.002, 10.0))):
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
    async with limiter.place(HERE, 0.0), limiter.place(HERE, 0.0), limiter.place(HERE, 0.0):
        with pytest.raises(NoPlaceError):
            async with limiter.place(HERE, 0.0):
                pass


async def hang(number: int, limiter: FairLimiter, ended: list[int]) -> None:
    """Works without an end on the subject ``number``, and notes there if it is given up."""
    try:
        async with limiter.place(number, 60.0):
            await asyncio.sleep(60)
    except GivenUpError:
        ended.append(number)


async def test_if_more_subjects_hang_than_there_are_places_the_oldest_work_is_given_up() -> None:
    limiter, ended = FairLimiter(2, 4, 0.05), list[int]()
    tasks = [asyncio.create_task(hang(number, limiter, ended)) for number in range(20)]
    await asyncio.sleep(0)
    began = time.monotonic()
    async with asyncio.timeout(10), limiter.place("good", 60.0):
        assert 0.4 < time.monotonic() - began < 2.0, "ten pairs before it, 0.05 s each"
    assert ended == sorted(ended) and len(ended) in (14, 15, 16)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    async with limiter.place("a", 0.0), limiter.place("b", 0.0):
        with pytest.raises(NoPlaceError, match="too many"):
            async with limiter.place("c", 0.0):
                pass


async def test_waiting_subjects_take_turns() -> None:
    limiter, had, free = FairLimiter(1, 1, 1.0), list[str](), asyncio.Event()

    async def ask(about: str) -> None:
        async with limiter.place(about, 10.0):
            had.append(about)
            await free.wait()

    tasks = [asyncio.create_task(ask(about)) for about in "aaaabcb"]
    await asyncio.sleep(0)
    free.set()
    await asyncio.gather(*tasks)
    assert "".join(had) == "aabcaba"


async def test_work_that_makes_progress_is_not_given_up_for_work_that_hangs() -> None:
    limiter, progress, ended = FairLimiter(2, 4, 0.1), 0, list[int]()

    async def go_on() -> None:
        nonlocal progress
        async with limiter.place("large", progress=lambda: progress):
            await asyncio.sleep(0.15)  # it is slow at first
            for _ in range(40):
                progress += 1
                await asyncio.sleep(0.03)

    large = asyncio.create_task(go_on())
    await asyncio.sleep(0.12)
    tasks = [asyncio.create_task(hang(number, limiter, ended)) for number in range(12)]
    await large
    assert ended[:5] == [0, 1, 2, 3, 4], "others had their turns meanwhile"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_work_that_hangs_waits_in_its_place_while_all_slow_work_makes_progress() -> None:
    limiter, over = FairLimiter(1, 2, 0.05), asyncio.Event()
    progress = itertools.count()

    async def go_on(number: int) -> None:
        async with limiter.place(number, 10.0, lambda: next(progress) if begun else None):
            await over.wait()

    begun = False
    going_on = [asyncio.create_task(go_on(number)) for number in range(2)]
    await asyncio.sleep(0.15)
    begun = True
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3), limiter.place("hangs", 10.0):
            await asyncio.sleep(60)
    over.set()
    await asyncio.gather(*going_on)


async def test_a_subject_that_answers_again_has_its_turn_however_many_others_hang() -> None:
    limiter = FairLimiter(4, 8, 0.05)

    async def hang(number: int) -> None:
        while True:
            try:
                async with limiter.place(number, 0.5):
                    await asyncio.sleep(0.5)
                    raise ValueError
            except (NoPlaceError, GivenUpError, ValueError):
                await asyncio.sleep(0.01)

    tasks = [asyncio.create_task(hang(number)) for number in range(60)]
    await asyncio.sleep(1.0)
    with pytest.raises(ValueError, match="did not answer"):
        async with limiter.place("good", 1.0):
            await asyncio.sleep(0.1)
            raise ValueError("it did not answer at that moment")
    async with asyncio.timeout(10):
        while True:
            try:
                async with limiter.place("good", 0.1):
                    break
            except NoPlaceError:
                continue
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("seed", range(20))
async def test_no_place_is_lost_whatever_hangs_and_recovers(seed: int) -> None:
    chance, limiter = random.Random(seed), FairLimiter(2, 3, 0.002)
    in_flight, most = dict[int, int](), 0

    async def ask(about: int) -> None:
        nonlocal most
        async with limiter.place(about, chance.choice((0.0, 0.003, 10.0))):
            in_flight[about] = in_flight.get(about, 0) + 1
            most = max(most, sum(in_flight.values()))
            try:
                await asyncio.sleep(chance.choice((0.0, 0.001, 0.004, 0.01)))
                if chance.random() < 0.2:
                    raise ValueError
            finally:
                in_flight[about] -= 1

    tasks = []
    for _ in range(200):
        tasks.append(asyncio.create_task(ask(chance.randrange(5))))
        if chance.random() < 0.3:
            chance.choice(tasks).cancel()
        await asyncio.sleep(chance.choice((0.0, 0.0, 0.001)))
    async with asyncio.timeout(20):
        results = await asyncio.gather(*tasks, return_exceptions=True)
    kinds = (NoPlaceError, GivenUpError, ValueError, asyncio.CancelledError)
    assert all(result is None or isinstance(result, kinds) for result in results)
    assert most <= 2 + 3 + 2, "those that are given up may end a turn after the next have begun"
    assert not limiter._subjects and not limiter._slow and not limiter._turns and not limiter._silent_turns
    assert limiter._free == 2
