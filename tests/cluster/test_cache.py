"""Answers are remembered, bounded and shared; whoever waits for a request of others is told how it ended, and nothing else."""

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
    """Answers a key with itself when the test says so."""

    def __init__(self) -> None:
        self.questions: list[str] = []
        self.answering = asyncio.Event()
        self.behind: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Something that a request awaits, and that others may cancel."""

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
    """What a waiter had; ``CancelledError`` if it was cancelled."""
    (had,) = await asyncio.gather(waiter, return_exceptions=True)
    return had


async def test_whoever_shares_the_question_of_a_caller_that_is_cancelled_has_its_answer(cache: Cache[str, str], asked: Asked) -> None:
    first, second = (asyncio.create_task(cache.get("one")) for _ in range(2))
    await turns_of_the_loop()
    first.cancel()
    await turns_of_the_loop()
    asked.answering.set()
    assert isinstance(await outcome(first), asyncio.CancelledError)
    assert await outcome(second) == "one"
    assert asked.questions == ["one"]


async def test_whoever_waits_when_a_cache_is_closed_is_told_so_and_is_not_cancelled(cache: Cache[str, str]) -> None:
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


async def test_nothing_is_asked_of_a_cache_that_was_closed(asked: Asked, caplog: pytest.LogCaptureFixture) -> None:
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


async def test_a_cancellation_of_what_a_question_awaits_is_an_error_and_cancels_nobody(
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


async def test_a_question_goes_with_the_last_of_those_who_wait_for_it_before_it_has_its_place(line: Cache[str, str], asked: Asked) -> None:
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


async def test_a_question_that_has_its_place_goes_on_for_nobody(asked: Asked) -> None:
    cache: Cache[str, str] = Cache(asked, fresh_seconds=10.0, most=3, now=lambda: 0.0, places=asyncio.Semaphore(1))
    waiter = asyncio.create_task(cache.get("one"))
    await turns_of_the_loop()
    waiter.cancel()
    assert isinstance(await outcome(waiter), asyncio.CancelledError)
    asked.answering.set()
    await turns_of_the_loop()
    assert cache.peek("one") == "one"


async def test_of_many_questions_that_everybody_has_left_the_last_ones_go_on(cache: Cache[str, str], asked: Asked) -> None:
    kept = asyncio.create_task(cache.get("0"))
    for number in range(1_000):
        leaver = asyncio.create_task(cache.get(str(number)))
        await turns_of_the_loop()
        leaver.cancel()
    back = asyncio.create_task(cache.get("999"))
    await turns_of_the_loop()
    assert len(asked.questions) == 1_000
    assert len(cache._requests) == MOST_LEFT + 1
    assert list(cache._left) == [str(number) for number in range(1_000 - MOST_LEFT, 999)], "one is waited for again"
    asked.answering.set()
    assert [await kept, await back] == ["0", "999"]
    await turns_of_the_loop()
    assert not cache._requests
    assert not cache._left


async def test_whoever_joins_as_a_question_is_given_up_has_an_answer(line: Cache[str, str], asked: Asked) -> None:
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
async def test_what_keeps_an_answer_known_is_asked_although_nobody_waits(asked: Asked, stale: bool) -> None:
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
async def test_a_newcomer_stands_behind_few_of_the_questions_that_keep_answers_known(asked: Asked, stale: bool) -> None:
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
    assert set(asked.questions) == {*known, "newcomer"}, "later uses ask what was left out"
    assert len(asked.questions) == len(known) + 1, "once"


async def test_a_place_that_came_to_a_question_as_it_was_given_up_is_anothers(asked: Asked) -> None:
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


def test_the_oldest_answers_go_and_one_that_is_answered_anew_is_the_newest() -> None:
    answers: NewestAnswers[str, int] = NewestAnswers(3)
    for number, key in enumerate(("one", "two", "three", "one", "four")):
        answers.put(key, Known(number, 0.0))
    kept = [answers.of(key) for key in ("one", "two", "three", "four")]
    assert [answer and answer.value for answer in kept] == [3, None, 2, 4]
    assert len(answers) == 3


def test_forgetting_the_oldest_of_many_answers_takes_no_longer_than_of_a_few() -> None:
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
