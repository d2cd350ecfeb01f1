"""Requests to the admin API are limited. Others wait in order, not for long behind those that hang, and at no cost of processor time."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.fair_limit import FairLimiter, GivenUpError, NoPlaceError
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar.admin import Admin
from topicpolicies_server.logs.pulsar.admin.connections import QUICK, QUICK_SECONDS

HERE = "acme/orders"


class Broker:
    """A broker that answers when the test lets it, and counts concurrent requests. It answers nothing about ``hanging``."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.hanging: set[str] = set()
        self.dripping: set[str] = set()
        """What is answered byte by byte, in 1.5 seconds."""
        self.long = 0
        self.most = 0
        self.answering = asyncio.Event()
        self.released = asyncio.Event()
        """Set when what hangs is answered."""
        self._open = 0

    def release(self) -> None:
        """Answers what hangs, and hangs no more."""
        self.hanging.clear()
        self.released.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                while (await reader.readline()).strip():
                    pass
                path = line.decode().split()[1]
                self.asked.append(path.rpartition("/")[2])
                if any(f"/{name}/" in path for name in self.hanging):
                    await self.released.wait()
                self._open += 1
                self.most = max(self.most, self._open)
                await self.answering.wait()
                await asyncio.sleep(0.001)  # meanwhile other requests arrive
                self._open -= 1
                if any(f"/{name}/" in path for name in self.dripping):
                    self.long += 1
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 32\r\n\r\n")
                    for byte in "{}".ljust(32):
                        writer.write(byte.encode())
                        await writer.drain()
                        await asyncio.sleep(0.05)
                    continue
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
    assert broker.most == QUICK
    assert len(broker.asked) == 3_000
    assert many < 3 * few, "with the library's own queue it is some thirty times as long"


async def test_a_request_without_a_connection_in_time_fails_and_a_cancelled_one_leaves_the_queue() -> None:
    broker = Broker()
    async with asking(broker) as admin:
        hanging = [asyncio.create_task(admin.get("a", str(number))) for number in range(QUICK)]
        while len(broker.asked) < QUICK:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        with pytest.raises(LogError, match="too many other requests wait before it") as refused:
            await admin.get("a", "late", seconds=0.2)
        assert refused.value.reason == Reason.PULSAR_ADMIN_UNREACHABLE
        gone = asyncio.create_task(admin.get("a", "gone"))
        last = asyncio.create_task(admin.get("a", "last"))
        await asyncio.sleep(0.05)
        gone.cancel()
        broker.answering.set()
        assert await asyncio.gather(*hanging) == [{}] * QUICK
        assert await last == {}
    assert broker.asked[QUICK:] == ["last"]


async def test_waiting_requests_fail_when_the_client_is_closed() -> None:
    broker = Broker()
    async with asking(broker) as admin:
        tasks = [asyncio.create_task(admin.get("a", str(number))) for number in range(3 * QUICK)]
        while len(broker.asked) < QUICK:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        async with asyncio.timeout(10):
            await admin.close()
            for had in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(had, LogError) and "was closed" in had.message
    assert len(broker.asked) == QUICK


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


async def _let_go(count: int, *, last_first: bool) -> float:
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
    front = min([await _let_go(20_000, last_first=False) for _ in range(2)])
    end = min([await _let_go(20_000, last_first=True) for _ in range(2)])
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


async def _told(admin: Admin, name: str, seconds: float = 15.0) -> float:
    """Asks one question about a namespace: the seconds until its answer."""
    began = time.monotonic()
    assert await admin.get("persistent", "acme", name, "__change_events", "internalStats", seconds=seconds) == {}
    return time.monotonic() - began


def _hang(admin: Admin, name: str, count: int, seconds: float = 15.0) -> list[asyncio.Task[float]]:
    return [asyncio.create_task(_told(admin, name, seconds)) for _ in range(count)]


async def test_questions_about_one_namespace_that_hang_hold_up_no_other_namespace() -> None:
    broker = Broker()
    broker.answering.set()
    broker.hanging.add("bad")
    async with asking(broker) as admin:
        hanging = _hang(admin, "bad", 3 * QUICK)
        await asyncio.sleep(0.1)
        assert await _told(admin, "first") < 3 * QUICK_SECONDS + 0.5, "it was 15 s: until those had their 5 s, three times"
        hanging += _hang(admin, "bad", 100)
        assert max(await asyncio.gather(*(_told(admin, f"other-{number}") for number in range(100)))) < 0.5, "nobody waits any more"
        broker.release()
        await asyncio.gather(*hanging)


async def test_a_namespace_that_hung_is_asked_about_as_before_once_it_has_answered() -> None:
    broker = Broker()
    broker.answering.set()
    broker.hanging.add("bad")
    async with asking(broker) as admin:
        hanging = _hang(admin, "bad", QUICK)
        await asyncio.sleep(QUICK_SECONDS + 0.2)
        broker.asked.clear()
        hanging += _hang(admin, "bad", 50)
        await asyncio.sleep(0.2)
        assert broker.asked == [], "an answer to those that hang is waited for"
        broker.release()
        broker.most = 0
        assert max(await asyncio.gather(*hanging)) < QUICK_SECONDS + 2.0
        assert broker.most == QUICK, "as many as ever"


async def test_who_waits_behind_a_question_that_hangs_is_told_so() -> None:
    broker = Broker()
    broker.hanging.add("bad")
    async with asking(broker) as admin:
        hanging = _hang(admin, "bad", 1)
        await asyncio.sleep(QUICK_SECONDS + 0.2)
        with pytest.raises(LogError, match="an earlier request of the same kind is not answered"):
            await _told(admin, "bad", 0.2)
        broker.release()
        broker.answering.set()
        await asyncio.gather(*hanging)


async def test_where_more_namespaces_hang_than_have_places_the_eldest_question_is_given_up() -> None:
    limiter, ended = FairLimiter(2, 4, 0.05), list[int]()

    async def hang(number: int) -> None:
        try:
            async with limiter.place(number, 60.0):
                await asyncio.sleep(60)
        except GivenUpError:
            ended.append(number)

    tasks = [asyncio.create_task(hang(number)) for number in range(20)]
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


async def test_a_question_whose_answer_is_on_its_way_is_not_given_up_for_others_that_hang() -> None:
    broker = Broker()
    broker.answering.set()
    broker.dripping.add("long")
    broker.hanging |= {f"bad-{number}" for number in range(20)}
    async with asking(broker) as admin:
        admin._limiter = FairLimiter(2, 2, 0.15)
        hanging = [task for number in range(20) for task in _hang(admin, f"bad-{number}", 1)]
        assert await _told(admin, "long") < 5.0
        assert broker.asked.count("internalStats") > 4 and broker.long == 1, "it was not asked again"
        broker.release()
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)


async def test_namespaces_have_their_turns_one_after_the_other() -> None:
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

    async def hang(number: int) -> None:
        try:
            async with limiter.place(number, 60.0):
                await asyncio.sleep(60)
        except GivenUpError:
            ended.append(number)

    large = asyncio.create_task(go_on())
    await asyncio.sleep(0.12)
    tasks = [asyncio.create_task(hang(number)) for number in range(12)]
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


async def test_what_would_answer_again_has_its_turn_however_many_others_hang() -> None:
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
async def test_whatever_hangs_and_comes_back_no_place_is_lost(seed: int) -> None:
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
