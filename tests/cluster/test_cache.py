"""Answers are cached, bounded and shared; each caller that shares a request gets its outcome, and is cancelled only by itself."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator

import pytest

from topicpolicies_server.cluster.cache import MOST_LEFT, MOST_REFRESHES, Cache, Known, NewestAnswers
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason

_HANGS_SECONDS = 20.0


class Asked:
    """Answers each key with the key itself, once the test sets ``answering``."""

    def __init__(self) -> None:
        self.questions: list[str] = []
        self.answering = asyncio.Event()
        self.behind: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """A future that requests for "behind" await; the test can cancel it."""

    async def __call__(self, key: str) -> str:
        self.questions.append(key)
        await self.answering.wait()
        if key == "behind":
            await self.behind
        return key


@pytest.fixture
async def asked() -> Asked:
    return Asked()


@pytest.fixture
async def cache(asked: Asked) -> Cache[str, str]:
    return Cache(asked, fresh_seconds=10.0, most=3, now=lambda: 0.0)


@pytest.fixture
async def line(asked: Asked) -> AsyncIterator[Cache[str, str]]:
    """A cache whose only place is taken by a request that has no answer yet."""
    cache: Cache[str, str] = Cache(asked, fresh_seconds=10.0, most=3, now=lambda: 0.0, places=asyncio.Semaphore(1))
    first = asyncio.create_task(cache.get("first"))
    await turns_of_the_loop()
    yield cache
    assert await first == "first"
    assert not cache._requests


async def turns_of_the_loop() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def outcome(waiter: asyncio.Task[str]) -> BaseException | str:
    """Returns what a caller got: the answer or the error; ``CancelledError`` if it was cancelled."""
    (had,) = await asyncio.gather(waiter, return_exceptions=True)
    return had


async def test_a_caller_that_shares_the_request_of_a_cancelled_caller_gets_the_answer(cache: Cache[str, str], asked: Asked) -> None:
    first, second = (asyncio.create_task(cache.get("one")) for _ in range(2))
    await turns_of_the_loop()
    first.cancel()
    await turns_of_the_loop()
    asked.answering.set()
    assert isinstance(await outcome(first), asyncio.CancelledError)
    assert await outcome(second) == "one"
    assert asked.questions == ["one"]


async def test_a_caller_that_waits_when_the_cache_is_closed_gets_an_error_and_is_not_cancelled(cache: Cache[str, str]) -> None:
    waiter = asyncio.create_task(cache.get("one"))
    await turns_of_the_loop()
    await cache.close()
    had = await outcome(waiter)
    assert isinstance(had, PolicyError) and (had.kind, had.reason) == (Kind.UNAVAILABLE, Reason.SHUTTING_DOWN)


async def test_a_caller_that_is_cancelled_while_the_cache_closes_is_cancelled(cache: Cache[str, str]) -> None:
    waiter = asyncio.create_task(cache.get("one"))
    await turns_of_the_loop()
    waiter.cancel()
    await cache.close()
    assert isinstance(await outcome(waiter), asyncio.CancelledError)


async def test_a_closed_cache_sends_no_requests_and_answers_only_from_what_it_has(asked: Asked, caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    cache: Cache[str, str] = Cache(asked, fresh_seconds=10.0, most=3, now=lambda: now)
    asked.answering.set()
    assert await cache.get("one") == "one"
    await cache.close()
    now = 9.0
    assert cache.peek("one") == "one"
    now = 11.0
    assert cache.peek("one") is None
    assert await cache.get("one", stale=True) == "one"
    for key in ("one", "two"):
        with pytest.raises(PolicyError, match="stopping") as error:
            await cache.get(key)
        assert error.value.reason == Reason.SHUTTING_DOWN
    await turns_of_the_loop()
    assert asked.questions == ["one"] and caplog.records == []


async def test_a_cancellation_of_what_a_request_awaits_is_an_error_and_cancels_no_caller(
    cache: Cache[str, str], asked: Asked, caplog: pytest.LogCaptureFixture
) -> None:
    asked.answering.set()
    waiters = [asyncio.create_task(cache.get("behind")) for _ in range(2)]
    await turns_of_the_loop()
    asked.behind.cancel()
    for waiter in waiters:
        assert isinstance(await outcome(waiter), RuntimeError)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR and "behind" in record.message
    asked.behind = asyncio.get_running_loop().create_future()
    asked.behind.set_result(None)
    async with asyncio.timeout(_HANGS_SECONDS):
        assert await cache.get("behind") == "behind"


async def test_a_request_without_a_place_is_given_up_when_its_last_caller_is_cancelled(line: Cache[str, str], asked: Asked) -> None:
    for _ in range(2):
        waiters = [asyncio.create_task(line.get("one")) for _ in range(2)]
        await turns_of_the_loop()
        for waiter, left in zip(waiters, (2, 1), strict=True):
            assert len(line._requests) == 2, f"{left} wait"
            waiter.cancel()
            await turns_of_the_loop()
        assert list(line._requests) == ["first"]
    asked.answering.set()
    assert await line.get("two") == "two"
    assert asked.questions == ["first", "two"]


async def test_a_request_that_has_its_place_continues_without_callers(asked: Asked) -> None:
    cache: Cache[str, str] = Cache(asked, fresh_seconds=10.0, most=3, now=lambda: 0.0, places=asyncio.Semaphore(1))
    waiter = asyncio.create_task(cache.get("one"))
    await turns_of_the_loop()
    waiter.cancel()
    assert isinstance(await outcome(waiter), asyncio.CancelledError)
    asked.answering.set()
    await turns_of_the_loop()
    assert cache.peek("one") == "one"


async def test_of_many_requests_without_callers_only_those_left_last_continue(cache: Cache[str, str], asked: Asked) -> None:
    kept = asyncio.create_task(cache.get("0"))
    for number in range(1_000):
        leaver = asyncio.create_task(cache.get(str(number)))
        await turns_of_the_loop()
        leaver.cancel()
    back = asyncio.create_task(cache.get("999"))
    await turns_of_the_loop()
    assert len(asked.questions) == 1_000
    assert len(cache._requests) == MOST_LEFT + 1
    assert list(cache._left) == [str(number) for number in range(1_000 - MOST_LEFT, 999)], "request 999 has a caller again"
    asked.answering.set()
    assert [await kept, await back] == ["0", "999"]
    await turns_of_the_loop()
    assert not cache._requests
    assert not cache._left


async def test_a_caller_that_arrives_while_a_request_is_being_given_up_gets_an_answer(line: Cache[str, str], asked: Asked) -> None:
    leaver = asyncio.create_task(line.get("one"))
    await turns_of_the_loop()
    given_up = line._requests["one"]
    leaver.cancel()
    while "one" in line._requests:  # noqa: ASYNC110 (a turn of the loop)
        await asyncio.sleep(0)
    assert not given_up.task.done(), "it is being cancelled"
    joined = asyncio.create_task(line.get("one"))
    await asyncio.sleep(0)
    await turns_of_the_loop()
    asked.answering.set()
    async with asyncio.timeout(_HANGS_SECONDS):
        assert await joined == "one"
    assert asked.questions == ["first", "one"]


@pytest.mark.parametrize("stale", [False, True])
async def test_a_refresh_is_sent_although_no_caller_waits_for_it(asked: Asked, stale: bool) -> None:
    now = 0.0
    cache: Cache[str, str] = Cache(asked, fresh_seconds=10.0, most=3, now=lambda: now, places=asyncio.Semaphore(1))
    asked.answering.set()
    assert await cache.get("one") == "one"
    asked.answering.clear()
    before = asyncio.create_task(cache.get("before"))
    await turns_of_the_loop()
    now = 11.0 if stale else 6.0
    assert await cache.get("one", stale=stale) == "one"
    if stale:
        waiter = asyncio.create_task(cache.get("one"))
        await turns_of_the_loop()
        waiter.cancel()
    await turns_of_the_loop()
    asked.answering.set()
    assert await before == "before"
    await turns_of_the_loop()
    assert asked.questions == ["one", "before", "one"]


@pytest.mark.parametrize("stale", [False, True])
async def test_a_new_callers_request_waits_for_only_a_few_refreshes(asked: Asked, stale: bool) -> None:
    now = 0.0
    cache: Cache[str, str] = Cache(asked, fresh_seconds=10.0, most=1_000, now=lambda: now, places=asyncio.Semaphore(1))
    asked.answering.set()
    known = [str(number) for number in range(200)]
    for key in known:
        await cache.get(key)
    asked.answering.clear()
    asked.questions.clear()
    now = 11.0 if stale else 6.0
    for key in known:
        assert await cache.get(key, stale=stale) == key
    newcomer = asyncio.create_task(cache.get("newcomer"))
    await turns_of_the_loop()
    asked.answering.set()
    assert await newcomer == "newcomer"
    assert asked.questions == [*known[:MOST_REFRESHES], "newcomer"]
    for _ in range(len(known)):
        for key in known:
            assert await cache.get(key, stale=stale) == key
        await turns_of_the_loop()
    assert set(asked.questions) == {*known, "newcomer"}, "later uses make up for refreshes that were left out"
    assert len(asked.questions) == len(known) + 1, "each key is refreshed once"


async def test_a_place_granted_to_a_request_that_is_being_given_up_goes_to_the_next_request(asked: Asked) -> None:
    places = asyncio.Semaphore(1)
    cache: Cache[str, str] = Cache(asked, fresh_seconds=10.0, most=3, now=lambda: 0.0, places=places)
    asked.answering.set()
    await places.acquire()
    leaver = asyncio.create_task(cache.get("one"))
    await turns_of_the_loop()
    leaver.cancel()
    places.release()
    async with asyncio.timeout(_HANGS_SECONDS):
        assert await cache.get("two") == "two"
        assert await cache.get("one") == "one"


def test_the_oldest_answers_are_evicted_and_an_answer_that_is_replaced_is_the_newest() -> None:
    answers: NewestAnswers[str, int] = NewestAnswers(3)
    for number, key in enumerate(("one", "two", "three", "one", "four")):
        answers.put(key, Known(number, 0.0))
    kept = [answers.of(key) for key in ("one", "two", "three", "four")]
    assert [answer and answer.value for answer in kept] == [3, None, 2, 4]
    assert len(answers) == 3


def test_evicting_the_oldest_of_many_answers_takes_no_longer_than_of_a_few() -> None:
    def seconds_for(most: int) -> float:
        answers: NewestAnswers[int, int] = NewestAnswers(most)
        for number in range(most):
            answers.put(number, Known(number, 0.0))
        later = [(number, Known(number, 0.0)) for number in range(most, most + 50_000)]
        began = time.process_time()
        for number, answer in later:
            answers.put(number, answer)
        assert len(answers) == most
        return time.process_time() - began

    assert seconds_for(44_000) < 8 * seconds_for(32)
